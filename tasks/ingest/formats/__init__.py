"""One module or folder a transcript format, and the registry that tells them apart."""
