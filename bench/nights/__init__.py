"""What a night makes and what it takes: claims, duplicates, topics, summaries, secrets, models' answers."""
