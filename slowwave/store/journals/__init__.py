"""What stands beside the tables in a space's folder, line by line: notes, talks, recalls, ratings, probes."""
