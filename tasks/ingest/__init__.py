"""Read transcripts, redact them, and keep their messages in the vault."""
