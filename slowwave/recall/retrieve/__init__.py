"""The retrievers: candidates of each kind, scored and fused."""
