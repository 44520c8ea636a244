"""Figures, equal to the byte for equal data."""
