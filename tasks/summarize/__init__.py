"""Roll sealed groups up into summaries."""
