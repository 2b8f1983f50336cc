"""What agents do over and over: files changed together, steps in a row, commands; without a model."""
