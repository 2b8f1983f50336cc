"""The Persistent Mind Model's ledgers."""
