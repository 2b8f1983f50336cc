"""How many of the sentences that the observer keeps are worth it? Held against sentences of real talk that were
labelled by hand.

    python -m bench.nights.worth PATH… [--labels data/labelled/worth.tsv] [--json]

PATHs are the transcripts that the labelled sentences were drawn from; labels of others are left out. They are read and
masked as the night does it, and each spoken message is cut as the observer cuts it. The plain observer, which asks no
model, distils them; a sentence became a claim where a claim that has a category, from its message, holds it. Columns:
*labelled* sentences; *worth*, the share of them labelled keep (worth remembering, stands by itself) or context (worth
it, but needs its neighbours); *claims*, how many became one; of these *keep*, *context* and *noise*; *kept*, of the
sentences labelled keep those that became a claim; *same*, of the claims those whose category is the label's. Rows:
projects, speakers, labels ("is …"), categories of claims ("as …"). Sentences were drawn evenly by message, so claims of
long messages count less than they are many.
"""

import csv
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from bench.harness import LABELLED, Figures, Row, run
from slowwave.schemas.settings import ObserveSettings, Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Origin, is_turn
from slowwave.tasks.boilerplate.task import Mask, find_boilerplate
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job
from slowwave.tasks.observe.observe import observe
from slowwave.tasks.observe.units import MIN_WORDS, collect_speakers, strip_emphasis
from slowwave.tasks.observe.worth import count_feature_words
from slowwave.text.sentences import split_sentences

LABELS = LABELLED / "worth.tsv"
WORTH = ("keep", "context")
COLUMNS = ("project", "speaker", "label", "category", "became")


class Sentence(NamedTuple):
    """A sentence that may have a label."""

    hash: str
    """By which `data/labelled/worth.tsv` knows it."""
    project: str
    speaker: str
    text: str
    message_id: str


def measure(paths: Sequence[Path], *, labels: Path = LABELS) -> Figures:
    """Return figures of all sentences, then by project, speaker, label, and category of the claim."""
    matched = match_sentences(read_shown_messages(paths), read_labels(labels))
    frame = pl.DataFrame(matched, schema=dict.fromkeys(COLUMNS, pl.String))
    label, became = pl.col("label"), pl.col("became").is_not_null()
    figures = {
        "labelled": pl.len(),
        "worth": label.is_in(WORTH).mean(),
        "claims": became.sum(),
        **{name: (label == name).filter(became).mean() for name in WORTH},
        "noise": (~label.is_in(WORTH)).filter(became).mean(),
        "kept": became.filter(label == "keep").mean(),
        "same": (pl.col("category") == pl.col("became")).filter(became).mean(),
    }
    groups = [
        ("all", "all"),
        ("", "project"),
        ("", "speaker"),
        ("is ", "label"),
        ("as ", "became"),
    ]
    rows: list[Row] = []
    for word, column in groups:
        name = pl.lit(word) if column == "all" else pl.lit(word) + pl.col(column)
        rows += (
            frame.group_by(name.alias("group"))
            .agg(**figures)
            .drop_nulls("group")
            .sort("group")
            .to_dicts()
        )
    return Figures(rows)


def read_shown_messages(paths: Sequence[Path]) -> pa.Table:
    """Return rows of MESSAGES as the observer is shown them, boilerplate masked; column `whole` is without the mask."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Settings(store=Path(folder)), "draw")
        read_transcripts(job, list(paths))
        find_boilerplate(job)
        gone = pc.list_flatten(
            job.store.read(SESSIONS, ["inactive"])["inactive"].combine_chunks()
        )
        rows = job.store.read(MESSAGES).filter(pc.field("origin") != str(Origin.TOOL))
        rows = rows.filter(~pc.field("message_id").isin(gone))
        return Mask(job).mask_messages(rows).append_column("whole", rows["text"])


def cut_sentences(messages: pa.Table) -> Iterator[Sentence]:
    """Yield every sentence of enough words."""
    rows = messages.sort_by(
        [("session_id", "ascending"), ("seq", "ascending")]
    ).to_pylist()
    for _, turns in groupby(filter(is_turn, rows), key=itemgetter("session_id")):
        session = list(turns)
        names, _ = collect_speakers(session)
        for row in session:
            for text in (
                strip_emphasis(one.text) for one in split_sentences(row["text"], names)
            ):
                if count_feature_words(text) >= MIN_WORDS:
                    yield Sentence(
                        hash_parts(
                            " ".join(text.lower().split()), hash_parts(row["whole"])
                        )[:16],
                        (row["workspace"] or row["source"])
                        .rstrip("/")
                        .rsplit("/", 1)[-1],
                        "person" if row["origin"] == Origin.HUMAN else "model",
                        text,
                        row["message_id"],
                    )


def hash_parts(*parts: str) -> str:
    """Return by what `data/labelled` knows a text without holding it."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_labels(path: Path) -> dict[str, tuple[str, str]]:
    """Return label and category of the first reading, by hash."""
    with path.open(encoding="utf-8", newline="") as stream:
        return {
            row["hash"]: (row["first"], row["first_category"])
            for row in csv.DictReader(stream, delimiter="\t")
        }


def match_sentences(
    messages: pa.Table, labels: dict[str, tuple[str, str]]
) -> list[Row]:
    """Return the labelled sentences that stand in the messages, with the category of the claim that each became."""
    claims = [
        (claim["message_ids"][0], claim["summary"], claim["category"])
        for claim in observe(messages, ObserveSettings()).claims.to_pylist()
    ]
    told = {
        key: list(some)
        for key, some in groupby(sorted(claims, key=itemgetter(0)), key=itemgetter(0))
    }
    found = {one.hash: one for one in cut_sentences(messages) if one.hash in labels}
    became = (
        next(
            (of for _, text, of in told.get(one.message_id, ()) if one.text in text),
            None,
        )
        for one in found.values()
    )
    return [
        dict(
            zip(
                COLUMNS,
                (one.project, one.speaker, *labels[one.hash], of or None),
                strict=True,
            )
        )
        for one, of in zip(found.values(), became, strict=True)
    ]


if __name__ == "__main__":
    run(measure)
