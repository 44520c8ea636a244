"""The embedded reader: an extractive model without a neural network."""
