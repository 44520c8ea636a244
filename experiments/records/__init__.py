"""The output of a run in progress: records, checkpoints, usage, progress and W&B."""
