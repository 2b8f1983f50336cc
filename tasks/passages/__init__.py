"""Cut messages into passages and encode them."""
