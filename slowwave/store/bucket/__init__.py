"""Stores in a bucket of S3, Google Cloud Storage or Azure, worked on in a copy on this machine's disk."""
