"""MMAPG, and the planning graph that it grows."""
