"""Agents, their models and the runtime that connects them. Knows nothing of graphs, retrieval or labels."""
