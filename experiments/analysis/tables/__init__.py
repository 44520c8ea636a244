"""Tables of the papers: definitions, measured figures and reported ones."""
