"""Draw sentences of transcripts to be labelled by hand: what of real talk is worth remembering?

    python -m bench.nights.draw_sentences PATH… [--count 150] [--seed 0] > sentences.jsonl

The transcripts are read and masked as the night does it; each spoken message is cut as the observer cuts it. Half of
the sentences are persons', half models', as far as there are enough; each half is split evenly by project; no wording
twice, and a second one of a message only when each has given one: else a few pasted logs would be most of it. A line
holds *hash*, by which `data/labelled/worth.tsv` knows the sentence, and what it takes to judge it.
"""

import argparse
import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Origin, is_turn
from slowwave.tasks.boilerplate.task import Mask, find_boilerplate
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job
from slowwave.tasks.observe.scores import count_words
from slowwave.tasks.observe.units import MIN_WORDS, collect_speakers, strip_emphasis
from slowwave.text.sentences import split_sentences

SHOWN = 200  # characters of what stands around a sentence


def read_shown_messages(paths: Sequence[Path]) -> pa.Table:
    """Return rows of MESSAGES as the observer is shown them, boilerplate masked; column `whole` is without the mask."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Settings(store=Path(folder)), "draw")
        read_transcripts(job, list(paths))
        find_boilerplate(job)
        gone = pc.list_flatten(job.store.read(SESSIONS, ["inactive"])["inactive"].combine_chunks())
        rows = job.store.read(MESSAGES).filter(pc.field("origin") != str(Origin.TOOL))
        rows = rows.filter(~pc.field("message_id").isin(gone))
        return Mask(job).mask_messages(rows).append_column("whole", rows["text"])


def cut_sentences(messages: pa.Table, seed: int = 0) -> list[dict[str, Any]]:
    """Return every sentence that may be drawn, in the order of the draw; `message_id` and `rank` are for no reader."""
    rows = messages.sort_by([("session_id", "ascending"), ("seq", "ascending")]).to_pylist()
    sessions = groupby(filter(is_turn, rows), key=itemgetter("session_id"))
    found = [one for _, turns in sessions for one in _cut_session(list(turns), seed)]
    given: Counter[str] = Counter()
    for one in sorted(found, key=itemgetter("rank")):
        given[one["message_id"]] += 1
        one["rank"] = (given[one["message_id"]], hash_parts(seed, one["message_id"]), one["rank"])
    return sorted(found, key=itemgetter("rank"))


def _cut_session(rows: list[dict[str, Any]], seed: int) -> Iterable[dict[str, Any]]:
    names, _ = collect_speakers(rows)
    for last, row in zip([None, *rows], rows, strict=False):
        cut = split_sentences(row["text"], names)
        texts = [strip_emphasis(one.text) for one in cut]
        for at, text in enumerate(texts):
            if count_words(text) >= MIN_WORDS:
                yield {
                    "hash": hash_parts(" ".join(text.lower().split()), hash_parts(row["whole"]))[:16],
                    "project": name_project(row["workspace"] or row["source"]),
                    "speaker": "person" if row["origin"] == Origin.HUMAN else "model",
                    "before": " / ".join(texts[max(at - 2, 0) : at])[-SHOWN:],
                    "text": text,
                    "after": " / ".join(texts[at + 1 : at + 3])[:SHOWN],
                    "previous_message": " ".join(last["text"].split())[-SHOWN:] if last else "",
                    "message_id": row["message_id"],
                    "rank": hash_parts(row["source"], row["session_id"], row["message_id"], cut[at].position, seed),
                }


def name_project(workspace: str) -> str:
    """Return the last part of a path: nobody's machine is told."""
    return workspace.rstrip("/").rsplit("/", 1)[-1]


def hash_parts(*parts: object) -> str:
    """Return SHA-256 of some values."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def draw_balanced(sentences: Iterable[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return so many of the sentences, which come in the order of the draw."""
    unique: dict[str, dict[str, Any]] = {}
    drawn: list[dict[str, Any]] = []
    for one in sentences:
        unique.setdefault(one["text"].lower(), one)
    for speaker, size in share_out(Counter(one["speaker"] for one in unique.values()), count).items():
        said = [one for one in unique.values() if one["speaker"] == speaker]
        for project, part in share_out(Counter(one["project"] for one in said), size).items():
            drawn += [one for one in said if one["project"] == project][:part]
    return sorted(drawn, key=itemgetter("rank"))


def share_out(held: Counter[str], count: int) -> dict[str, int]:
    """Return how many of each, as even as what is held allows: what a small one lacks the larger ones give."""
    shares: dict[str, int] = {}
    for done, name in enumerate(sorted(held, key=lambda name: (held[name], name))):
        shares[name] = min(held[name], (count - sum(shares.values())) // (len(held) - done))
    return shares


def main() -> None:
    """Draw and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    parser.add_argument("--count", type=int, default=150, help="sentences to draw")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for one in draw_balanced(cut_sentences(read_shown_messages(args.paths), args.seed), args.count):
        print(orjson.dumps({name: one[name] for name in one if name not in ("message_id", "rank")}).decode())


if __name__ == "__main__":
    main()
