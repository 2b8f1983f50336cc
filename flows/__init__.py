"""The steps in order: nightly, reprocess, export."""
