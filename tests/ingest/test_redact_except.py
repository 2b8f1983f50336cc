"""A word that was masked and is no secret: it is listed, and comes back from its transcript once a person says so."""

import json
from pathlib import Path

from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.store import Store
from slowwave.text.redact import redact_json, redact_text

MASKED = "The lamp's password: Qqnk7giauw655"
OTHER = "The crane's password: Vjma2wjznh543"


def test_only_the_named_word_is_left() -> None:
    keep = frozenset({"Qqnk7giauw655"})
    assert redact_text(MASKED) == "The lamp's password: [redacted:password]"
    assert redact_text(MASKED, keep) == MASKED
    assert "[redacted:" in redact_text(OTHER, keep)
    member = json.dumps({"password": "Qqnk7giauw655", "secret": "Vjma2wjznh543"})
    assert json.loads(redact_json(member, keep)[0]) == {
        "password": "Qqnk7giauw655",
        "secret": "[redacted:secret]",
    }


def test_a_word_is_restored_from_its_transcript(tmp_path: Path) -> None:
    lines = [
        {"session_id": "a", "message_id": f"a{n}", "role": "user", "content": text}
        for n, text in enumerate((MASKED, OTHER))
    ]
    path = tmp_path / "src" / "a.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = Settings(store=tmp_path / "s", encoder="hash-384")
    run_night([path.parent], settings)
    listing = LEDGERS["redactions"](settings, False)
    assert {(row["kind"], row["where"]) for row in listing.rows} == {
        ("password", "The lamp's password: [redacted:password]"),
        ("password", "The crane's password: [redacted:password]"),
    }
    assert "redact_except" in listing.notes[0]
    said = settings.model_copy(update={"redact_except": ["Qqnk7giauw655"]})
    run_night([path.parent], said)
    texts = Store.open(tmp_path / "s").read(MESSAGES, ["text"])["text"].to_pylist()
    assert MASKED in texts
    assert not any("Vjma2wjznh543" in text for text in texts)
    (hit, *_) = Memory.open(tmp_path / "s").recall("the lamp's password")
    assert hit.text == MASKED
