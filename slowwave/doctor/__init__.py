"""What is wrong with the memory one keeps by hand: files of notes held against themselves and against a store."""
