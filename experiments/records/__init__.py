"""Writes and reads what a run records: traces, scores, checkpoints, usage, progress and W&B."""
