"""How claims hang together: by the files and things they speak of, and by what changed."""
