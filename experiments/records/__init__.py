"""What a run writes while it runs: records, checkpoints, usage, progress and W&B."""
