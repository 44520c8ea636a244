"""The models that answer: vLLM engines, endpoints, the embedded reader, and the user's own."""
