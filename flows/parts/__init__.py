"""What the flows are made of: a run and its report, which sessions it is about, an experiment's data and trials;
and the repair of a store.
"""
