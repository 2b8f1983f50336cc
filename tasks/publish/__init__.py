"""Release the newest tables, and export a release."""
