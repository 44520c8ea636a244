"""Attacks, one file each with its threat model; who is compromised, and what it achieved."""
