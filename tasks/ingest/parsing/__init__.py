"""What the formats share: records, values, times, lines, documents, trees of messages."""
