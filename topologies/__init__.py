"""Ways in which agents discuss a question; they know messages, and nothing of the runtime, retrieval or labels."""
