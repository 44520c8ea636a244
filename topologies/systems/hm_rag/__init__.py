"""HM-RAG, and the measure of agreement between its agents' answers."""
