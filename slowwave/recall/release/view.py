"""What one release holds, each part read by the first query that needs it: where passages and claims stand, which
claims changed one another (the chains that `tasks/changes/chains.py` wrote), how sure each is, the relevance scale.

A `View` never changes: a new release is a new view, and queries that run on the old one end on it. The first query
pays for what it needs (at 100,000 passages about 0.2 s for their places and vectors); later ones find it.
"""

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice, pairwise, takewhile
from os.path import basename
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler, Prefix

from slowwave.engines.encoders.protocol import MULTILINGUAL
from slowwave.recall.hits import CONFIDENT, CodeCheck, Kind, Successor, has_words
from slowwave.recall.query import Ints, Mask, is_of_session
from slowwave.recall.release.said import Omissions, collect_left_out, put_notes
from slowwave.recall.release.tables import (
    ClaimIndex,
    LRUCache,
    PassageIndex,
    Tables,
    read_claim_index,
    read_passage_index,
    shared_property,
)
from slowwave.schemas.places import name_last_part
from slowwave.schemas.rows import CheckRow, ClaimRow, DeadEndRow
from slowwave.schemas.tables import (
    BOILERPLATE,
    BY_MODEL,
    CHAIN,
    CHECKS,
    CLAIMS,
    DEAD_ENDS,
    FILES,
    MERGES,
    MESSAGES,
    PASSAGES,
    SESSIONS,
    TRUST,
    ChainRow,
)
from slowwave.schemas.vocabulary import (
    AFFIRMED,
    EXCLUDED,
    OWN,
    PERHAPS_CHANGED,
    RESTORATIONS,
    RETRACTIONS,
    SHARED,
    CheckKind,
    CheckResult,
    Origin,
    Status,
    Trust,
    find_least_trust,
)
from slowwave.store.logs import Added, Review, read
from slowwave.store.notes import NOTES, OWN_SESSIONS, PREFIX
from slowwave.store.releases import Release, Snapshot
from slowwave.text.languages import ENGLISH, fold_word, stem_in
from slowwave.text.sentences import split_sentences
from slowwave.text.spans import extract_spans
from slowwave.text.stop_words import MemoryWords, count_stop_words
from slowwave.text.times.days import format_day, localise
from slowwave.text.times.relative_days import add_days
from slowwave.text.words import JOINED, SENTENCE_ENDS, TERM, singular_words
from slowwave.text.workspaces import find_places, tell_apart

Floats = npt.NDArray[np.float64]

DEVIATIONS = 1.75
"""How far above the median the scale has the relevance `CONFIDENT`."""
OTHER_DEVIATIONS = 1.25
"""The same with the multilingual encoder, in another language than English: answers are less near there
(`docs/decisions/021-languages.md`)."""
WORDS = 2.0
"""Deviations that the words weigh, all of them heard."""
UNCONFIRMED = 0.8
"""Factor on a claim's confidence if only an agent noted it, as for another memory's."""
DECIMALS = 3
"""Decimals of a confidence. A bound such as `--min-confidence .7` is compared with the number that is shown."""
COLUMNS = [
    "claim_id",
    "session_id",
    "workspace",
    "topic_id",
    "summary",
    "quote",
    "message_ids",
    "speaker",
]
COLUMNS += ["status", "observed_at", "utc_offset", *CHAIN]
WITNESSES = ["claim_id", "session_id", "confidence", "evidence_sessions", *CHAIN]
THEN = ", then: "
DOUBT = "(perhaps "
"""Begins the note of a change that is not certain."""
SINCE: Final = "said since"
"""Stands in the note of a later claim that is less likely to be a change."""
VALUE = re.compile(r"\b(?:[A-Z]|\w*\d)\w*")
"""A name or a number; a capital that opens a sentence tells nothing."""
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")


@dataclass(frozen=True)
class Chains:
    """The claims of a release that changed one another, or perhaps did."""

    claims: dict[str, ClaimRow] = field(default_factory=dict)
    """By id, with the columns COLUMNS."""
    by_chain: Mapping[str, list[ClaimRow]] = field(default_factory=dict)
    """Without those that repeat another, in the order they were said."""
    by_message: Mapping[str, list[ClaimRow]] = field(default_factory=dict)
    """By the message that they quote."""
    retractions: Set[str] = frozenset()
    """Ids of claims that take an earlier one back without a new value, surely or perhaps."""
    restorations: Set[str] = frozenset()
    """Ids of claims with which an old value holds again, surely or perhaps."""
    excluded: Mapping[str, Omissions] = field(default_factory=dict)
    """By message, and by session, the claims that a person left out."""

    @property
    def perhaps_changed(self) -> dict[str, ClaimRow]:
        """Those that stand and that a later one perhaps changed, the likeliest first."""
        rows = [
            row
            for row in self.claims.values()
            if row["status"] == Status.ACTIVE and is_perhaps_changed(row)
        ]
        rows.sort(key=lambda row: (-(row["chain_likely"] or 0.0), str(row["claim_id"])))
        return {str(row["claim_id"]): row for row in rows}

    def find_successor(
        self,
        row: ChainRow,
        as_of: datetime | None = None,
        places: Collection[str] = (),
    ) -> ClaimRow | None:
        """Return the claim that holds, or perhaps holds, in place of a row by then: the first of its chain since the
        change that is not superseded itself, else the one at the end.

        What one says of oneself may change in another project. With `places`, names of the workspaces that are asked
        about, a claim of another workspace is returned only if it surely changed the row, and then without its text: a
        reader has to know that the row is not current.
        """
        since = row["chain_at"]
        later = (
            claim
            for claim in self.by_chain.get(str(row["chain_id"]), ())
            if claim["chain_at"] != since
            and (said_at := claim["observed_at"]) is not None
            and (since is None or said_at >= since)
            and not is_superseded(claim, as_of)
        )
        found = next(later, self.claims.get(str(row["chain_id"])))
        if found is None or not places or found["workspace"] in places:
            return found
        return found | ClaimRow(summary="") if is_superseded(row, as_of) else None

    def hide_excluded(
        self,
        place: str,
        text: str,
    ) -> str:
        """Return some of a message's or session's text with an ellipsis in place of what a person left out."""
        left_out = self.excluded.get(place)
        return left_out.hide(text) if left_out else text

    def make_successor(self, row: ClaimRow) -> Successor:
        """Return a claim as the successor of what it changes."""
        said_at = localise(row["observed_at"], row["utc_offset"])
        return Successor(
            text=row["summary"],
            observed_at=said_at,
            takes_back=row["claim_id"] in self.retractions,
            restores=row["claim_id"] in self.restorations,
        )


def is_changed(
    row: ChainRow,
    as_of: datetime | None = None,
    likely: float = 0.0,
) -> bool:
    """Return True if, by `as_of`, a later claim changed this row with a probability of at least `likely`."""
    at = row["chain_at"]
    return (
        at is not None
        and (as_of is None or at <= as_of)
        and (row["chain_likely"] or 0.0) >= likely
    )


def is_superseded(row: ChainRow, as_of: datetime | None = None) -> bool:
    """Return True if, by `as_of`, a later claim certainly replaced this row."""
    return is_changed(row, as_of, 1.0)


def is_perhaps_changed(row: ChainRow, as_of: datetime | None = None) -> bool:
    """Return True if, by `as_of`, a later claim perhaps changed this row, and none certainly did."""
    return is_changed(row, as_of, PERHAPS_CHANGED) and not is_superseded(row, as_of)


def read_chains(view: Tables | Snapshot) -> Chains:
    """Return the chains of a release."""
    rows = view.read(CLAIMS, COLUMNS, pc.field("chain_id").is_valid()).to_pylist()
    claims = {str(row["claim_id"]): row for row in rows}
    by_chain = defaultdict[str, list[ClaimRow]](list)
    for row in sorted(
        claims.values(),
        key=lambda row: (str(row["observed_at"]), str(row["claim_id"])),
    ):
        if row["status"] != Status.DUPLICATE and row["observed_at"] is not None:
            by_chain[str(row["chain_id"])].append(row)
    by_message = defaultdict[str, list[ClaimRow]](list)
    for row in claims.values():
        for message in row["message_ids"][:1]:
            by_message[message].append(row)
    of_kind = pc.field("rule").isin([*RETRACTIONS, *RESTORATIONS])
    ledger = view.read(MERGES, ["into_id", "rule"], of_kind & ~pc.field("undone"))
    rules = ledger.to_pylist()
    return Chains(
        claims=claims,
        by_chain=by_chain,
        by_message=by_message,
        retractions=frozenset(
            row["into_id"] for row in rules if row["rule"] in RETRACTIONS
        ),
        restorations=frozenset(
            row["into_id"] for row in rules if row["rule"] in RESTORATIONS
        ),
        excluded=_read_excluded(view),
    )


def _read_excluded(view: Tables | Snapshot) -> dict[str, Omissions]:
    """Return the claims that a person left out, and those beside them, by message and by session."""
    columns = ["session_id", "summary", "quote", "message_ids", "reason"]
    is_excluded = pc.field("reason") == EXCLUDED
    sessions = view.read(CLAIMS, ["session_id"], is_excluded)["session_id"].to_pylist()
    if not sessions:
        return {}
    of_sessions = pc.field("session_id").isin(sorted(set(sessions)))
    return collect_left_out(view.read(CLAIMS, columns, of_sessions).to_pylist())


def mark_changes(
    chains: Chains,
    text: str,
    scope: str,
    as_of: datetime | None = None,
    own_sessions: Collection[str] = (),
    places: Collection[str] = (),
) -> str:
    """Return a text without what a person left out. Its sentences that a later claim changed, or perhaps did, are
    followed by what it says, as in a hit's line. Such a sentence has a claim word for word, or all names and numbers of
    one that is superseded and not most of the words that its successor has beside.

    Args:
        chains: the release's.
        text: a claim, or a summary of a session or a topic.
        scope: the text's session or topic, whose claims it tells.
        as_of: what changed later is not marked.
        own_sessions: ids of sessions whose claims change a text, but are not quoted.
        places: names of the workspaces that are asked about; empty for all.
    """
    text = chains.hide_excluded(scope, text)
    notes = list[tuple[int, str]]()
    # the claims in scope that changed, the certain changes first
    changed = [
        row
        for row in chains.claims.values()
        if scope in (row["session_id"], row["topic_id"])
    ]
    changed = [row for row in changed if is_changed(row, as_of, PERHAPS_CHANGED)]
    changed.sort(key=lambda row: not is_superseded(row))
    # a note behind each sentence that tells one
    for sentence in split_sentences(text) if changed else ():
        row = next(
            (
                row
                for row in changed
                if _tells(sentence.text, row, chains.find_successor(row, as_of))
            ),
            None,
        )
        if row is not None and (later := chains.find_successor(row, as_of, places)):
            beside = " ".join(text.split())
            if later["session_id"] in own_sessions:
                beside = " ".join(str(later["summary"]).split())
            likely = row["chain_likely"] or 0.0
            note = format_later(chains.make_successor(later), likely, beside)
            # before its full stop, so that the note is of the sentence
            end = sentence.start + len(sentence.text.rstrip(SENTENCE_ENDS))
            notes.append((end, note))
    return put_notes(text, notes)


def format_later(
    successor: Successor,
    likely: float,
    beside: str,
) -> str:
    """Return a note such as "(until 8 Nov: …)", without the later words if `beside` has them.

    Below PERHAPS_CHANGED the note has only the later words; it is empty if `beside` has them.
    """
    at = successor.observed_at
    later = " ".join(successor.text.split())
    told = "" if later in beside else add_days(later, at)
    if likely < PERHAPS_CHANGED:
        since = f"{SINCE}, on {format_day(at)}" if at else SINCE
        return f"({since}: {told})" if told else ""
    until = f"until {format_day(at)}" if at else "no longer"
    if successor.takes_back:
        until = f"taken back on {format_day(at)}" if at else "taken back"
    elif successor.corrects:
        until = f"corrected on {format_day(at)}" if at else "corrected"
    elif successor.restores:
        until = f"reverted on {format_day(at)}" if at else "reverted"
    note = f"({until}" if likely >= 1.0 else f"{DOUBT}{until}"
    return f"{note}{THEN}{told})" if told else f"{note})"


def format_change(
    chains: Chains,
    row: ChainRow,
    beside: str,
    as_of: datetime | None = None,
    places: Collection[str] = (),
) -> str:
    """Return the note of `format_later` on the claim that, by `as_of`, changed a row or perhaps did; "" if none did, or
    if `find_successor` has none for `places`.
    """
    later = None
    if is_changed(row, as_of, PERHAPS_CHANGED):
        later = chains.find_successor(row, as_of, places)
    if later is None:
        return ""
    likely = row["chain_likely"] or 0.0
    return format_later(chains.make_successor(later), likely, beside)


def format_check(row: CheckRow, since: str) -> str:
    """Return a note on a name that the code lost or has otherwise: since which commit, and what stands in its place."""
    what = " ".join(dict.fromkeys(filter(None, (row["name"], row["value"]))))
    what = f"port {what}" if row["kind"] == CheckKind.PORT else what
    is_gone = row["result"] == CheckResult.GONE
    state = "not in the code" if is_gone else "other in the code"
    day = f" ({format_day(row['since_at'])})" if row["since_at"] else ""
    instead = f"; instead: {row['instead']}" if row["instead"] else ""
    if row["kind"] == CheckKind.BRANCH:
        return f"(branch {what}: gone, last seen at {since}{day}{instead})"
    return f"({what}: {state} since {since}{day}{instead})"


def _tells(
    sentence: str,
    row: ClaimRow,
    later: ClaimRow | None,
) -> bool:
    """Return True if a sentence states a claim that was changed, and not what changed it."""
    if has_words(sentence, str(row["summary"])):
        return True
    text = str(row["summary"])
    values = singular_words(" ".join(VALUE.findall(text[:1].lower() + text[1:])))
    words = singular_words(sentence)
    come = singular_words(str(later["summary"]) if later else "") - singular_words(text)
    return (
        is_superseded(row)
        and bool(values)
        and values <= words
        and len(words & come) * 2 < len(come or "1")
    )


def compute_confidences(
    rows: pa.Table,
    unconfirmed: Set[str],
    affirming: Mapping[str, Set[str]],
) -> Floats:
    """Return the confidence of some claims, 0 to 1: the one that every output shows.

    Each session is a witness of its own, wrong as often as the first: all are wrong with probability (1 - p)^n (a
    noisy-or, Pearl 1988). What a later claim may have changed is as sure as that it did not.

    Args:
        rows: of them, with the columns WITNESSES.
        unconfirmed: sessions that are an agent's notes which nobody confirmed: they bear nothing out, and what they
            alone say is less sure.
        affirming: by claim the sessions that say the same in other words (`View.affirming`).
    """
    first = rows["confidence"].to_numpy().astype(np.float64)
    witnesses = [
        len((set(sessions_of) or {own}).union(affirming.get(claim, ())) - unconfirmed)
        for claim, sessions_of, own in zip(
            rows["claim_id"].to_pylist(),
            rows["evidence_sessions"].to_pylist(),
            rows["session_id"].to_pylist(),
            strict=True,
        )
    ]
    sessions = np.array(witnesses, dtype=np.float64)
    first = np.where(sessions > 0, first, UNCONFIRMED * first)
    likely = pc.fill_null(rows["chain_likely"], 0.0).to_numpy().astype(np.float64)
    perhaps = (
        (likely >= PERHAPS_CHANGED)
        & (likely < 1.0)
        & rows["chain_at"].is_valid().to_numpy()
    )
    sure: Floats = (1 - (1 - first) ** np.maximum(sessions, 1)) * (1 - likely * perhaps)
    return sure.round(DECIMALS)


@dataclass(frozen=True)
class Scale:
    """Where the best cosines of known negatives end in one table, and the encoder's deviation."""

    median: float
    deviation: float

    def compute_relevances(
        self,
        cosines: Floats,
        words: Floats,
        needed: float = DEVIATIONS,
    ) -> Floats:
        """Return cosines, and shares of words heard, on the release's scale: 0 to 1, and CONFIDENT at `needed`
        deviations.
        """
        deviations = (cosines - self.median) / self.deviation + WORDS * words
        return np.clip(CONFIDENT * deviations / needed, 0.0, 1.0)


LOOKUPS_AT_ONCE = 4
KEPT_WORDS = 4_096
"""Words whose passages are remembered (8 kB each, at most)."""
KEPT_PATHS = 64
"""Conditions on files whose rows are remembered (one byte a passage and a claim)."""
WORD = re.compile(r"[^\W\d_]{5,}")
"""A word long enough to be recognised though a letter of it is wrong."""
ACCENTED = (
    r"[\x{C0}-\x{24F}\x{300}-\x{36F}\x{386}-\x{390}\x{3AA}-\x{3CE}\x{401}\x{451}"
    r"\x{5B0}-\x{5C7}\x{640}\x{64B}-\x{65F}\x{670}\x{1E00}-\x{1FFF}\x{FB00}-\x{FDFF}\x{FE70}-\x{FEFC}]"
)
"""A letter with an accent of Latin, Greek or Cyrillic script, a vowel point of Hebrew or Arabic, or a letter that has a
plain form, as Arrow's expressions have it.
"""
JOINED_RE2 = re.sub(r"\\[uU]0*([0-9a-f]+)", r"\\x{\1}", JOINED.pattern)
"""JOINED, as Arrow's expressions have it."""
MAX_FORMS = 12
"""Forms of a word that are looked up."""
PART = 4
REST = 3
"""Least letters of the part of a compound that is looked up, and of the rest of it."""
LONGEST = 80
"""Most letters of a word whose parts are looked up: "Rindfleischetikettierung…" has 63."""
LANGUAGE_ROWS = 400
"""Passages that tell the languages of a memory, and their stop words."""
ALIKE = 0.88
"""Similarity of two spellings of a word, at least ("Muhhamed" and "Muhammad": .883)."""
CHECK_COLUMNS = (
    "name",
    "value",
    "result",
    "path",
    "line",
    "instead",
    "commit",
    "checked_at",
)
SHORT_COMMIT = 7
"""Characters of a commit that are shown."""
WHOLE_ID = 12
SHORT_ID = 6
"""Characters of a session's id that stand as it is, and that a shortened one has at least."""


class View(Tables):
    """One release, for reading by many threads."""

    def __init__(
        self,
        folder: Path,
        release: Release,
    ) -> None:
        super().__init__(folder, release)
        self.words: LRUCache[Hashable, tuple[Ints, npt.NDArray[np.float64]]] = LRUCache(
            KEPT_WORDS
        )
        self.file_matches: LRUCache[tuple[str, ...], tuple[Mask, Mask]] = LRUCache(
            KEPT_PATHS
        )
        """By paths: the claims and the passages that are about one of them."""
        self.tag_matches: LRUCache[str, tuple[Mask, Mask]] = LRUCache(KEPT_PATHS)
        """By keyword or tag: the claims and the passages that have it."""
        self._stems: dict[str, dict[str, list[str]]] = {}
        self._ordered_stems: dict[str, tuple[list[str], list[str]]] = {}
        self._stems_lock = Lock()
        self.lookups = ThreadPoolExecutor(
            LOOKUPS_AT_ONCE, thread_name_prefix="recall-words"
        )

    @shared_property
    def passages(self) -> PassageIndex:
        """Where each passage was said, when, and by whom."""
        return read_passage_index(self)

    @shared_property
    def claims(self) -> ClaimIndex:
        """Where each claim was made."""
        return read_claim_index(self, self.passages)

    @shared_property
    def has_model_claims(self) -> bool:
        """Whether a model made some of the claims."""
        return bool(self.read(CLAIMS, ["observer"], BY_MODEL))

    @shared_property
    def chains(self) -> Chains:
        """The claims that changed one another, or perhaps did."""
        return read_chains(self)

    @shared_property
    def code_checks(self) -> dict[str, tuple[CodeCheck, ...]]:
        """What claims (by id) and passages (by their message's id) name and their checkout does not have any more."""
        if CHECKS.name not in self.release.versions:  # a release of before
            return {}
        failed = pc.field("result") != CheckResult.FOUND
        found = defaultdict[str, list[CodeCheck]](list)
        rows = self.read(CHECKS, list(CHECKS.schema.names), failed)
        for row in rows.sort_by(CHECKS.key).to_pylist():
            same = {name: row[name] for name in CHECK_COLUMNS}
            since = str(row["since_commit"])[:SHORT_COMMIT]
            note = format_check(row, since)
            check = CodeCheck(
                since=since,
                at=row["since_at"],
                note=note,
                **same,
            )
            found[row["message_id"] or row["row_id"]].append(check)
        return {key: tuple(checks) for key, checks in found.items()}

    @shared_property
    def new_tags(self) -> dict[str, list[tuple[str, datetime]]]:
        """The tags that came after a workspace's first night, each with its first night, by `compute_tags_id`."""
        if CHECKS.name not in self.release.versions:  # a release of before
            return {}
        tags = defaultdict[str, list[tuple[str, datetime]]](list)
        is_tag = pc.field("kind") == CheckKind.TAG
        is_new = pc.field("since_at").is_valid()
        rows = self.read(CHECKS, ["row_id", "name", "since_at"], is_tag & is_new)
        for row in rows.to_pylist():
            tags[row["row_id"]].append((row["name"], row["since_at"]))
        return dict(tags)

    @shared_property
    def dead_ends(self) -> list[DeadEndRow]:
        """The dead ends that did not work in a later session, the latest first."""
        if DEAD_ENDS.name not in self.release.versions:  # a release of before
            return []
        names = [name for name in DEAD_ENDS.schema.names if name != "step_key"]
        holding = pc.field("worked_in").is_null()
        rows = self.read_rows(DEAD_ENDS, names, holding)
        rows.sort(key=lambda row: (str(row["at"] or ""), row["dead_end_id"]))
        rows.reverse()
        return rows

    @shared_property
    def confidences(self) -> Floats:
        """The confidence of each claim, by its offset."""
        return self.compute_confidences(self.read(CLAIMS, WITNESSES))

    def compute_confidences(self, rows: pa.Table) -> Floats:
        """Return the confidence of some claims (columns WITNESSES)."""
        return compute_confidences(
            rows,
            self.unconfirmed_notes,
            self.affirming,
        )

    @shared_property
    def affirming(self) -> dict[str, set[str]]:
        """By claim the other sessions in which a person said the same in other words, as the night's ledger has it."""
        in_force = (pc.field("rule") == AFFIRMED) & ~pc.field("undone")
        rows = self.read_rows(MERGES, ["from_id", "into_id"], in_force)
        ids = [row[name] for row in rows for name in ("from_id", "into_id")]
        found = self.read_by_id(CLAIMS, ids, ["session_id", "status", TRUST])
        claims = {k: r for k, r in found.items() if r["status"] == Status.ACTIVE}
        sessions = defaultdict[str, set[str]](set)
        for row in rows:
            earlier = claims.get(row["from_id"])
            later = claims.get(row["into_id"])
            if earlier and later and later[TRUST] == Trust.TYPED:
                sessions[row["from_id"]].add(later["session_id"])
        return sessions

    def get_affirming(self, claim: str) -> frozenset[str]:
        """Return the other sessions in which a person said the same as a claim in other words."""
        return frozenset(self.affirming.get(claim, ()))

    def find_positions(self, messages: Sequence[str]) -> Ints:
        """Return the positions of the passages of messages, by the messages' ids; ascending."""
        return self.passages.find_by_messages(self.find_offsets(MESSAGES, messages))

    def find_session_ids(self, native: Collection[str]) -> list[str]:
        """Return the ids of the sessions with one of the transcripts' own ids, and of those below them (`ID/AGENT`)."""
        return (
            [
                key
                for key, own in self.native_sessions.items()
                if is_of_session(own, native)
            ]
            if native
            else []
        )

    def mask_sessions(self, native: Collection[str]) -> Mask:
        """Return a mask of the passages said in sessions with these ids of the transcripts."""
        ids = set(self.find_session_ids(native))
        numbers = (
            [number for number, key in enumerate(self.passages.sessions) if key in ids]
            if ids
            else []
        )
        return np.isin(self.passages.session, numbers)

    @shared_property
    def agent_notes(self) -> dict[str, bool]:
        """Sessions that are notes of an agent's, and whether a person has confirmed them.

        A note is known by its name and its file's folder, wherever the store is now.
        """
        named = {
            key: native
            for key, native in self.native_sessions.items()
            if native.startswith(PREFIX)
        }
        if not named:
            return {}
        rows = self.read_by_id(SESSIONS, sorted(named), ["session_id", "path"])
        noted = {
            key
            for key, row in rows.items()
            if Path(str(row["path"])).parent.name == NOTES
        }
        of_person = (pc.field("origin") == Origin.HUMAN) & pc.field("session_id").isin(
            sorted(noted)
        )
        noted -= set(self.read_column(MESSAGES, "session_id", of_person).to_pylist())
        verdicts = {review.id: review.verdict for review in read(self.dir, Review)}
        return {key: verdicts.get(named[key]) == "confirmed" for key in sorted(noted)}

    @shared_property
    def foreign_messages(self) -> dict[str, Trust]:
        """Messages with words that are neither the person's nor the own agent's, with the least trust of theirs."""
        is_foreign = pc.field(TRUST).is_valid() & ~pc.field(TRUST).isin(
            [*map(str, OWN)]
        )
        rows = self.read_rows(PASSAGES, ["message_id", TRUST], is_foreign)
        found = dict[str, Trust]()
        for row in rows:
            known = found.get(row["message_id"])
            found[row["message_id"]] = find_least_trust(
                [known or row[TRUST], row[TRUST]]
            )
        return found

    @shared_property
    def first_copies(self) -> dict[str, str]:
        """Texts that persons type in many sessions -> the session in which each was typed first."""
        rows = self.read_rows(BOILERPLATE, ["text", "kept"])
        return {
            " ".join(row["text"].split()): row["kept"][0] for row in rows if row["kept"]
        }

    def is_copy(
        self,
        session: str,
        text: str,
    ) -> bool:
        """Return True if all sentences of a session's text were first said, word for word, in another session."""
        if not self.first_copies:
            return False
        spans = extract_spans(text)
        first = [
            self.first_copies.get(
                " ".join(text[span.start : span.end].split()), session
            )
            for span in spans
        ]
        return bool(first) and session not in first

    @shared_property
    def vocabulary(self) -> dict[str, int]:
        """Words of WORD letters or more that were said -> in how many passages' texts, the most frequent first."""
        texts = map(str.lower, self.read_column(PASSAGES, "text").to_pylist())
        return dict(
            Counter(
                chain.from_iterable(map(set, map(WORD.findall, texts)))
            ).most_common()
        )

    @shared_property
    def accented(self) -> dict[str, list[str]]:
        """Words without their accents -> the words with some that were said."""
        texts = self.read_column(PASSAGES, "text")
        texts = texts.filter(pc.match_substring_regex(texts, ACCENTED))
        words = {
            word.lower()
            for text in texts.to_pylist()
            for word in TERM.findall(text)
            if not word.isascii()
        }
        folded = defaultdict[str, list[str]](list)
        for word in sorted(words):
            folded[fold_word(word)].append(word)
        return dict(folded)

    def stems_said(self, language: str) -> dict[str, list[str]]:
        """Return each stem in a language -> the words of WORD letters or more with it that were said."""
        with self._stems_lock:
            if language not in self._stems:
                stems = defaultdict[str, list[str]](list)
                for word in self.vocabulary:
                    stems[stem_in(word, language)].append(word)
                self._stems[language] = dict(stems)
        return self._stems[language]

    def find_forms(
        self,
        word: str,
        language: str | None,
    ) -> list[str]:
        """Return other words that were said and are forms of a lower-case word: in a language other than English those
        of its stem (the index knows those of English), in any those with other accents.
        """
        forms = list(self.accented.get(fold_word(word), ()))
        if fold_word(word) != word:
            forms.append(fold_word(word))
        if language not in (None, ENGLISH):
            forms += self.stems_said(language).get(stem_in(word, language), ())
        return [form for form in dict.fromkeys(forms) if form != word][:MAX_FORMS]

    def compares_other(self, language: str | None) -> bool:
        """Return True if the multilingual encoder compares a query in a language with the memory, and one of them is
        not in English.
        """
        return self.release.encoder == MULTILINGUAL and self.is_other(language)

    def is_other(self, language: str | None) -> bool:
        """Return True if the language of a query, or of the memory, is another one than English."""
        return not {language, self.language} <= {ENGLISH, None}

    def compute_relevances(
        self,
        scale: Scale,
        cosines: Floats,
        words: Floats,
        language: str | None,
    ) -> Floats:
        """Return cosines to a query in a language, and shares of its words heard, on a scale: 0 to 1."""
        needed = DEVIATIONS
        if self.compares_other(language):
            needed = OTHER_DEVIATIONS
        return scale.compute_relevances(cosines, words, needed)

    @property
    def language(self) -> str | None:
        """The language of most passages that have one, by LANGUAGE_ROWS of them; None if none has most."""
        return self.memory_words.main

    @shared_property
    def memory_words(self) -> MemoryWords:
        """The languages of LANGUAGE_ROWS passages, and the stop words counted in each."""
        count = self.count(PASSAGES)
        spread = np.linspace(
            0,
            max(count - 1, 0),
            LANGUAGE_ROWS,
            dtype=int,
        )
        places = np.unique(spread)
        texts = self.take(PASSAGES, places[:count], ["text"])["text"].to_pylist()
        return count_stop_words(texts)

    def find_compounds(
        self,
        word: str,
        language: str | None,
    ) -> list[str]:
        """Return words that were said and that have a lower-case word as their first or last part ("Sommerreifen" of
        "Reifen"), or that are such a part of it ("Strom" of "Stromtarif"). None in English, which writes most compounds
        apart.

        The part has PART letters or more in its stem, and the rest has REST.
        """
        is_word = word.isalpha() and len(word) <= LONGEST
        if language in (None, ENGLISH) or not is_word:
            return []
        own = stem_in(word, language)
        folded = fold_word(word)
        wholes = list[str]()
        if len(own) >= PART:
            by_start, by_end = self._order_stems(language)
            wholes += _find_longer(by_start, own)
            wholes += [stem[::-1] for stem in _find_longer(by_end, own[::-1])]
        parts = [
            folded[:cut]
            for cut in range(
                PART,
                len(folded) - REST + 1,
            )
        ]
        parts += [
            own[cut:]
            for cut in range(
                REST,
                len(own) - PART + 1,
            )
        ]
        stems = self.stems_said(language)
        found = chain.from_iterable(stems.get(stem, ()) for stem in (*wholes, *parts))
        return list(dict.fromkeys(found))[:MAX_FORMS]

    def _order_stems(self, language: str) -> tuple[list[str], list[str]]:
        """Return the stems said in a language in order, and in the order of their last letters, these backwards."""
        stems = self.stems_said(language)
        with self._stems_lock:
            if language not in self._ordered_stems:
                by_start = sorted(stems)
                by_end = sorted(stem[::-1] for stem in stems)
                self._ordered_stems[language] = (
                    by_start,
                    by_end,
                )
        return self._ordered_stems[language]

    @shared_property
    def joined_texts(self) -> tuple[Ints, pa.Array]:
        """The passages, by position, that have letters of a script whose words are joined, and their texts."""
        texts = (
            self.read_column(PASSAGES, "text")
            .combine_chunks()
            .take(pa.array(self.passages.offsets))
        )
        positions = np.flatnonzero(
            pc.match_substring_regex(texts, JOINED_RE2).to_numpy(zero_copy_only=False)
        )
        return positions, pc.utf8_normalize(
            pc.utf8_lower(texts.take(pa.array(positions))), form="NFKC"
        )

    def find_similar_word(
        self,
        word: str,
        among: Iterable[str] | None = None,
    ) -> str | None:
        """Return the word said, or one of those given, that a word which nobody said is likely a spelling of.

        The measure is Jaro and Winkler's, which counts letters in common and the same beginning.
        """
        if not WORD.fullmatch(word):
            return None
        among = self.vocabulary if among is None else among
        nearest = process.extractOne(
            word, list(among), scorer=JaroWinkler.similarity, score_cutoff=ALIKE
        )
        return None if nearest is None or word in self.vocabulary else str(nearest[0])

    def find_completion(self, start: str) -> str | None:
        """Return the word that was said and that begins with these characters, if it is the only one: a commit's id, of
        which a query has the first digits. Reads the passages' texts.
        """
        words = set[str]()
        for batch in self.open_dataset(PASSAGES).to_batches(columns=["text"]):
            texts = batch.column("text")
            near = texts.filter(
                pc.match_substring(texts, start, ignore_case=True)
            ).to_pylist()
            words |= {
                word
                for text in near
                for word in TERM.findall(text.lower())
                if word.startswith(start)
            }
        return words.pop() if len(words) == 1 else None

    @shared_property
    def unconfirmed_notes(self) -> frozenset[str]:
        """Sessions that are notes of an agent's which no person has confirmed."""
        return frozenset(
            key for key, confirmed in self.agent_notes.items() if not confirmed
        )

    def look_up_confidences(self, claims: Sequence[str]) -> dict[str, float]:
        """Return the confidence of claims by their ids; nothing for ids of other rows."""
        rows = self.take(
            CLAIMS,
            self.find_offsets(CLAIMS, claims),
            WITNESSES,
        )
        sure = self.compute_confidences(rows)
        return dict(zip(rows[CLAIMS.key].to_pylist(), sure.tolist(), strict=True))

    @shared_property
    def scales(self) -> dict[Kind, Scale]:
        """The scale of relevance of each kind of memory; none for a release without vectors."""
        stored = self.release.calibration
        return (
            TypeAdapter(dict[Kind, Scale]).validate_python(json.loads(stored)["scales"])
            if stored
            else {}
        )

    @shared_property
    def files_read(self) -> frozenset[tuple[str, int, int]]:
        """Name, size and time of change (ns) of each file, as it was when it was read."""
        paths, *columns = (
            self.read(FILES, ["path", "size", "mtime_ns"]).to_pydict().values()
        )
        return frozenset(zip(map(basename, paths), *columns, strict=True))

    @shared_property
    def native_sessions(self) -> dict[str, str]:
        """Each session's id -> its transcript's own; of what another memory gave `shared:NAME`."""
        columns = (
            self.read(SESSIONS, ["session_id", "native_id", "source"])
            .to_pydict()
            .values()
        )
        rows = zip(*columns, strict=True)
        return {
            key: f"{SHARED}:{native}" if source == SHARED else native
            for key, native, source in rows
        }

    @shared_property
    def session_files(self) -> dict[str, str]:
        """Each session's id -> the file that it was first read from; slowwave's own notes and talks are left out.

        Files that added words of a person to the same session count as one, since a single one of them may be behind
        all that is said.
        """
        columns = (
            self.read(SESSIONS, ["session_id", "native_id", "path"])
            .to_pydict()
            .values()
        )
        rows = zip(*columns, strict=True)
        files = {
            key: path
            for key, native, path in rows
            if path and not native.startswith(OWN_SESSIONS)
        }
        joined = dict[str, str]()
        for added in read(self.dir, Added):
            ends = [
                _find_last(joined, path)
                for path in (added.path, files.get(added.session))
                if path
            ]
            if len({*ends}) == 2:
                joined[ends[0]] = ends[1]
        return {key: _find_last(joined, path) for key, path in files.items()}

    @shared_property
    def session_tags(self) -> dict[str, str]:
        """Each session's own id -> its tag, which `slowwave show` takes (50 ms for 20,000)."""
        return shorten_session_ids(self.native_sessions.values())

    @shared_property
    def speakers(self) -> dict[str, str]:
        """Who speaks, or made a claim -> the name as it is compared."""
        return {
            name: normalise_name(name)
            for name in {*self.claims.speakers, *self.passages.speakers}
        }

    @shared_property
    def workspaces(self) -> set[str]:
        """The workspaces of passages and claims."""
        return {*self.passages.workspaces, *self.claims.workspaces}

    @shared_property
    def project_names(self) -> dict[str, str]:
        """The shown name of each workspace, which tells projects of one name apart."""
        return tell_apart(self.workspaces)

    @shared_property
    def projects(
        self,
    ) -> dict[str, str]:
        """The first name of the project of each workspace: the folders and work trees of a checkout are one."""
        places = find_places(self.workspaces)
        return {name: place.project for name, place in places.items()}

    def name_project(
        self,
        workspace: str | None,
    ) -> str | None:
        """Return the shown name of a project, also of one that the release does not know; None without one."""
        if not workspace:
            return None
        return self.project_names.get(workspace) or name_last_part(workspace)


def _find_longer(words: Sequence[str], start: str) -> list[str]:
    """Return the first of some sorted words that begin with `start` and have REST letters more, at most MAX_FORMS."""
    begins = takewhile(
        lambda word: word.startswith(start),
        islice(words, bisect_left(words, start), None),
    )
    longer = (word for word in begins if len(word) >= len(start) + REST)
    return list(islice(longer, MAX_FORMS))


def _find_last(joined: Mapping[str, str], name: str) -> str:
    """Follow a name through what it is joined to, to the last one."""
    while name in joined:
        name = joined[name]
    return name


def normalise_name(name: str) -> str:
    """Return a name as it is compared."""
    return " ".join(name.split()).casefold()


def shorten_session_ids(sessions: Iterable[str]) -> dict[str, str]:
    """Return each session's id as blocks show it: whole if short, else as much as distinguishes it."""
    ids = ["", *sorted(set(sessions)), ""]
    # Of sorted ids neighbours share the most.
    shared = [Prefix.similarity(*pair) for pair in pairwise(ids)]
    return {
        session: session
        if len(session) <= WHOLE_ID
        else session[: max(SHORT_ID, before + 1, after + 1)]
        for session, (before, after) in zip(ids[1:-1], pairwise(shared), strict=True)
    }
