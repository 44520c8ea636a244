"""ViDoRAG, and the Gaussian mixture that cuts its retrieval off."""
