"""What a run or a sweep would take, before any of it is spent."""
