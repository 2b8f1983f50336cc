"""When two claims are one: read, find candidates, score, guard, decide, gather. `tasks.dedupe` is the step."""
