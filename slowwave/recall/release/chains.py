"""The chains of claims that the night wrote (`tasks/supersede/chains.py`): which holds since when, and telling it."""

import re
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Successor, has_words
from slowwave.recall.release.tables import Row, Tables
from slowwave.schemas.tables import CHAIN, OBSERVATIONS
from slowwave.schemas.vocabulary import PERHAPS_CHANGED, Status
from slowwave.store.releases import Snapshot
from slowwave.text.dates import format_day
from slowwave.text.sentences import split_sentences
from slowwave.text.words import extract_stems

Floats = npt.NDArray[np.float64]

UNCONFIRMED = 0.8
"""What is left of a claim's confidence where only an agent noted it, as of one that another memory gave."""
DECIMALS = 3
"""Of a confidence: what is shown is what a bound such as `--min-confidence .7` is held against."""
COLUMNS = ["observation_id", "session_id", "workspace", "topic_id", "summary", "quote", "message_ids", "speaker"]
COLUMNS += ["status", "observed_at", *CHAIN]
WITNESSES = ["session_id", "confidence", "evidence_sessions", *CHAIN]
THEN = ", then: "
VALUE = re.compile(r"\b(?:[A-Z]|\w*\d)\w*")
"""A name or a number; a capital that opens a sentence tells nothing."""


@dataclass(frozen=True)
class Chains:
    """The claims of a release that changed one another, or perhaps did."""

    claims: dict[str, Row] = field(default_factory=dict)
    """By id, with the columns COLUMNS."""
    by_chain: Mapping[str, list[Row]] = field(default_factory=dict)
    """Without those that repeat another, in the order they were said."""

    @property
    def perhaps_changed(self) -> dict[str, Row]:
        """Those that stand and that a later one perhaps changed, the likeliest first."""
        rows = [row for row in self.claims.values() if row["status"] == Status.ACTIVE and is_perhaps_changed(row)]
        rows.sort(key=lambda row: (-row["chain_likely"], str(row["observation_id"])))
        return {str(row["observation_id"]): row for row in rows}

    def find_successor(self, row: Row, as_of: datetime | None = None) -> Row | None:
        """Return the claim that holds, or perhaps holds, in place of a row by then: the first of its chain since the
        change that is not superseded itself, else the one at the end.
        """
        later = (
            claim
            for claim in self.by_chain.get(str(row["chain_id"]), ())
            if claim["chain_at"] != row["chain_at"]
            and claim["observed_at"] >= row["chain_at"]
            and not is_superseded(claim, as_of)
        )
        return next(later, self.claims.get(str(row["chain_id"])))


def is_changed(row: Row, as_of: datetime | None = None, likely: float = 0.0) -> bool:
    """Return whether a later claim had by then changed what a row says, that likely at least."""
    at = row["chain_at"]
    return at is not None and (as_of is None or at <= as_of) and row["chain_likely"] >= likely


def is_superseded(row: Row, as_of: datetime | None = None) -> bool:
    """Return whether it surely had."""
    return is_changed(row, as_of, 1.0)


def is_perhaps_changed(row: Row, as_of: datetime | None = None) -> bool:
    """Return whether it perhaps had, and the row stands."""
    return is_changed(row, as_of, PERHAPS_CHANGED) and not is_superseded(row, as_of)


def read_chains(view: Tables | Snapshot) -> Chains:
    """Return a release's."""
    rows = view.read(OBSERVATIONS, COLUMNS, pc.field("chain_id").is_valid()).to_pylist()
    claims = {str(row["observation_id"]): row for row in rows}
    by_chain = defaultdict[str, list[Row]](list)
    for row in sorted(claims.values(), key=lambda row: (str(row["observed_at"]), str(row["observation_id"]))):
        if row["status"] != Status.DUPLICATE and row["observed_at"] is not None:
            by_chain[str(row["chain_id"])].append(row)
    return Chains(claims, by_chain)


def mark_changes(chains: Chains, text: str, scope: str, as_of: datetime | None = None) -> str:
    """Return a text whose sentences that a later claim changed, or perhaps did, are followed by what it says, as in a
    hit's line. Such a sentence has a claim word for word, or all names and numbers of one that is superseded and not
    most of the words that its successor has beside.

    Args:
        chains: the release's.
        text: a claim, or a summary of a session or a topic.
        scope: the text's session or topic, whose claims it tells.
        as_of: what changed later is not marked.
    """
    marked, done = "", 0
    changed = [row for row in chains.claims.values() if scope in (row["session_id"], row["topic_id"])]
    changed = [row for row in changed if is_changed(row, as_of, PERHAPS_CHANGED)]
    changed.sort(key=lambda row: not is_superseded(row))
    for sentence in split_sentences(text) if changed else ():
        row = next((row for row in changed if _tells(sentence.text, row, chains.find_successor(row, as_of))), None)
        if row is not None and (later := chains.find_successor(row, as_of)):
            note = format_later(
                Successor(later["summary"], later["observed_at"]), is_superseded(row), " ".join(text.split())
            )
            marked, done = f"{marked}{text[done : sentence.end]} {note}", sentence.end
    return marked + text[done:]


def format_later(successor: Successor, sure: bool, beside: str) -> str:
    """Return until when something held, or perhaps did, and what was said then where that is not told beside it."""
    at, later = successor.observed_at, " ".join(successor.text.split())
    until = f"until {format_day(at)}" if at else "no longer"
    until = until if sure else f"perhaps {until}"
    return f"({until})" if later in beside else f"({until}{THEN}{later})"


def _tells(sentence: str, row: Row, later: Row | None) -> bool:
    """Return whether a sentence tells a claim that was changed, and not what changed it."""
    if has_words(sentence, str(row["summary"])):
        return True
    text = str(row["summary"])
    values = extract_stems(" ".join(VALUE.findall(text[:1].lower() + text[1:])))
    words, come = extract_stems(sentence), extract_stems(str(later["summary"]) if later else "") - extract_stems(text)
    return is_superseded(row) and bool(values) and values <= words and len(words & come) * 2 < len(come or "1")


def compute_confidence(first: Floats, sessions: Floats, changed: Floats) -> Floats:
    """Return each claim's confidence, 0 to 1.

    Each session is a witness of its own, wrong as often as the first: all are wrong with probability (1 - p)^n (a
    noisy-or, Pearl 1988). What a later claim may have changed is as sure as that it did not.

    Args:
        first: the confidence that the claim was stored with, by the observer that made it.
        sessions: distinct sessions that say it, at least 1.
        changed: probability that a later claim changes it; 0 where none is known.
    """
    sure: Floats = (1 - (1 - first) ** np.maximum(sessions, 1)) * (1 - changed)
    return sure


def compute_confidences(rows: pa.Table, unconfirmed: Set[str]) -> Floats:
    """Return the confidence of some observations: the one that every output shows.

    Args:
        rows: of them, with the columns WITNESSES.
        unconfirmed: sessions that are an agent's notes which nobody confirmed: they bear nothing out, and what they
            alone say is less sure.
    """
    first = rows["confidence"].to_numpy().astype(np.float64)
    witnesses = [
        len((set(some) or {own}) - unconfirmed)
        for some, own in zip(rows["evidence_sessions"].to_pylist(), rows["session_id"].to_pylist(), strict=True)
    ]
    sessions = np.array(witnesses, dtype=np.float64)
    first = np.where(sessions > 0, first, UNCONFIRMED * first)
    likely = pc.fill_null(rows["chain_likely"], 0.0).to_numpy().astype(np.float64)
    perhaps = (likely >= PERHAPS_CHANGED) & (likely < 1.0) & rows["chain_at"].is_valid().to_numpy()
    return compute_confidence(first, sessions, likely * perhaps).round(DECIMALS)
