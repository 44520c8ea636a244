"""The embedded model: extractive, without a neural network."""
