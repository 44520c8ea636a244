"""Measurement of redundant edges (Definition 1 of M3Prune)."""
