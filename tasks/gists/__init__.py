"""Each message's summary and keywords."""
