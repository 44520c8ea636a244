"""Loaders of benchmarks: labelled items over a corpus of sources."""
