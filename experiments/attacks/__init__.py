"""Attacks, one file each with its threat model; the choice of compromised agents; measures of the harm done."""
