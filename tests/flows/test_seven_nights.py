"""A week over the samples with a model that names one thing twenty ways and puts a third of all under a base topic."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.compute as pc
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.schemas.counters import Count
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import MODEL_KEY, SPOKEN, Status
from slowwave.store import Store
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job
from tests.killed_nights import SAMPLES
from tests.llm_scripts import FIRST_NEW, faithful, kind, material, replacing

SYNONYMS = (
    "tide gauges", "gauge readings", "tides", "tidal data", "water levels", "sea level", "harbour tides", "gauging",
    "gauge network", "tide tables", "levels", "tide stations", "high water", "low water", "measurements", "records",
    "ebb and flood", "water marks", "gauge logs", "tide service",
)  # fmt: skip
TIDES = re.compile("tide|gauge|reading|water|harbour|station")
WHAT = "what is known of the tide gauges, their readings and their stations"


def week(request: Request) -> Any:
    """A model that sums up in its members' words, and is careless with topics."""
    if kind(request) in ("account", "master"):
        told = re.findall(r"^- (?!before)[^:]*: (.*)$", material(request), re.MULTILINE)
        text = (
            " ".join(" ".join(one.split()[:8]) for one in told) or "Nothing was said."
        )
        return {"text": text[:500]} | (
            {"title": "A talk"} if kind(request) == "master" else {}
        )
    if kind(request) == "merges":
        topics = re.findall(
            r"^topic (\d+)[^:]*: (.*)$", material(request), re.MULTILINE
        )
        tides = [int(n) for n, name in topics if name in SYNONYMS]
        return {"merges": [{"topic": n, "into": tides[0]} for n in tides[1:]]}
    if kind(request) != "topics":
        return faithful(request)
    if "holds a large part" in request.messages[0]["content"]:
        if any(
            f"Topic: {name}\n" in material(request)
            for name in (*SYNONYMS, "daily life")
        ):
            return {"new_topics": [], "placements": []}
        return faithful(request)  # what is under a base topic is daily life
    first = int(FIRST_NEW.findall(request.messages[0]["content"])[0])
    opened: dict[str, int] = {}
    new, placed = [], []
    for number, text in re.findall(
        r"^entry (\d+)[^:]*: (.*)$", material(request), re.MULTILINE
    ):
        at = sum(text.encode())
        name, purpose = (
            (SYNONYMS[at % 20], WHAT)
            if TIDES.search(text)
            else ("daily life", "what people do by day")
        )
        if at % 3 and name not in opened and len(new) < 5:
            opened[name] = first + len(new)
            new.append({"name": name, "purpose": purpose})
        placed.append(
            {"entry": int(number), "topic": opened.get(name, 1) if at % 3 else 1}
        )
    return {"new_topics": new, "placements": placed}


def week_of_changes(request: Request) -> Any:
    """The same, to which a third of what it is asked about is a change, so that groups lose members."""
    if kind(request) != "changes":
        return week(request)
    answers = replacing(request)["pairs"]
    return {
        "pairs": [
            {**one, "answer": "unrelated"} if one["pair"] % 3 else one
            for one in answers
        ]
    }


def split_by_day(folder: Path, nights: int) -> Iterator[Path]:
    """A folder of transcripts for each night, a file a session: all that was said up to then."""
    job = Job(Settings(store=folder / "vault", embeddings=False), "read")
    read_transcripts(job, [SAMPLES])
    columns = ["session_id", "message_id", "role", "speaker", "workspace", "ts"]
    spoken = job.store.read(
        MESSAGES,
        [*columns, "text", "seq"],
        pc.field("origin").isin([*map(str, SPOKEN)]),
    )
    rows = [
        row
        for row in spoken.sort_by(
            [("ts", "ascending"), ("seq", "ascending")]
        ).to_pylist()
        if row["text"] and row["ts"]
    ]
    (said := folder / "said").mkdir()
    for days in np.array_split(
        np.array(sorted({row["ts"].date() for row in rows})), nights
    ):
        told = [row for row in rows if row["ts"].date() <= days[-1]]
        for session in {
            row["session_id"] for row in told if row["ts"].date() >= days[0]
        }:
            lines = ({name: row[name] for name in columns if row[name] is not None} | {"content": row["text"]}
                     for row in told if row["session_id"] == session)  # fmt: skip
            (said / f"{session[:16]}.jsonl").write_bytes(
                b"\n".join(map(orjson.dumps, lines)) + b"\n"
            )
        yield said


def do_nights(
    settings: Settings, folder: Path, nights: int
) -> Iterator[dict[str, Any]]:
    """What stands in the store after each night, and what its report says of topics and summaries."""
    for said in split_by_day(folder, nights):
        report, store = (
            run_night([said], settings),
            Store.open(settings.store, settings.space),
        )
        summaries, claims = (
            store.read(SUMMARIES).to_pylist(),
            store.count(CLAIMS, pc.field("status") == Status.ACTIVE),
        )
        of_topics = [
            row for row in summaries if (row["scope"], row["tier"]) == ("topic", 0)
        ]
        yield {
            "released": report.release is not None,
            "failures": report.failures + report.held,
            "claims": claims,
            "summaries": len(summaries),
            "by_model": sum(row["step_key"].startswith(MODEL_KEY) for row in summaries),
            "stale": sum(bool(row["stale"]) for row in summaries),
            "largest group": max(len(row["member_ids"]) for row in of_topics)
            if of_topics
            else 0,
            "base_share": max(
                (r["size"] for r in store.read(TOPICS).to_pylist() if r["base"]),
                default=0,
            )
            / claims,
            "report": {step.step: step.counts for step in report.steps},
        }


def do_week(folder: Path, script: str) -> tuple[Store, list[dict[str, Any]]]:
    """The store after a week with a scripted model, and figures of each night."""
    settings = Settings(
        store=folder / "store", encoder="hash-384", llm=f"scripted:tests.flows.test_seven_nights:{script}",
        gists="llm", keywords={"top": 0}, extract={"gist_words": 200},
    )  # fmt: skip
    nights = list(do_nights(settings, folder, 7))
    return Store.open(settings.store), nights


@pytest.fixture(scope="module")
def after(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Store, list[dict[str, Any]]]:
    """A week in which the model finds no change."""
    return do_week(tmp_path_factory.mktemp("week"), "week")


@pytest.fixture(scope="module")
def changed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Store, list[dict[str, Any]]]:
    """A week in which it finds many."""
    return do_week(tmp_path_factory.mktemp("changed"), "week_of_changes")


@pytest.mark.parametrize(("week", "least_lost"), [("after", 0), ("changed", 4)])
def test_every_night_is_released_and_no_summary_but_the_models_stands(
    week: str, least_lost: int, request: pytest.FixtureRequest
) -> None:
    store, nights = request.getfixturevalue(week)
    assert [(night["released"], night["failures"]) for night in nights] == [
        (True, [])
    ] * 7
    assert [night["by_model"] - night["summaries"] for night in nights] == [0] * 7
    assert [night["stale"] for night in nights] == [0] * 7
    assert nights[-1]["claims"] > 150
    lost = [night["report"]["rollup"][Count.GROUPS_SHRUNK] for night in nights]
    assert sum(lost) >= least_lost  # or it is easy
    of_topics = store.read(SUMMARIES, where=pc.field("scope") == "topic").to_pylist()
    large = {
        row["topic_id"] for row in store.read(TOPICS).to_pylist() if row["size"] >= 3
    }
    # Of fewer than ten claims too.
    assert large <= {row["scope_id"] for row in of_topics}


def test_groups_are_even(after: tuple[Store, list[dict[str, Any]]]) -> None:
    rows = after[0].read(SUMMARIES, where=pc.field("tier") >= 0).to_pylist()
    full = {"topic/0": 10, "topic/1": 10, "session/0": 6, "session/1": 3}
    short = Counter(
        (row["scope_id"], row["tier"])
        for row in rows
        if len(row["member_ids"]) < full[f"{row['scope']}/{row['tier']}"]
    )
    assert set(short.values()) <= {1}  # of a topic's tier one at most
    assert len(rows) - short.total() > 0.9 * len(rows)
    assert after[1][-1]["largest group"] == 10


def test_topics_merge_and_no_base_topic_holds_more_than_a_quarter(
    after: tuple[Store, list[dict[str, Any]]],
) -> None:
    store, nights = after
    assert all(night["base_share"] <= 0.25 for night in nights)
    left = [
        row["name"]
        for row in store.read(TOPICS).to_pylist()
        if row["name"] in SYNONYMS and row["size"]
    ]
    assert sum(night["report"]["assign"][Count.TOPICS_MERGED] for night in nights) > 10
    assert len(left) <= 3
