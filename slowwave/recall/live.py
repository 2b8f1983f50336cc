"""What a `Memory` keeps while it is open: the release that is live, followed as new ones come; the encoder, loaded by
the first query that needs it; and what the last answer could not use. And what `remember` and `talk` wrote since the
release, found as it is until a night distils it.
"""

import logging
import time
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Lock, local
from typing import Any, TypeVar, Unpack, cast

import numpy as np
import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import (
    SERVER,
    Encoder,
    KnownEncoder,
    compute_encoder_name,
    may_build_graphs,
)
from slowwave.recall.hits import (
    QUOTE_CHARS,
    Change,
    Cost,
    Hit,
    Hits,
    Source,
    Successor,
    has_words,
)
from slowwave.recall.query import Mask, Query, Vector, build_query, is_of_session
from slowwave.recall.release.said import find_statement
from slowwave.recall.release.tables import LRUCache
from slowwave.recall.release.view import View, format_later, normalise_name
from slowwave.recall.retrieve.rows import build_path_variants
from slowwave.schemas.errors import (
    READ_TROUBLE,
    TROUBLE,
    EncoderFailed,
    StoreUnreadable,
    translate_read_errors,
)
from slowwave.schemas.filters import ContextOptions
from slowwave.schemas.places import find_url
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, RELEASES
from slowwave.schemas.vocabulary import Role, Status, Trust
from slowwave.store.notes import parse_correction, read_notes, read_written
from slowwave.store.place import find_place
from slowwave.text.foreign import find_foreign_parts
from slowwave.text.words import compute_word_shares
from slowwave.text.workspaces import find_workspaces

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class AnswerWarnings:
    """The warnings of the last answer, and of the answer that each thread is making."""

    def __init__(self) -> None:
        self.last: list[str] = []
        """Each once."""
        self._open = local()

    @property
    def answer_warnings(self) -> tuple[str, ...]:
        """The warnings of the answer that this thread is making."""
        return tuple(getattr(self._open, "warnings", ()))

    def add(self, what: str) -> None:
        """Add a warning to the answer that this thread is making, or else to the last one; log it if it is new."""
        warnings: list[str] = getattr(self._open, "warnings", self.last)
        if what in warnings:
            return
        if what not in self.last:
            LOG.warning(what)
        warnings.append(what)

    @contextmanager
    def collect_answer_warnings(self) -> Iterator[None]:
        """Collect the warnings of one answer. A nested answer is part of it."""
        if hasattr(self._open, "warnings"):
            yield
            return
        self._open.warnings = []
        try:
            yield
        finally:
            self.last = self._open.warnings
            del self._open.warnings


class LiveRelease:
    """A space's live release, or the one that is named; shared by threads."""

    WAIT = 1.0
    """Least seconds between two looks for a newer release."""

    def __init__(
        self,
        root: Path,
        space: str,
        named: str | None,
        note: Callable[[str], None],
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            root: the store's folder.
            space: a folder in it.
            named: a release's id or name, which stays; None for the live one.
            note: called with each answer if a newer release can't be read.
        """
        self.root = root
        self.space = space
        self.named = named
        self._note = note
        self._is_in_bucket = find_url(root) is not None
        self.view: View | None = None
        """The view that answered last; None as long as the store could not be read."""
        self._behind: str | None = None
        self._stamp = 0
        self._looked = 0.0
        self._looking = Lock()

    def open_view(self) -> View:
        """Return the release in force by now, read anew.

        Raises:
            StoreError: the store can't be reached or read, or has no such release.
        """
        with translate_read_errors(self.root / self.space):
            # Before: a release that comes meanwhile is found by the next look.
            stamp = self._read_stamp()
            self._looked = time.monotonic()
            view = View.open(self.root, self.space, self.named)
            self._stamp = stamp  # after: one that could not be read is looked for again
            return view

    def get_current_view(self) -> View:
        """Return the view that answers: of a newer release, when there is one. Others go on with the old one meanwhile.

        Raises:
            StoreError: there is no view yet, and the store can't be reached or read.
        """
        if self._looking.acquire(blocking=self.view is None):
            try:
                self.view = self._find_newest()
            finally:
                self._looking.release()
        if self._behind is not None:
            self._note(self._behind)
        return cast(View, self.view)

    def retry_superseded(self, read: Callable[[], T]) -> T:
        """Call a function that reads the release in force, and return its result.

        It reads again if a forgetting deleted that release's files meanwhile, and a newer release is there.

        Raises:
            StoreUnreadable: no newer release is there.
        """
        with translate_read_errors(self.root / self.space):
            while True:
                view = self.view
                try:
                    return read()
                except (*READ_TROUBLE, StoreUnreadable):
                    if not self._is_superseded(view):
                        raise

    def _is_superseded(self, view: View | None) -> bool:
        """Return True if a newer release than a view's is there, looked for at once; it answers from now on."""
        with self._looking:
            self._looked = -self.WAIT
            self.view = self._find_newest()
        return view is None or self.view.release.release_id != view.release.release_id

    def _find_newest(self) -> View:
        """Return the live release's view: the current one if it need not or cannot be looked for again."""
        view = self.view
        if view is not None and (
            self.named is not None or time.monotonic() - self._looked < self.WAIT
        ):
            return view
        self._looked = time.monotonic()
        try:
            fresh = (
                view
                if view is not None and self._read_stamp() == self._stamp
                else self.open_view()
            )
        except TROUBLE as trouble:
            if view is None:
                raise
            self._behind = f"the releases can't be read ({trouble}): answered from {view.release.name}"
            return view
        self._behind = None
        if view is not None and fresh.release.release_id == view.release.release_id:
            return view
        LOG.info("answering from release %s", fresh.release.name)
        return fresh

    def _read_stamp(self) -> int:
        """Return the time when a row was last added to the releases; 0 without releases."""
        if self._is_in_bucket:
            find_place(self.root).pull(self.space)
        versions = self.root / self.space / f"{RELEASES.name}.lance" / "_versions"
        return versions.stat().st_mtime_ns if versions.is_dir() else 0


KEPT_QUERIES = 256
"""Vectors of the last queries, kept: an agent asks the same thing twice."""

ENCODE_TROUBLE = (OSError, RuntimeError, ValueError, EncoderFailed)
"""What a model raises whose files are gone, cut or another's, and a server that is away."""


class QueryVectors:
    """Vectors of queries, by the encoder that a release names."""

    def __init__(
        self,
        chosen: str,
        given: Encoder | None,
        note: Callable[[str], None],
    ) -> None:
        """Set up; nothing is loaded yet.

        Args:
            chosen: the encoder in the settings; may be a folder, of which releases keep the last part.
            given: takes the place of the release's encoder, if the names agree.
            note: called with the reason if an encoder can't be used.
        """
        self.chosen = chosen
        self.given = given
        self._note = note
        self._loaded: dict[str, Encoder | None] = {}
        self._kept: LRUCache[tuple[str, str], Vector] = LRUCache(KEPT_QUERIES)
        self._lock = Lock()
        self._spent = local()

    @property
    def seconds(self) -> float:
        """Seconds that the calling thread has spent on vectors, the loading of a model among them."""
        return float(getattr(self._spent, "seconds", 0.0))

    def start_clock(
        self,
        kind: str,
        budget: int = 0,
    ) -> Callable[[], Cost]:
        """Return a function that tells the cost of an answer that this thread begins now."""
        start = time.perf_counter()
        before = self.seconds
        return lambda: Cost(
            kind=kind,
            seconds=time.perf_counter() - start,
            encoding=self.seconds - before,
            budget=budget,
        )

    def encode_texts(
        self,
        made_with: str | None,
        texts: Sequence[str],
    ) -> Mapping[str, Vector]:
        """Return each text's vector, the new ones made in one call; empty when there is no encoder to make them."""
        start = time.perf_counter()
        try:
            if (encoder := self._get_encoder(made_with)) is None:
                return {}
            # those kept, then the others
            looked_up = {text: self._kept.get((encoder.name, text)) for text in texts}
            stored = {
                text: vector for text, vector in looked_up.items() if vector is not None
            }
            missing = [text for text in texts if text not in stored]
            try:
                fresh = (
                    dict(zip(missing, encoder.encode(missing), strict=True))
                    if missing
                    else {}
                )
            except ENCODE_TROUBLE as trouble:
                self._note(
                    f"the encoder {encoder.name!r} failed ({trouble}): answered by full text alone"
                )
                return {}
            for text, vector in fresh.items():
                self._kept.put((encoder.name, text), vector)
            return fresh | stored
        finally:
            self._spent.seconds = self.seconds + time.perf_counter() - start

    def prepare_encoder(
        self,
        made_with: str | None,
        texts: Sequence[str],
    ) -> KnownEncoder | None:
        """Return an encoder that knows the vectors of some texts, made in one call; None if they can't be made."""
        vectors = self.encode_texts(made_with, texts)
        encoder = self._get_encoder(made_with) if vectors else None
        if encoder is None:
            return None
        prepared = KnownEncoder(encoder)
        prepared.known |= vectors
        return prepared

    def _get_encoder(self, made_with: str | None) -> Encoder | None:
        if made_with is None:
            self._note("this release has no vectors: answered by full text alone")
            return None
        if self.given is not None:
            if self.given.name == made_with:
                return self.given
            self._note(
                f"this release's vectors were made with {made_with!r}: answered by full text alone"
            )
            return None
        # loaded by the first query; a server that was away is asked again
        with self._lock:
            if made_with not in self._loaded:
                self._loaded[made_with] = self._load_encoder(made_with)
            loaded = self._loaded[made_with]
            is_of_server = (
                self.chosen.startswith(SERVER)
                and compute_encoder_name(self.chosen) == made_with
            )
            if loaded is None and (is_of_server or not may_build_graphs()):
                del self._loaded[made_with]  # it may be there by the next query
        if loaded is None:
            from slowwave.engines.encoders.load import suggest_package

            self._note(
                f"the encoder {made_with!r} of this release can't be loaded: answered by full text alone"
                f"{suggest_package(made_with)}"
            )
        return loaded

    def _load_encoder(self, made_with: str) -> Encoder | None:
        from slowwave.engines.encoders.load import load_query_encoder
        from slowwave.schemas.errors import EncoderNotFound

        try:
            return load_query_encoder(
                self.chosen
                if compute_encoder_name(self.chosen) == made_with
                else made_with
            )
        except EncoderNotFound:
            return None


@dataclass(frozen=True, slots=True)
class ReadSession:
    """The parts of an open `Memory` that blocks and briefings use."""

    settings: Settings
    root: Path
    """The store."""
    live: LiveRelease
    vectors: QueryVectors
    warnings: AnswerWarnings
    answer: Callable[[Query, bool], Hits]
    """Returns the hits of a query; the flag says that nobody asked."""

    @property
    def folder(self) -> Path:
        """The folder of the space."""
        return self.root / self.settings.space

    def get_view(self) -> View:
        """Return the release that answers queries now."""
        return self.live.get_current_view()

    def recall(
        self,
        query: str,
        k: int,
        kinds: tuple[str, ...],
        *,
        automatic: bool,
        own_sessions: Iterable[str] | str,
        **options: Unpack[ContextOptions],
    ) -> Hits:
        """Return the hits of a query; see `Memory.recall`."""
        built = build_query(query, k, kinds, own_sessions=own_sessions, **options)
        return self.answer(built, automatic)


def _mask_read(encoded: Mapping[str, Vector], texts: Sequence[str]) -> Mask:
    """Return a mask of the texts after the first that the encoder reads; all False if it doesn't read the first."""
    is_asked = bool(encoded[texts[0]].any())
    return np.array(
        [is_asked and bool(encoded[text].any()) for text in texts[1:]],
        dtype=bool,
    )


def find_unreleased(
    view: View | None,
    space_dir: Path,
    query: Query,
    vectors: QueryVectors,
) -> list[Hit]:
    """Return relevant messages written since the release (None: before the first), the most relevant first.

    Relevance is on the release's scale, as that of its hits; without a scale it is the share of the query's words.
    """
    hits = (
        read_unreleased(view, space_dir, tag=query.tag)
        if _is_of_messages(query)
        else []
    )
    if not hits:
        return []
    # Whose vectors are kept for the next query.
    hits = _filter_unreleased(hits, query, view)[-KEPT_QUERIES // 2 :]
    # how relevant each is, by its words and, if the release has a scale, by its cosine
    share = relevance = np.array(
        compute_word_shares(query.content_words, [hit.text for hit in hits])
    )
    scale = view.scales.get("message") if view else None
    texts = [query.text, *(hit.text for hit in hits)] if scale and hits else []
    if (
        scale
        and view
        and (
            encoded := vectors.encode_texts(view.release.encoder, texts)
            if texts
            else {}
        )
    ):
        cosines = np.array(
            [encoded[text] @ encoded[query.text] for text in texts[1:]],
            dtype=np.float64,
        )
        is_read = _mask_read(encoded, texts)
        on_scale = view.compute_relevances(
            scale=scale, cosines=cosines, words=share, language=query.language
        )
        relevance = np.where(is_read, on_scale, share)
    order = np.lexsort((-np.arange(len(hits)), -share, -relevance))
    return [
        replace(hits[n], score=float(share[n]), relevance=float(relevance[n]))
        for n in order
        if relevance[n] > 0
    ]


def _is_of_messages(query: Query) -> bool:
    """Return True if a message may answer."""
    return "message" in query.kinds and not query.is_of_claims


def _filter_unreleased(
    hits: Sequence[Hit],
    query: Query,
    view: View | None,
) -> list[Hit]:
    """Return the hits that meet the query's conditions."""
    workspaces = {hit.workspace for hit in hits if hit.workspace}
    known = workspaces | (view.workspaces if view else set())
    places = find_workspaces(query.workspace, known) if query.workspace else ()
    speaker = normalise_name(query.speaker or "")
    ways = build_path_variants(query.files, workspaces) if query.files else []
    return [
        hit
        for hit in hits
        if not is_of_session(hit.sources[0].session, query.own_sessions)
        and (query.workspace is None or hit.workspace in places)
        and (
            query.since is None or (hit.observed_at and hit.observed_at >= query.since)
        )
        and (
            query.until is None or (hit.observed_at and hit.observed_at <= query.until)
        )
        and (
            not speaker
            or f"{normalise_name(hit.speaker or '')} ".startswith(f"{speaker} ")
        )
        and (
            not ways
            or any(
                way.is_valid_in(hit.workspace) and way.pattern.search(hit.text)
                for way in ways
            )
        )
    ]


def read_unreleased(
    view: View | None,
    space_dir: Path,
    roles: Collection[str] = (Role.USER, Role.ASSISTANT),
    tag: str | None = None,
) -> list[Hit]:
    """Return messages of some roles that the release lacks, by the transcripts' own ids, the oldest first; with `tag`
    only those that have it.
    """
    written = read_written(space_dir, view.files_read if view else frozenset())
    if not written:
        return []
    hits = [
        _make_hit(line)
        for line in written
        if line["role"] in roles and (tag is None or _has_tag(line, tag))
    ]
    released = _find_released(view, hits) if view else frozenset()
    new = [
        hit
        for hit in hits
        if (hit.sources[0].session, hit.sources[0].message) not in released
    ]
    return sorted(new, key=lambda hit: str(hit.observed_at))


def _make_hit(line: Mapping[str, Any]) -> Hit:
    """Return a line of a log as a hit that is not weighed yet."""
    session = line["session_id"]
    message = line["message_id"]
    text = line["content"]
    return Hit(
        kind="message",
        id=f"{session}/{message}",
        text=text,
        score=0.0,
        observed_at=datetime.fromisoformat(line["ts"]) if line["ts"] else None,
        status=Status.NOT_DISTILLED,
        sources=(Source(session, message, text[:QUOTE_CHARS]),),
        workspace=line.get("workspace"),
        speaker=line.get("speaker") or line["role"],
        trust=_find_trust(text, line["role"]),
    )


def _find_trust(text: str, role: str) -> Trust:
    """Return where the words of a message that no night has read come from."""
    if find_foreign_parts(text):
        return Trust.OUTSIDE
    return Trust.TYPED if role == Role.USER else Trust.AGENT


def _has_tag(line: Mapping[str, Any], tag: str) -> bool:
    """Return True if a line of a log has a tag, in whatever case."""
    tags = (str(name).casefold() for name in line.get("tags") or ())
    return tag.casefold() in tags


def _find_released(view: View, hits: Sequence[Hit]) -> Set[tuple[str, str]]:
    """Return session and message, by the transcripts' own ids, of what the release has of the hits' sessions."""
    named = {hit.sources[0].session for hit in hits}
    keys = {
        key: native for key, native in view.native_sessions.items() if native in named
    }
    if not keys:
        return frozenset()
    inside = pc.field("session_id").isin([*keys])
    rows = view.read_rows(MESSAGES, ["session_id", "native_id"], inside)
    return {(keys[row["session_id"]], row["native_id"]) for row in rows}


def find_pending_corrections(view: View, space_dir: Path) -> dict[str, Hit]:
    """Return by claim the last correction that the release lacks, of those that a person wrote or confirmed."""
    targets = {
        line["session_id"]: named.claim
        for line in read_written(space_dir, view.files_read)
        if (named := parse_correction(line.get("tags")))
    }
    if not targets:
        return {}
    confirmed = {
        note.id for note in read_notes(space_dir) if note.verdict == "confirmed"
    }
    hits = ((hit.sources[0].session, hit) for hit in read_unreleased(view, space_dir))
    return {
        targets[session]: hit
        for session, hit in hits
        if session in targets and session in confirmed
    }


def apply_corrections(
    view: View,
    query: Query,
    hits: Hits,
    space_dir: Path,
) -> Hits:
    """Return the hits, those that a person corrected since the release as superseded and last, the correction in the
    place of the first of these, and no more hits than are asked for. A message that says more than the corrected claim
    is only marked.
    """
    if query.as_of or not (corrections := find_pending_corrections(view, space_dir)):
        return hits
    claims = _read_corrected(view, sorted(corrections))
    kept = list[Hit]()
    superseded = list[Hit]()
    there = {hit.id for hit in hits}
    for hit in hits:
        row = next((row for row in claims if _tells(hit, row)), None)
        if row is None or (later := corrections[row["canonical_id"]]).id == hit.id:
            kept.append(hit)
            continue
        sure = hit.kind == "claim" or has_words(row["quote"], hit.text)
        marked = _mark_corrected(hit, row, later, sure=sure)
        if later.id not in there and "message" in query.kinds:
            there.add(later.id)
            kept.append(replace(later, score=hit.score, relevance=hit.relevance))
        (superseded if sure else kept).append(marked)
    shown = [*kept, *superseded][: query.k]
    return hits.keep(shown, hits.reason, hits.relevance)


def _mark_corrected(
    hit: Hit,
    claim: Mapping[str, Any],
    later: Hit,
    *,
    sure: bool,
) -> Hit:
    """Return a hit with the correction of the claim that it tells; if not `sure`, it says more."""
    successor = Successor(later.text, later.observed_at, corrects=True)
    changes = [
        Change(
            text=hit.text[begin:end],
            status="superseded",
            by=later.id,
            likely=1.0,
            successor=successor,
            note=format_later(successor, 1.0, ""),
        )
        for begin, end in find_statement(hit.text, claim["summary"], claim["quote"])[:1]
    ]
    return replace(
        hit,
        status=Status.SUPERSEDED if sure else hit.status,
        superseded_by=later.id if sure else None,
        perhaps_superseded_by=None if sure else later.id,
        successor=successor,
        changes=(*hit.changes, *changes),
    )


def _read_corrected(
    view: View,
    ids: Sequence[str],
) -> list[Mapping[str, Any]]:
    """Return the claims, and those that repeat one; the canonical id of each is that of the one that is corrected."""
    columns = ["claim_id", "canonical_id", "summary", "quote", "workspace"]
    same = pc.field("claim_id").isin(ids) | pc.field("canonical_id").isin(ids)
    rows = view.read_rows(CLAIMS, columns, same)
    return [
        row | {"canonical_id": row["claim_id"]} if row["claim_id"] in ids else row
        for row in rows
    ]


def _tells(hit: Hit, claim: Mapping[str, Any]) -> bool:
    """Return True if a hit is a claim, or a message whose exchange has its quote word for word."""
    if hit.kind == "claim":
        return bool(hit.id == claim["claim_id"])
    if hit.kind != "message" or hit.workspace != claim["workspace"]:
        return False
    texts = [hit.text, *(fragment.text for fragment in hit.pair)]
    return any(has_words(text, str(claim["quote"])) for text in texts)
