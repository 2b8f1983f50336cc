"""Claims without a question: filters, order, how sure each is; and the same facts on hits."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.release.view import compute_confidences
from slowwave.recall.views.browse import name_sessions
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES, TOPICS
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.tasks.changes.task import write_chains
from tests.command_line import typed
from tests.recall_store import START, add, claim_row
from tests.talk_files import session


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five claims: one that three sessions say, one in doubt, one superseded, one of another project, one undated."""
    path = tmp_path_factory.mktemp("browse")
    store = Store.open(path, create=True)

    def claim(key: str, day: int, **other: object) -> dict[str, object]:
        text = f"the {key} claim about tides"
        return claim_row(
            key,
            text,
            text,
            "m",
            **({"observed_at": START + timedelta(days=day)} | other),
        )

    add(
        store,
        CLAIMS,
        [
            claim(
                "often",
                1,
                confidence=0.5,
                evidence_sessions=["a", "b", "c"],
                files=["app/db.py"],
                topic_id="t",
            )
            | {"keywords": ["Tide gauge", "moon"]},
            claim("doubted", 2, confidence=0.5, detail="because of the moon"),
            claim("newer", 3, confidence=0.5, keywords=["moon"]),
            claim("old", 0, confidence=0.3, status="superseded", superseded_by="newer"),
            claim("foreign", 4, confidence=0.5, workspace="web", category="fact"),
            claim("undated", 0, confidence=0.1) | {"observed_at": None},
        ],
    )
    doubt: dict[str, Any] = {
        "merge_id": "d",
        "kind": "doubt",
        "from_id": "doubted",
        "into_id": "newer",
        "rule": "r",
    }
    doubt |= {"scores": [("likely", 0.6)], "undone": False, "step_key": "k"}
    store.append(MERGES, pa.Table.from_pylist([doubt], schema=MERGES.schema))
    topic: dict[str, Any] = {
        "topic_id": "t",
        "name": "tide gauge",
        "purpose": "p",
        "base": False,
        "samples": [],
    }
    topic |= {"size": 1, "member_hash": "h", "step_key": "k"}
    store.append(TOPICS, pa.Table.from_pylist([topic], schema=TOPICS.schema))
    write_chains(store)
    publish(store, "run", HashEncoder().name)
    return path


@pytest.fixture
def memory(root: Path) -> Memory:
    return Memory.open(root, encoder=HashEncoder())


def list_ids(memory: Memory, **asked: Any) -> list[str]:
    return [claim.id for claim in memory.claims(**asked)]


def test_what_holds_comes_newest_first_and_undated_last(memory: Memory) -> None:
    assert list_ids(memory) == ["foreign", "newer", "doubted", "often", "undated"]
    assert list_ids(memory, superseded=True) == [
        "foreign",
        "newer",
        "doubted",
        "often",
        "old",
        "undated",
    ]
    assert list_ids(memory, limit=2) == ["foreign", "newer"]


def test_each_condition_lets_through_what_it_says(memory: Memory) -> None:
    assert list_ids(memory, workspace="web") == ["foreign"]
    assert list_ids(memory, category="fact") == ["foreign"]
    assert (
        list_ids(memory, topic="tide gauge") == list_ids(memory, topic="t") == ["often"]
    )
    assert list_ids(memory, since=(START + timedelta(days=3)).isoformat()) == [
        "foreign",
        "newer",
    ]
    assert list_ids(memory, min_confidence=0.6) == ["often"]


def test_sessions_make_a_claim_surer_and_a_likely_change_less_sure(
    memory: Memory,
) -> None:
    sure = {claim.id: claim.confidence for claim in memory.claims()}
    assert sure == {
        "often": 0.875,
        "newer": 0.5,
        "foreign": 0.5,
        "doubted": 0.2,
        "undated": 0.1,
    }
    row = {"session_id": "a", "confidence": 0.3, "chain_at": None, "chain_likely": 0.0}
    rows = pa.Table.from_pylist(
        [
            {**row, "claim_id": str(n), "evidence_sessions": list("abc"[:n])}
            for n in range(4)
        ]
    )
    agreed = compute_confidences(rows, frozenset(), {})
    assert agreed.tolist() == [0.3, 0.3, 0.51, 0.657]
    affirmed = compute_confidences(rows, frozenset("c"), {"1": {"a", "b", "c"}})
    assert affirmed.tolist() == [0.3, 0.51, 0.51, 0.51]


def test_hits_carry_what_is_known_of_a_claim_also_from_the_cache(
    memory: Memory,
) -> None:
    hits = {hit.id: hit for hit in memory.recall("claim about tides", 10, ["claim"])}
    often, doubted = hits["often"], hits["doubted"]
    assert (often.category, often.confidence, often.files, often.topic) == (
        "decision",
        0.875,
        ("app/db.py",),
        "tide gauge",
    )
    assert (doubted.detail, doubted.confidence, doubted.topic) == (
        "because of the moon",
        0.2,
        None,
    )
    told = json.loads(json.dumps(often.as_dict()))
    assert (told["category"], told["confidence"], told["files"]) == (
        "decision",
        0.875,
        ["app/db.py"],
    )


def test_recall_by_confidence_finds_claims_alone(memory: Memory) -> None:
    assert [
        hit.id for hit in memory.recall("claim about tides", 10, min_confidence=0.6)
    ] == ["often"]
    assert {
        hit.id for hit in memory.recall("claim about tides", 10, min_confidence=0.45)
    } == {
        "often",
        "newer",
        "foreign",
    }
    assert memory.recall("claim about tides", 10, min_confidence=0.99) == []


@pytest.mark.parametrize(
    "asked", [{"limit": 0}, {"min_confidence": 1.5}, {"since": "soon"}]
)
def test_what_can_not_be_asked_is_refused(
    memory: Memory, asked: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        memory.claims(**asked)


def test_the_command_lists_and_hints(root: Path) -> None:
    where = ["--store", str(root)]
    shown = typed("show", "claims", "--topic", "tide gauge", *where).stdout
    assert shown.splitlines()[0] == "often   2 Mar 2025  the often claim about tides"
    assert (
        "88% likely worth remembering · 3 sessions · tide gauge · api · app/db.py"
        in shown
    )
    plain = json.loads(typed("show", "claims", "--json", "--limit", "1", *where).stdout)
    assert [claim["id"] for claim in plain] == ["foreign"]
    refused = typed("show", "claims", "--project", "wep", *where)
    assert refused.exit_code == 1
    assert "the nearest: 'web'" in refused.stderr
    refused = typed("show", "claims", "--category", "decisions", *where)
    assert refused.exit_code == 1
    assert (
        "no category is called 'decisions': it is one of decision, pattern, gotcha, convention,"
        in refused.stderr
    )
    assert (
        typed("show", "claims", "--category", "gotcha", *where).stdout == "No claims.\n"
    )


def test_claims_by_keyword_in_whatever_case_and_the_keywords_counted(
    memory: Memory,
) -> None:
    assert [claim.id for claim in memory.claims(keyword="tide GAUGE")] == ["often"]
    assert memory.claims(keyword="gauge") == []
    counted = typed("show", "claims", "--keywords", "--json", "--store", memory.root)
    assert json.loads(counted.output) == {"moon": 2, "Tide gauge": 1}


def test_a_topic_is_told_by_strength_and_by_week_up_to_the_newest_claim(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path, create=True)
    days = {"a": ("t", 0), "b": ("t", 6), "c": ("t", 7), "d": ("u", 13), "e": ("u", 20)}
    rows = [
        claim_row(
            key, key, key, "m", topic_id=topic, observed_at=START + timedelta(days=day)
        )
        for key, (topic, day) in days.items()
    ]
    add(
        store,
        CLAIMS,
        [*rows, claim_row("f", "f", "f", "m", topic_id="u", status="withdrawn")],
    )
    blank: dict[str, Any] = {
        "purpose": "p",
        "base": False,
        "samples": [],
        "step_key": "k",
        "sessions": 1,
    }
    days_of_t = {"first_at": START, "last_at": START + timedelta(days=7)}
    topics = [
        {
            "topic_id": "t",
            "name": "tides",
            "size": 3,
            "strength": 3,
            **days_of_t,
            **blank,
        },
        {"topic_id": "u", "name": "moon", "size": 2, "strength": 2, **blank}
        | {"step_key": "llm:k"},
    ]
    store.append(TOPICS, pa.Table.from_pylist(topics, schema=TOPICS.schema))
    write_chains(store)
    publish(store, "run", HashEncoder().name)
    memory = Memory.open(tmp_path)
    tides, moon = memory.topics(weeks=2)
    assert (tides.name, tides.claims, tides.strength, tides.sessions, tides.weeks) == (
        "tides",
        3,
        3,
        1,
        (1, 0),
    )
    assert (moon.name, moon.claims, moon.weeks) == ("moon", 2, (1, 1))
    # the surest claim names a topic (of equals the latest), but for a model's own name
    assert (tides.title, moon.title) == ("c", "moon")
    assert (tides.first_at, tides.last_at) == (START, START + timedelta(days=7))
    shown = typed("show", "topics", "--store", tmp_path).output.splitlines()
    assert (
        shown[0]
        == "    3 claims  strength     3  |         █▄ |  1 Mar 2025 to 8 Mar 2025  c"
    )
    with pytest.raises(UsageError, match="at least 1"):
        memory.topics(weeks=0)


def test_a_session_is_named_by_what_says_something_by_itself(tmp_path: Path) -> None:
    asked = (
        "What would you do. The gauges of the harbour send a reading every six minutes."
    )
    vague = [
        ("user", "What would you do."),
        ("assistant", "Tell me more."),
        ("user", "The ferry office always answers letters on Mondays."),
        ("assistant", "Good to know."),
    ]
    telling = [("user", asked), ("assistant", "I would average them.")]
    talks = tmp_path / "talks"
    paths = [session(talks, "vague", 2, vague), session(talks, "telling", 3, telling)]
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night(paths, settings).check_complete()
    view = Memory.open(settings.store).get_view()
    keys = {native: key for key, native in view.native_sessions.items()}
    names = name_sessions(view, list(keys.values()))
    assert names[keys["telling"]].startswith("The gauges of the harbour")
    assert names[keys["vague"]].startswith("The ferry office always answers")
