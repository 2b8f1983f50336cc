"""How claims hang together: by the files and things they speak of, by the order they were said in, by what changed."""
