"""Looks into a run folder: what an agent was shown in a turn, and what its model replied. Starts no process."""
