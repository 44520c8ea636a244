"""Writes run folders in the formats of other tools. Labels are in them."""
