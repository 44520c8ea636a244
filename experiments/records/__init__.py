"""Writes and reads the records of a run: traces, scores, checkpoints, usage, progress and W&B."""
