"""Relations between claims: by the files and things they mention, and by what changed."""
