"""What was found, put in order: kinds merged, what changed marked, sources, a reranker."""
