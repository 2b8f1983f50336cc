"""What a long report's block may show: sentences of past sessions, and how likely each matters."""
