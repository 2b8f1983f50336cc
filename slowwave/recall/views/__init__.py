"""What a release shows without a query: rows by id, claims, themes, habits, relations, another release."""
