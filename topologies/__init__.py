"""Ways in which agents discuss a question. They know messages and nothing of runtime, retrieval or labels."""
