"""Attacks with their threat models, the choice of compromised agents, measures of harm."""
