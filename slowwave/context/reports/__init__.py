"""What a long report's block may show: clauses of past sessions, and how likely each matters."""
