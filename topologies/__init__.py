"""How agents discuss a question; knows messages, and nothing of the runtime, retrieval or labels."""
