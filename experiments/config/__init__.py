"""The typed configuration, how it is read, and which code it may name."""
