"""BDoG, a debate on a blueprint graph, and the forms in which such graphs are stated."""
