"""Retrieval of a question's evidence, and the library that systems search."""
