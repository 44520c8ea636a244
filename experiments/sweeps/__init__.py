"""Sweeps: many runs that share their agents, on Ray Tune."""
