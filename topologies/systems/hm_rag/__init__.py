"""HM-RAG, and how far its agents' answers agree."""
