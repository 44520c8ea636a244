"""What the records of the official releases look like, a schema per layout; a loader gets no others."""
