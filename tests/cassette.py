"""Recorded answers of a strong model, replayed by the scripted engine: `SLOWWAVE_LLM=scripted:tests.cassette:replay`.

`cassettes/samples.json` has the answers to what a night over `data/samples` asks (encoder `hash-384`), the model that
gave them and the day. They belong to the prompts that ship: when a prompt changes, it is asked again. To ask again, run
`pytest tests/flows/test_recorded_night.py` with `SLOWWAVE_CASSETTE=FOLDER`: every question without an answer is written
to `FOLDER/KEY.txt`, and `FOLDER/KEY.json` is read as the answer to it. Repeat until no text is new; the last run writes
the cassette anew. `SLOWWAVE_ANSWERS=FILE` takes the answers from another file of that form.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from slowwave.engines.llm.protocol import Request, make_failure
from slowwave.schemas.ids import compute_content_id

CASSETTE = Path(__file__).parent / "cassettes" / "samples.json"
REPLAY = "scripted:tests.cassette:replay"
"""The model that answers from recorded answers, as settings name it."""
ANSWERS = "SLOWWAVE_ANSWERS"
"""The environment variable that names another file of answers."""
used: dict[str, Any] = {}
"""Answers that were given since the process began, by key."""


def load() -> dict[str, Any]:
    """The cassette: `model`, `date`, and `answers` by key."""
    return _read(Path(os.environ.get(ANSWERS, CASSETTE)))


@cache
def _read(path: Path) -> dict[str, Any]:
    cassette: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return cassette


def make_key(request: Request) -> str:
    """What a question is known by: all that the model is shown."""
    return compute_content_id(*(message["content"] for message in request.messages))


def replay(request: Request) -> Any:
    """The recorded answer; without one the model cannot be reached, and the question is written down."""
    key, folder = make_key(request), os.environ.get("SLOWWAVE_CASSETTE")
    answers = load()["answers"]
    if key in answers:
        used[key] = answers[key]
    elif folder and (answer := Path(folder) / f"{key}.json").is_file():
        used[key] = json.loads(answer.read_text(encoding="utf-8"))
    else:
        if folder:
            shown = "\n".join(
                f"=== {turn['role']} ===\n{turn['content']}"
                for turn in request.messages
            )
            (Path(folder) / f"{key}.txt").write_text(
                f"{json.dumps(request.schema)}\n{shown}\n", encoding="utf-8"
            )
        return make_failure(
            request,
            "unavailable",
            f"{request.id} has no recorded answer: tests/cassette.py says how",
        )
    return used[key]


def save() -> None:
    """Write the cassette with what was used of it and what was answered since."""
    text = json.dumps(
        {**load(), "answers": dict(sorted(used.items()))}, ensure_ascii=False, indent=1
    )
    CASSETTE.write_text(f"{text}\n", encoding="utf-8")
