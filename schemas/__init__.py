"""What the data is: tables, settings, ids, errors. Imports nothing else of slowwave."""
