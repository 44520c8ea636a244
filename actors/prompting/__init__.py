"""Builds prompts, defines the forms of replies, and reads replies."""
