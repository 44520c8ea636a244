"""Measuring instruments: benchmarks, and how faithfully systems follow their authors."""
