"""What `assign` is made of: the rules of the base topics, clustering, splitting, names."""
