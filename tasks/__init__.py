"""One step a file: a pure function, Arrow in and Arrow out, and the thin step over the store around it."""
