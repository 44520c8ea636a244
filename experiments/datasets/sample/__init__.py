"""The generated benchmark: a closed world in MultimodalQA's layout."""
