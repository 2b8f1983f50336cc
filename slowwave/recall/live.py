"""The release that is live, followed as new ones come; what its last answer could not use; what `remember` and `talk`
wrote since, found as it is until a night distils it; and async twins of blocking methods, each on its own thread.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from threading import Lock, local
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import pyarrow.compute as pc

from slowwave.recall.filters import build_path_variants
from slowwave.recall.hits import QUOTE_CHARS, Hit, Source
from slowwave.recall.query import Query
from slowwave.recall.release.view import View, normalise_name
from slowwave.recall.retrieve.encoding import KEPT_QUERIES, QueryVectors
from slowwave.schemas.errors import TROUBLE, translate_read_errors
from slowwave.schemas.tables import MESSAGES, RELEASES
from slowwave.schemas.vocabulary import Role, Status
from slowwave.store.bucket.working_copy import refresh
from slowwave.store.notes import read_written
from slowwave.store.workspaces import find_workspaces
from slowwave.text.words import compute_word_share

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def make_async_twin(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the method as a coroutine function on a thread of its own, for callers that must not be held up."""

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}"
    return twin


LOG = logging.getLogger(__name__)


class Notes:
    """The notes of the last answer. Threads that answer at once don't mix theirs: the one that ends last is told."""

    def __init__(self) -> None:
        self.last: list[str] = []
        """Each once."""
        self._open = local()

    @property
    def answer_notes(self) -> tuple[str, ...]:
        """Those of the answer that this thread is at."""
        return tuple(getattr(self._open, "notes", ()))

    def add(self, what: str) -> None:
        """Add a note to the answer that this thread is at, else of the last one; logged when it is new."""
        notes: list[str] = getattr(self._open, "notes", self.last)
        if what in notes:
            return
        if what not in self.last:
            LOG.warning(what)
        notes.append(what)

    def replace_notes(self, what: str) -> None:
        """Add a note in the place of those of the answer so far: what they tell of came to nothing."""
        getattr(self._open, "notes", []).clear()
        self.add(what)

    @contextmanager
    def collect_answer_notes(self) -> Iterator[None]:
        """Collect what is noted inside, in the place of what was; an answer within an answer is part of it."""
        if hasattr(self._open, "notes"):
            yield
            return
        self._open.notes = []
        try:
            yield
        finally:
            self.last = self._open.notes
            del self._open.notes


class LiveRelease:
    """A space's live release, or the one that is named; shared by threads."""

    WAIT = 1.0
    """Least seconds between two looks for a newer release."""

    def __init__(self, root: Path, space: str, named: str | None, note: Callable[[str], None]) -> None:
        """Set up; nothing is read yet.

        Args:
            root: the store's folder.
            space: a folder in it.
            named: a release's id or name, which stays; None for the live one.
            note: told with each answer that a newer release can't be read.
        """
        self.root, self.space, self.named, self._note = root, space, named, note
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
            stamp = self._read_stamp()  # before: a release that comes meanwhile is found by the next look
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

    def _find_newest(self) -> View:
        """Return the live release's view: the one there is, where it is not yet time to look, nothing was added to the
        releases or they can't be read.
        """
        view = self.view
        if view is not None and (self.named is not None or time.monotonic() - self._looked < self.WAIT):
            return view
        self._looked = time.monotonic()
        try:
            fresh = view if view is not None and self._read_stamp() == self._stamp else self.open_view()
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
        """Return the time when a row was last added to the releases; 0 where there are none."""
        refresh(self.root / self.space)
        versions = self.root / self.space / f"{RELEASES.name}.lance" / "_versions"
        return versions.stat().st_mtime_ns if versions.is_dir() else 0


def find_unreleased(view: View | None, space_dir: Path, query: Query, vectors: QueryVectors) -> list[Hit]:
    """Return relevant messages written since the release (None: before the first), the most relevant first.

    Relevance is on the release's scale, as that of its hits; where there is none it is the share of the query's words.
    """
    hits = [] if query.is_of_claims or "message" not in query.kinds else read_unreleased(view, space_dir)
    # those that pass the query's conditions
    workspaces = {hit.workspace for hit in hits if hit.workspace}
    places = find_workspaces(query.workspace, workspaces) if query.workspace else ()
    speaker = normalise_name(query.speaker or "")
    ways = build_path_variants(query.files, workspaces) if query.files else []
    hits = [
        hit
        for hit in hits
        if (query.workspace is None or hit.workspace in places)
        and (query.since is None or (hit.observed_at and hit.observed_at >= query.since))
        and (query.until is None or (hit.observed_at and hit.observed_at <= query.until))
        and (not speaker or f"{normalise_name(hit.speaker or '')} ".startswith(f"{speaker} "))
        and (not ways or any(way.is_valid_in(hit.workspace) and way.pattern.search(hit.text) for way in ways))
    ][-KEPT_QUERIES // 2 :]  # whose vectors are kept for the next query
    share = relevance = np.array([compute_word_share(query.content_words, hit.text) for hit in hits])
    scale = view.scales.get("message") if view else None
    texts = [query.text, *(hit.text for hit in hits)] if scale and hits else []
    if scale and view and (encoded := vectors.encode_texts(view.release.encoder, texts) if texts else {}):
        cosines = np.array([encoded[text] @ encoded[query.text] for text in texts[1:]], dtype=np.float64)
        relevance = scale.compute_relevances(cosines, share)
    order = np.lexsort((-np.arange(len(hits)), -share, -relevance))
    return [replace(hits[n], score=float(share[n]), relevance=float(relevance[n])) for n in order if relevance[n] > 0]


def read_unreleased(
    view: View | None, space_dir: Path, roles: Collection[str] = (Role.USER, Role.ASSISTANT)
) -> list[Hit]:
    """Return the messages of some roles that the release does not have, by the transcripts' own ids; the oldest
    first.
    """
    written = read_written(space_dir, view.files_read if view else frozenset())
    # lines of the journals as hits that are not weighed yet
    hits = []
    for line in written:
        session, message, text = line["session_id"], line["message_id"], line["content"]
        if line["role"] in roles:
            hit = Hit(
                *("message", f"{session}/{message}", text, 0.0),
                *(datetime.fromisoformat(line["ts"]) if line["ts"] else None, Status.NOT_DISTILLED),
                sources=(Source(session, message, text[:QUOTE_CHARS]),),
                workspace=line.get("workspace"),
                speaker=line.get("speaker") or line["role"],
            )
            hits.append(hit)
    # those that the release does not have
    named = {hit.sources[0].session for hit in hits}
    keys = {key: native for key, native in view.native_sessions.items() if native in named} if view and named else {}
    inside, columns = pc.field("session_id").isin([*keys]), ["session_id", "native_id"]
    rows = view.read(MESSAGES, columns, inside).to_pylist() if view and keys else []
    known = {(keys[row["session_id"]], row["native_id"]) for row in rows}
    new = [hit for hit in hits if (hit.sources[0].session, hit.sources[0].message) not in known]
    return sorted(new, key=lambda hit: str(hit.observed_at))
