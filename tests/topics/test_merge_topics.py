"""Topics that a model names twice become one, base topics have a ceiling, small ones a summary; what it is shown."""

import re
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.memory import Memory
from slowwave.schemas.counters import Count
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    SUMMARIES,
    TABLES,
    TOPIC_HISTORY,
    TOPICS,
)
from slowwave.store import Store
from slowwave.tasks.topics import by_model, cluster
from slowwave.tasks.topics.cluster import TopicLimits
from tests.llm_scripts import ENTRY, FIRST_NEW, faithful, kind, material
from tests.talk_files import chat, session

DISHES = [
    "soup",
    "bread",
    "rice",
    "pasta",
    "salad",
    "stew",
    "cake",
    "pie",
    "curry",
    "omelette",
]
TALK = [
    f"I cook {dish} with salt and pepper in the kitchen on Sunday." for dish in DISHES
] + [f"The boat number {n} lies at the harbour with a torn sail." for n in range(6)]


def naming_twice(request: Request) -> Any:
    """A model that opens a topic of another name for each dish, and one for boats; it sees that the dishes are one."""
    if kind(request) == "merges":
        kitchens = re.findall(r"^topic (\d+): kitchen", material(request), re.MULTILINE)
        return {
            "merges": [
                {"topic": int(n), "into": int(kitchens[0])} for n in kitchens[1:]
            ]
        }
    if kind(request) != "topics":
        return faithful(request)
    first = int(FIRST_NEW.findall(request.messages[0]["content"])[0])
    entries = re.findall(r"^entry (\d+): (.*)$", material(request), re.MULTILINE)
    opened: dict[str, int] = {}
    new = []
    placements = []
    for number, text in entries:
        dish = next((one for one in DISHES if one in text), None)
        name, purpose = (
            (f"kitchen {dish}", "what they cook in the kitchen")
            if dish
            else ("harbour", "boats and sails")
        )
        if name not in opened and len(new) < 5:
            opened[name] = first + len(new)
            new.append({"name": name, "purpose": purpose})
        if name in opened:
            placements.append({"entry": int(number), "topic": opened[name]})
    return {"new_topics": new, "placements": placements}


def selfish(request: Request) -> Any:
    """A model that puts all under the first topic it is shown, which is a base one; asked to cut it, it does."""
    if kind(request) != "topics":
        return faithful(request)
    if "holds a large part" in request.messages[0]["content"]:
        trains = re.findall(
            r"^entry (\d+): [^\n]*train", material(request), re.MULTILINE
        )
        placements = [{"entry": int(n), "topic": 1} for n in trains]
        return {
            "new_topics": [{"name": "trains", "purpose": "When trains leave."}],
            "placements": placements,
        }
    numbers = [int(n) for n in ENTRY.findall(material(request))]
    return {"new_topics": [], "placements": [{"entry": n, "topic": 1} for n in numbers]}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_model, "SIZES", by_model.Sizes(batch=5))


def run(folder: Path, script: str, said: list[str]) -> tuple[RunReport, Store]:
    settings = Settings(
        store=folder / "store",
        encoder="hash-384",
        llm=f"scripted:tests.topics.test_merge_topics:{script}",
        extract={"max_claims": 50},
    )
    return run_night([chat(folder, "a", 2, said)], settings), Store.open(settings.store)


def test_topics_that_the_model_sees_are_one_become_one_and_stay_so(
    tmp_path: Path,
) -> None:
    report, store = run(tmp_path, "naming_twice", TALK)
    (step,) = [step for step in report.steps if step.step == "assign"]
    assert step.counts[Count.TOPICS_MERGED] >= 5
    topics = {
        row["name"]: row["size"]
        for row in store.read(TOPICS).to_pylist()
        if row["size"]
    }
    kitchens = [name for name in topics if name.startswith("kitchen")]
    assert len(kitchens) == 1
    assert topics["harbour"] == 6
    gone = {
        row["name"]
        for row in store.read(TOPIC_HISTORY).to_pylist()
        if row["kind"] == "merge"
    }
    assert gone
    versions = store.read_versions(TABLES.values())
    assert run(tmp_path, "naming_twice", TALK)[0].release is None
    assert store.read_versions(TABLES.values()) == versions


def test_a_base_topic_that_a_model_puts_all_in_is_cut_as_the_model_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LIMITS", TopicLimits(min_to_split=10))
    said = [*TALK, *(f"My train to {town} leaves at {n} from platform {n}." for n, town in enumerate(
        ["Porto", "Braga", "Lisbon", "Faro", "Evora", "Aveiro", "Beja", "Viseu"], 3))]  # fmt: skip
    report, store = run(tmp_path, "selfish", said)
    sizes = {
        row["name"]: row["size"]
        for row in store.read(TOPICS).to_pylist()
        if row["size"]
    }
    # A second time the model leaves it as it is.
    assert sizes == {
        "self": len(TALK),
        "trains": 8,
    }
    (step,) = [step for step in report.steps if step.step == "assign"]
    assert step.counts[Count.TOPICS_SPLIT] == 1
    events = store.read(TOPIC_HISTORY).to_pylist()
    assert [(row["kind"], row["name"], row["other_name"]) for row in events] == [
        ("split", "self", "trains")
    ]
    versions = store.read_versions(TABLES.values())
    assert run(tmp_path, "selfish", said)[0].release is None
    assert store.read_versions(TABLES.values()) == versions


def test_a_topic_of_a_few_claims_has_a_summary_until_a_group_is_full(
    tmp_path: Path,
) -> None:
    _, store = run(tmp_path, "faithful_here", TALK[:4])
    of_topics = store.read(SUMMARIES, where=pc.field("scope") == "topic").to_pylist()
    assert [
        (row["tier"], row["sealed"], len(row["member_ids"]), row["title"])
        for row in of_topics
    ] == [(-1, False, 4, "daily life")]
    assert of_topics[0]["text"] == "An account of what was said, in plain prose."
    claims = store.count(CLAIMS)
    _, store = run(tmp_path, "faithful_here", TALK)
    assert store.count(CLAIMS) > claims
    of_topics = store.read(SUMMARIES, where=pc.field("scope") == "topic").to_pylist()
    assert {row["tier"] for row in of_topics} == {0, -1}  # one over all of it stays
    texts = {row["name"]: row["text"] for row in store.read(TOPICS).to_pylist()}
    assert texts["daily life"] == "An account of what was said, in plain prose."
    for query, topics in (
        ("account in plain prose", ["daily life"]),
        ("soup with pepper", []),
    ):
        lines = [
            line
            for part in Memory.open(store.dir.parent).context(query).parts
            for line in part.lines
        ]
        assert [line.source.topic for line in lines if line.source.topic] == topics


faithful_here = faithful


SHOWN = re.compile(
    r"^topic (\d+)[^\n]*?: ([^\n]*)\n +belongs here: ([^\n]*)((?:\n +lately: [^\n]*)?)",
    re.MULTILINE,
)
CLAIM = re.compile(r"^entry (\d+)[^\n]*?: (?:It was said that )?([^\n]*)", re.MULTILINE)
KINDS = {
    "otter": ("harbour", "Whatever swims."),
    "bulb": ("tower", "Shining things."),
    "wick": ("candles", "Shining things."),
}
FIRST = [f"The otter number {n} came to us before breakfast." for n in range(3)]
FIRST += [
    "The otter of pier nine eats a fish every hour.",
    "The otter of pier nine sleeps under the blue boat.",
]
FIRST += [f"The bulb number {n} burns without any flicker." for n in range(2)]
FIRST += [f"The wick number {n} drips upon our table." for n in range(2)]
SECOND = [
    "Somebody painted that harbour wall in yellow.",
    "Ada counted whatever swims past her window today.",
]
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
        topics = [
            (int(n), of_purpose.setdefault(purpose, int(n)))
            for n, _, purpose, _ in SHOWN.findall(shown)
        ]
        return {
            "merges": [{"topic": n, "into": first} for n, first in topics if n != first]
        }
    if kind(request) != "topics":
        return faithful(request)
    entries = [
        (int(n), set(re.findall(r"\w{4,}", text.lower())))
        for n, text in CLAIM.findall(shown)
    ]
    if "holds a large part" in system:
        leave = (
            [n for n, words in entries if "pier" in words]
            if "Whatever swims" in shown
            else []
        )
        return {
            "new_topics": [{"name": "piers", "purpose": "Pier nine."}],
            "placements": _place(leave, 1),
        }
    known = {
        int(n): set(re.findall(r"\w{4,}", " ".join(told).lower()))
        for n, *told in SHOWN.findall(shown)
        if int(n) > 3
    }
    first = int(FIRST_NEW.findall(system)[0])
    new, placements = list[tuple[str, str]](), list[dict[str, int]]()
    for n, words in entries:
        near = [
            topic
            for topic, told in known.items()
            if words & told - {"that", "number", "lately", "said"}
        ]
        name, purpose = next(
            (KINDS[one] for one in KINDS if one in words), ("lost", "Nobody knows.")
        )
        if not near and (name, purpose) not in new:
            new.append((name, purpose))
        at = near[0] if near else first + new.index((name, purpose))
        placements += _place([n], at)
    return {
        "new_topics": [{"name": name, "purpose": purpose} for name, purpose in new],
        "placements": placements,
    }


def _place(entries: list[int], topic: int) -> list[dict[str, int]]:
    return [{"entry": n, "topic": topic} for n in entries]


def test_a_model_sees_names_purposes_samples_and_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LIMITS", TopicLimits(min_to_split=10, max_share=0.5))
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", llm=f"scripted:{__name__}:wired"
    )
    for day, said in enumerate((FIRST, SECOND), 1):
        run_night(
            [session(tmp_path, f"s{day}", day, [("user", text) for text in said])],
            settings,
        )
        rows = {
            row["name"]: row
            for row in Store.open(settings.store).read(TOPICS).to_pylist()
            if row["size"]
        }
        sizes = {name: row["size"] for name, row in rows.items()}
        assert sizes == (
            {"harbour": 5, "candles": 4}
            if day == 1
            else {"harbour": 6, "candles": 4, "piers": 2}
        )
    assert (
        rows["harbour"]["text"] == "Topic: harbour. What belongs to it: Whatever swims."
    )
    history = Store.open(settings.store).read(TOPIC_HISTORY).to_pylist()
    assert {(row["kind"], row["name"], row["other_name"]) for row in history} == {
        ("merge", "tower", "candles"),
        ("split", "harbour", "piers"),
    }
