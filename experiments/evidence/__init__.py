"""What is retrieved for a question, and what systems may look up."""
