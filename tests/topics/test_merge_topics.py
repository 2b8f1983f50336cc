"""Topics that a model names twice become one, its base topics have a ceiling, and small topics a summary."""

import re
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS, SUMMARIES, TABLES, TOPIC_HISTORY, TOPICS
from slowwave.store import Store
from slowwave.tasks.topics import by_model
from tests.llm_scripts import ENTRY, FIRST_NEW, faithful, kind, material
from tests.talk_files import chat

DISHES = ["soup", "bread", "rice", "pasta", "salad", "stew", "cake", "pie", "curry", "omelette"]
TALK = [f"I cook {dish} with salt and pepper in the kitchen on Sunday." for dish in DISHES] + [
    f"The boat number {n} lies at the harbour with a torn sail." for n in range(6)
]


def naming_twice(request: Request) -> Any:
    """A model that opens a topic of another name for each dish, and one for boats; it sees that the dishes are one."""
    if kind(request) == "merges":
        kitchens = re.findall(r"^topic (\d+): kitchen", material(request), re.MULTILINE)
        return {"merges": [{"topic": int(n), "into": int(kitchens[0])} for n in kitchens[1:]]}
    if kind(request) != "topics":
        return faithful(request)
    first = int(FIRST_NEW.findall(request.messages[0]["content"])[0])
    entries = re.findall(r"^entry (\d+): (.*)$", material(request), re.MULTILINE)
    opened: dict[str, int] = {}
    new = []
    placements = []
    for number, text in entries:
        dish = next((one for one in DISHES if one in text), None)
        name, purpose = (f"kitchen {dish}", "what they cook in the kitchen") if dish else ("harbour", "boats and sails")
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
        trains = re.findall(r"^entry (\d+): [^\n]*train", material(request), re.MULTILINE)
        placements = [{"entry": int(n), "topic": 1} for n in trains]
        return {"new_topics": [{"name": "trains", "purpose": "When trains leave."}], "placements": placements}
    numbers = [int(n) for n in ENTRY.findall(material(request))]
    return {"new_topics": [], "placements": [{"entry": n, "topic": 1} for n in numbers]}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_model, "SIZES", by_model.Sizes(batch=5))


def run(folder: Path, script: str, said: list[str], **topics: int) -> tuple[RunReport, Store]:
    settings = Settings(
        store=folder / "store",
        topics=topics,
        encoder="hash-384",
        llm=f"scripted:tests.topics.test_merge_topics:{script}",
        extract={"max_claims": 50},
    )
    return run_night([chat(folder, "a", 2, said)], settings), Store.open(settings.store)


def test_topics_that_the_model_sees_are_one_become_one_and_stay_so(tmp_path: Path) -> None:
    report, store = run(tmp_path, "naming_twice", TALK)
    (step,) = [step for step in report.steps if step.step == "assign"]
    assert step.counts["topics merged"] >= 5
    topics = {row["name"]: row["size"] for row in store.read(TOPICS).to_pylist() if row["size"]}
    kitchens = [name for name in topics if name.startswith("kitchen")]
    assert len(kitchens) == 1
    assert topics["harbour"] == 6
    gone = {row["name"] for row in store.read(TOPIC_HISTORY).to_pylist() if row["kind"] == "merge"}
    assert gone
    versions = store.read_versions(TABLES.values())
    assert run(tmp_path, "naming_twice", TALK)[0].release is None
    assert store.read_versions(TABLES.values()) == versions


def test_a_base_topic_that_a_model_puts_all_in_is_cut_as_the_model_says(tmp_path: Path) -> None:
    said = [*TALK, *(f"My train to {town} leaves at {n} from platform {n}." for n, town in enumerate(
        ["Porto", "Braga", "Lisbon", "Faro", "Evora", "Aveiro", "Beja", "Viseu"], 3))]  # fmt: skip
    report, store = run(tmp_path, "selfish", said, min_to_split=10)
    sizes = {row["name"]: row["size"] for row in store.read(TOPICS).to_pylist() if row["size"]}
    assert sizes == {"self": len(TALK), "trains": 8}  # a second time the model leaves it as it is
    (step,) = [step for step in report.steps if step.step == "assign"]
    assert step.counts["topics split"] == 1
    events = store.read(TOPIC_HISTORY).to_pylist()
    assert [(row["kind"], row["name"], row["other_name"]) for row in events] == [("split", "self", "trains")]
    versions = store.read_versions(TABLES.values())
    assert run(tmp_path, "selfish", said, min_to_split=10)[0].release is None
    assert store.read_versions(TABLES.values()) == versions


def test_a_topic_of_a_few_claims_has_a_summary_until_a_group_is_full(tmp_path: Path) -> None:
    _, store = run(tmp_path, "faithful_here", TALK[:4])
    of_topics = store.read(SUMMARIES, where=pc.field("scope") == "topic").to_pylist()
    assert [(row["tier"], row["sealed"], len(row["member_ids"]), row["title"]) for row in of_topics] == [
        (-1, False, 4, "daily life")
    ]
    assert of_topics[0]["text"] == "An account of what was said, in plain prose."
    claims = store.count(OBSERVATIONS)
    _, store = run(tmp_path, "faithful_here", TALK)
    assert store.count(OBSERVATIONS) > claims
    of_topics = store.read(SUMMARIES, where=pc.field("scope") == "topic").to_pylist()
    assert {row["tier"] for row in of_topics} == {0, -1}  # one over all of it stays
    texts = {row["name"]: row["text"] for row in store.read(TOPICS).to_pylist()}
    assert texts["daily life"] == "An account of what was said, in plain prose."
    for query, topics in (("account in plain prose", ["daily life"]), ("soup with pepper", [])):
        lines = [line for part in Memory.open(store.dir.parent).context(query).parts for line in part.lines]
        assert [line.source.topic for line in lines if line.source.topic] == topics


faithful_here = faithful
