"""The pyramid of summaries: pure functions, the same over topics, stored sessions and a conversation that runs."""
