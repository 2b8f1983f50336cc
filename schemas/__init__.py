"""What the data is: one file a table, and the settings. Imports nothing else of slowwave."""
