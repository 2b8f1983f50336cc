"""Each message's summary, keywords and key facts."""
