"""The memory in a browser: pages that show it, and the same as JSON at the same addresses."""
