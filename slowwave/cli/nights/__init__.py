"""Commands that read, make or unmake the memory: nights, steps, what is left out or forgotten, experiments."""
