"""Sessions as files of generic JSONL, for tests that run whole nights."""

import json
from collections.abc import Sequence
from pathlib import Path


def session(folder: Path, name: str, day: int, said: Sequence[tuple[str, str]], workspace: str = "/ferry") -> Path:
    """A session of that day of March 2026, a turn a minute; `said`: role and text."""
    lines = [
        {"session_id": name, "message_id": f"{name}-{n}", "role": role, "content": text, "workspace": workspace,
         "ts": f"2026-03-{day:02d}T10:{n:02d}:00Z"}
        for n, (role, text) in enumerate(said)
    ]  # fmt: skip
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
