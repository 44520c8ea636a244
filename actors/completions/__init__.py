"""The completion cache, in memory and on disk."""
