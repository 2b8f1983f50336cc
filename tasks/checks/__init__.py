"""Compare claims and passages with the checkout of git that they are about."""
