"""Sessions of a few calls each, and the dead ends that are found in them."""

import json
from functools import partial
from typing import Any

from slowwave.tasks.dead_ends.find import find_in_session
from slowwave.tasks.dead_ends.moves import Move, read_moves
from slowwave.tasks.dead_ends.rows import build_rows
from slowwave.tasks.observe.statements import is_refusal

HERE = "/home/ada/harbor"
REFUSES = partial(is_refusal, in_layers=True)
Step = tuple[Any, ...]


def run(command: str, error: str | None = None, said: str = "ok") -> Step:
    """A command; with an error it failed, else it said something."""
    return "Bash", {"command": command}, error, said


def edit(path: str, old: str, new: str, error: str | None = None) -> Step:
    return (
        "Edit",
        {"file_path": f"{HERE}/{path}", "old_string": old, "new_string": new},
        error,
    )


def find(*steps: Step | str) -> list[dict[str, Any]]:
    """Rows of the dead ends of a session; a text is what a person says."""
    session = {"session_id": "s", "workspace": HERE}
    return build_rows(session, find_in_session(read_session(*steps), REFUSES), "k")


def read_session(*steps: Step | str) -> list[Move]:
    """The moves of a session; a text is what a person says, and a step without a tool what the model does."""
    messages = []
    for number, step in enumerate(steps):
        row = {"message_id": f"m{number}", "ts": None, "text": "", "origin": "model"}
        if isinstance(step, str):
            messages.append({**row, "origin": "human", "text": step, "blocks": []})
            continue
        tool, given, error, *said = step
        if not tool:
            messages.append({**row, "text": given, "blocks": []})
            continue
        call = {"type": "tool_call", "name": tool, "text": json.dumps(given)}
        result = {
            "type": "tool_result",
            "name": None,
            "text": error or "".join(said) or "ok",
            "is_error": error is not None,
        }
        blocks = [{**block, "call_id": f"c{number}"} for block in (call, result)]
        messages.append({**row, "blocks": blocks})
    return read_moves(messages, HERE)
