"""One agent: its role, its memory and how it takes a turn."""
