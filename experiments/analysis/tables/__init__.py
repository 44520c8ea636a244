"""The papers' tables: their definitions, the figures measured here and those that the papers report."""
