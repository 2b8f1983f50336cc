"""slowwave's own plugins: the core imports none of them, and finds them by entry points (docs/plugins.md)."""
