"""MH-MMKG, and the walk through a knowledge graph that it makes."""
