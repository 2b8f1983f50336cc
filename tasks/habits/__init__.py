"""Find agents' recurring actions without a model: files changed together, sequences of steps, commands."""
