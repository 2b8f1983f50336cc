"""The thin Prefect tasks: each asks which rows lack its output, calls the pure function, writes, and marks last."""
