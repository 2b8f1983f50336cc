"""What the flows are made of: a run and its report, which sessions it is about, and the repair of a store."""
