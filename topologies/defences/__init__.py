"""Methods that resist compromised agents."""
