"""Figures of runs and sweeps; equal data give equal files, byte for byte."""
