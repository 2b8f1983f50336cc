"""Gists: short, from the message itself, one for every message that says something, whatever fails."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slowwave.engines.encoders.protocol import Encoder, HashEncoder
from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import GISTS, QUARANTINE
from slowwave.store import Store
from slowwave.tasks.gists.gists import KEYWORDS, LONGEST, build_gists

LONG = (
    "Sure! The nightly job failed because the lock file was left behind by a killed run. "
    "I looked at the logs of the last three nights to find out what they have in common. "
    "Each time the machine had been restarted by the hosting company during the night. "
    "The fix makes the lock file carry the process id, so that a new run can tell a dead owner from a living one. "
    "There is also a test now that kills the run at each step. "
    "Let me know if you want me to look into anything else today, I am happy to help."
)
CODE = "```\n" + "x = 1\n" * 80 + "```"
HASH = HashEncoder(64)
ANSWERS = {"Porto": "Twelve backups are kept in Porto.", "Faro": "Backups are kept in Lisbon.", "Evora": "14 keys."}
"""What the model makes of a message, by a word of it."""


def answer(request: Request) -> dict[str, Any]:
    """A model that reads one message well, and two badly."""
    asked = request.messages[-1]["content"]
    summary = next((gist for word, gist in ANSWERS.items() if word in asked), " ")
    return {"summary": summary, "keywords": ["backups"]}


def test_a_long_message_is_told_by_the_sentence_nearest_to_it(encoder: Encoder) -> None:
    (gist,) = build_gists([LONG], encoder.encode)
    assert gist.summary == "The nightly job failed because the lock file was left behind by a killed run"
    assert "lock file" in gist.keywords
    assert gist.strategy == "extractive"


def test_a_short_message_is_its_own_summary_without_filler() -> None:
    (gist,) = build_gists(["Hey, thanks! We moved the meeting to Friday."], HASH.encode)
    assert (gist.summary, gist.keywords) == ("We moved the meeting to Friday", ("moved", "meeting", "friday"))


def test_what_has_no_sentence_or_no_encoder_is_told_by_its_first_words() -> None:
    code, port, no_encoder = build_gists([CODE, "Yes, on port 5433."], HASH.encode) + build_gists([LONG], None)
    assert (code.strategy, port.strategy, no_encoder.strategy) == ("truncated", "extractive", "truncated")
    assert code.summary.startswith("``` x = 1 x = 1")
    assert code.summary.endswith(" …")
    assert no_encoder.summary.startswith("Sure! The nightly job failed")
    assert no_encoder.keywords == build_gists([LONG], HASH.encode)[0].keywords


@given(st.lists(st.text(alphabet="aI my.,!?\n`#-é東'…(", max_size=600).filter(str.strip), min_size=1, max_size=4))
def test_every_message_has_one_short_gist_that_depends_on_it_alone(texts: list[str]) -> None:
    for encode in (HASH.encode, None):
        gists = build_gists(texts, encode)
        assert all(gist.summary and len(gist.summary) <= LONGEST + 2 for gist in gists)
        assert all(len(gist.keywords) <= KEYWORDS for gist in gists)
        assert gists == [build_gists([text], encode)[0] for text in texts]


def test_a_models_gist_is_held_to_its_message(tmp_path: Path) -> None:
    said = [f"From now on we keep 12 backups in {town}." for town in ("Porto", "Faro", "Evora", "Braga")]
    lines = [{"session_id": "s", "message_id": text[-6:-1], "role": "user", "content": text} for text in [*said, "👍"]]
    (tmp_path / "talk.jsonl").write_text("\n".join(map(json.dumps, lines)))
    model = {"llm": f"scripted:{__name__}:answer > extractive", "gists": "llm", "extract": {"gist_words": 5}}
    run_night([tmp_path / "talk.jsonl"], Settings(store=tmp_path / "store", encoder="hash-384", **model))
    store = Store.open(tmp_path / "store")
    assert {(row["strategy"], row["summary"]) for row in store.read(GISTS).to_pylist()} == {
        ("llm", "Twelve backups are kept in Porto."),
        *(("extractive", f"From now on we keep 12 backups in {town}") for town in ("Faro", "Evora", "Braga")),
        ("truncated", "👍"),
    }
    assert {row["reason"] for row in store.read(QUARANTINE).to_pylist() if row["step"] == "gists"} == {
        "Lisbon never comes up in the transcript",
        "the number 14 does not come up in the transcript",
        "the answer is no gist",
    }
