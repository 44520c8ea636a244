"""Prompts and replies: how a turn becomes a request, and how a reply is read."""
