"""Agents, their models and the runtime that connects them; knows nothing of graphs, retrieval or labels."""
