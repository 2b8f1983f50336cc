"""A release's tables as arrays."""
