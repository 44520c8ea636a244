"""Definition 1 of M3Prune, measured: which edges are redundant."""
