"""Tables of the papers: definitions, figures measured here and figures that the papers report."""
