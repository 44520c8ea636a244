"""Runs one agent: its role, its memory and its turns."""
