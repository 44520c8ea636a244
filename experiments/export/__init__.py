"""Writes run folders and the generated sample in the formats of other tools. Labels are in them."""
