"""What a model is shown of topics is what it needs: nights of one that goes by names, purposes, samples and claims."""

import re
from pathlib import Path
from typing import Any

from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import TOPIC_HISTORY, TOPICS
from slowwave.store import Store
from tests.llm_scripts import FIRST_NEW, faithful, kind, material
from tests.talk_files import session

SHOWN = re.compile(r"^topic (\d+)[^\n]*?: ([^\n]*)\n +belongs here: ([^\n]*)((?:\n +lately: [^\n]*)?)", re.MULTILINE)
CLAIM = re.compile(r"^entry (\d+)[^\n]*?: (?:It was said that )?([^\n]*)", re.MULTILINE)
KINDS = {
    "otter": ("harbour", "Whatever swims."),
    "bulb": ("tower", "Shining things."),
    "wick": ("candles", "Shining things."),
}
FIRST = [f"The otter number {n} came to us before breakfast." for n in range(3)]
FIRST += ["The otter of pier nine eats a fish every hour.", "The otter of pier nine sleeps under the blue boat."]
FIRST += [f"The bulb number {n} burns without any flicker." for n in range(2)]
FIRST += [f"The wick number {n} drips upon our table." for n in range(2)]
SECOND = ["Somebody painted that harbour wall in yellow.", "Ada counted whatever swims past her window today."]
SECOND += ["Everybody skipped breakfast again yesterday evening."]


def wired(request: Request) -> Any:
    """A model that places an entry by a word of a topic's name, purpose or samples, merges topics of one purpose, cuts
    one by what its claims say, and tells a topic's name and purpose in its summary.
    """
    system, shown = request.messages[0]["content"], material(request)
    if kind(request) == "account" and shown.startswith("Topic: "):
        name, purpose = shown.splitlines()[:2]
        return {"text": f"{name}. {purpose}"}
    if kind(request) == "merges":
        of_purpose: dict[str, int] = {}
        topics = [(int(n), of_purpose.setdefault(purpose, int(n))) for n, _, purpose, _ in SHOWN.findall(shown)]
        return {"merges": [{"topic": n, "into": first} for n, first in topics if n != first]}
    if kind(request) != "topics":
        return faithful(request)
    entries = [(int(n), set(re.findall(r"\w{4,}", text.lower()))) for n, text in CLAIM.findall(shown)]
    if "holds a large part" in system:
        leave = [n for n, words in entries if "pier" in words] if "Whatever swims" in shown else []
        return {"new_topics": [{"name": "piers", "purpose": "Pier nine."}], "placements": _place(leave, 1)}
    known = {
        int(n): set(re.findall(r"\w{4,}", " ".join(told).lower())) for n, *told in SHOWN.findall(shown) if int(n) > 3
    }
    first = int(FIRST_NEW.findall(system)[0])
    new, placements = list[tuple[str, str]](), list[dict[str, int]]()
    for n, words in entries:
        near = [topic for topic, told in known.items() if words & told - {"that", "number", "lately", "said"}]
        name, purpose = next((KINDS[one] for one in KINDS if one in words), ("lost", "Nobody knows."))
        if not near and (name, purpose) not in new:
            new.append((name, purpose))
        at = near[0] if near else first + new.index((name, purpose))
        placements += _place([n], at)
    return {"new_topics": [{"name": name, "purpose": purpose} for name, purpose in new], "placements": placements}


def _place(entries: list[int], topic: int) -> list[dict[str, int]]:
    return [{"entry": n, "topic": topic} for n in entries]


def test_a_model_sees_names_purposes_samples_and_claims(tmp_path: Path) -> None:
    script, topics = f"scripted:{__name__}:wired", {"min_to_split": 10, "max_share": 0.5}
    settings = Settings(store=tmp_path / "store", encoder="hash-384", llm=script, topics=topics)
    for day, said in enumerate((FIRST, SECOND), 1):
        run_night([session(tmp_path, f"s{day}", day, [("user", text) for text in said])], settings)
        rows = {row["name"]: row for row in Store.open(settings.store).read(TOPICS).to_pylist() if row["size"]}
        sizes = {name: row["size"] for name, row in rows.items()}
        assert sizes == ({"harbour": 5, "candles": 4} if day == 1 else {"harbour": 6, "candles": 4, "piers": 2})
    assert rows["harbour"]["text"] == "Topic: harbour. What belongs to it: Whatever swims."
    history = Store.open(settings.store).read(TOPIC_HISTORY).to_pylist()
    assert {(row["kind"], row["name"], row["other_name"]) for row in history} == {
        ("merge", "tower", "candles"),
        ("split", "harbour", "piers"),
    }
