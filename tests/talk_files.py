"""Sessions as files of generic JSONL, for tests that run whole nights."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

SAID = [
    "I moved to Porto in March and I love the river.",
    "My sister Clara lives there too, she teaches chemistry.",
    "We will visit the museum on Friday at ten o'clock.",
    "I bought a red bicycle for 240 euros yesterday.",
    "The bakery at Rua das Flores closes at six.",
    "I am allergic to walnuts, so no cake for me.",
    "The museum of trams is closed for repairs until May.",
    "My brother Rui repairs violins in a workshop at Braga.",
]
"""What two people tell of themselves, a claim each."""


def session(
    folder: Path,
    name: str,
    day: int,
    said: Sequence[tuple[str, str]],
    workspace: str | None = "/ferry",
    speakers: Sequence[str] = (),
) -> Path:
    """A session of that day of March 2026, a turn a minute; `said`: role and text; `speakers` take turns."""
    lines = [
        {"session_id": name, "message_id": f"{name}-{n}", "role": role, "content": text, "workspace": workspace,
         "speaker": speakers[n % len(speakers)] if speakers else None,
         "ts": f"2026-03-{day:02d}T{10 + n // 60}:{n % 60:02d}:00Z"}
        for n, (role, text) in enumerate(said)
    ]  # fmt: skip
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def chat(folder: Path, name: str, day: int, said: Sequence[str]) -> Path:
    """A session of Ben and Ada, who take turns, in no workspace."""
    return session(
        folder, name, day, [("user", text) for text in said], None, ("Ben", "Ada")
    )


START = datetime(2026, 3, 2, 9, tzinfo=UTC)
FACTS = (
    "The {0} service listens on port {1} of the berth {0}.",
    "We keep the {0} backups for {1} days because the auditor asked for it.",
    "I decided that the {0} cache holds {1} entries at most.",
)


def write_talk(path: Path, first: int, count: int) -> Path:
    """A file of sessions that each tell three things of their own."""
    lines = [
        {
            "session_id": f"s{number}",
            "message_id": f"s{number}m{at}",
            "role": "user",
            "workspace": "/w",
            "ts": (START + timedelta(days=number, minutes=at)).isoformat(),
            "content": fact.format(f"unit{number}x", 1000 + 7 * number + at),
        }
        for number in range(first, first + count)
        for at, fact in enumerate(FACTS)
    ]
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return path
