"""Search: vectors and words in LanceDB, a knowledge graph, the web, OCR."""
