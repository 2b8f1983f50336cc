"""Both kinds of night side by side: without a language model, and with one, over the same transcripts.

    python -m bench.nights.both_kinds [PATH…] [--llm SPEC] [--encoder NAME] [--draw N] [--json]

Without arguments it reads `data/samples`, with the recorded answers of a strong model (`tests/cassette.py`). Columns:
claims that hold, the share of these with a category of their own (not `context`), decisions and conventions, and the
share of them that stand in the skill of their project; claims that a later one changed; topics of three claims or more,
sessions with a title of the night's; prompts, tokens of prompts and answers, and the night's seconds.

`--draw N` instead draws N of the claims of each night that are shown unasked (skill, block of a project, briefing), the
same ones each time, with their ratings in `data/labelled/claims_read.tsv`.
"""

import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow.compute as pc

from bench.harness import LABELLED, SAMPLES, Figures, Row, run
from bench.nights.worth import hash_parts
from slowwave import Memory
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.context.projects.standing import STANDING, collect_standing_claims
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, PERSONAL, SUMMARIES, TOPICS
from slowwave.schemas.vocabulary import Status
from slowwave.store import Store
from slowwave.tasks.job import sum_usage
from slowwave.tasks.llm.fence import has_injection
from tests.cassette import REPLAY

RULES = ("decision", "convention")


def measure(
    paths: Sequence[Path] = (SAMPLES,),
    *,
    llm: str = REPLAY,
    encoder: str = "hash-384",
    draw: int = 0,
) -> Figures:
    """Return the figures of a night of each kind, or the claims drawn of them; `llm` "off": without one alone."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, model in (("without", "off"), ("with", llm))[
            : 1 if llm == "off" else 2
        ]:
            settings = Settings(store=Path(scratch) / name, encoder=encoder, llm=model)
            figures = measure_night(name, paths, settings)
            rows += draw_told(name, settings, draw) if draw else [figures]
    return Figures(rows)


def draw_told(night: str, settings: Settings, count: int) -> list[Row]:
    """Return claims that are shown unasked, each with a reader's rating, if it has one."""
    ratings = dict(
        pl.read_csv(LABELLED / "claims_read.tsv", separator="\t")
        .select("hash", "rating")
        .iter_rows()
    )
    view, told = Memory.open(settings.store, settings.space).get_view(), set[str]()
    for place in filter(
        None, view.read(CLAIMS, ["workspace"])["workspace"].unique().to_pylist()
    ):
        told |= {
            line.claim
            for line in collect_skill_lines(view, {place}, has_injection)
            if line.claim
        }
        told |= {
            one.id
            for one in collect_standing_claims(view, {place}, (*STANDING, *PERSONAL))
        }
    drawn = random.Random(36).sample(sorted(told), min(count, len(told)))
    rows = view.read_by_id(CLAIMS, drawn, ["workspace", "summary", "message_ids"])
    keys = {
        one: hash_parts(rows[one]["summary"], rows[one]["message_ids"][0])[:16]
        for one in drawn
    }
    return [
        {
            "night": night,
            "project": Path(rows[one]["workspace"]).name,
            "hash": key,
            "rating": ratings.get(key),
        }
        | {"told": rows[one]["summary"]}
        for one, key in keys.items()
    ]


def measure_night(name: str, paths: Sequence[Path], settings: Settings) -> Row:
    """Return the figures of one night over the paths, in a store of its own."""
    start = time.perf_counter()
    usage = sum_usage(run_night([*paths], settings).steps).values()
    seconds = time.perf_counter() - start
    store, view = (
        Store.open(settings.store, settings.space),
        Memory.open(settings.store).get_view(),
    )
    rows = store.read(CLAIMS).to_pylist()
    active = [row for row in rows if row["status"] == Status.ACTIVE]
    rules = [row for row in active if row["category"] in RULES and row["workspace"]]
    places = sorted({row["workspace"] for row in rules})
    told = {
        line.claim
        for place in places
        for line in collect_skill_lines(view, {place}, has_injection)
    }
    masters = (pc.field("scope") == "session") & (pc.field("tier") == -1)
    asked = {
        "requests": sum(used.requests for used in usage),
        "prompt tokens": sum(used.prompt_tokens for used in usage),
        "answer tokens": sum(used.answer_tokens for used in usage),
    }
    return {
        "night": name,
        "claims": len(active),
        "categorised": sum(row["category"] not in ("", "context") for row in active)
        / max(1, len(active)),
        "rules": len(rules),
        "in_skill": sum(row["claim_id"] in told for row in rules) / max(1, len(rules)),
        "changed": sum(row["status"] == Status.SUPERSEDED for row in rows),
        "topics": sum(row["size"] >= 3 for row in store.read(TOPICS).to_pylist()),
        "titles": sum(
            bool(row["title"])
            for row in store.read(SUMMARIES, where=masters).to_pylist()
        ),
        **asked,
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    run(measure)
