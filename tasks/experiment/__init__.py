"""Experiments: which settings answer best, on labelled sets or on one's own past. Run by `flows/experiment.py`."""
