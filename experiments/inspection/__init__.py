"""Looks into a run folder: the prompt, sources and reply of a turn. Starts no process."""
