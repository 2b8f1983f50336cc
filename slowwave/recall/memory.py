"""`Memory`: opens a released state of the store and answers from it.

    from slowwave import Memory
    hits = Memory.open().recall("why did we leave Redis?", k=5)

Opening reads one small table; the encoder is loaded by the first query that needs it. A memory that stays open notices
new releases, and may be asked by many threads.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import ValidationError

from schemas.errors import NoRelease, StoreError, UsageError
from schemas.runs import RELEASES
from schemas.settings import Settings
from slowwave.engines.encoder import Encoder
from slowwave.recall.answers import Answers
from slowwave.recall.encoding import QueryVectors
from slowwave.recall.hits import KINDS, Hits
from slowwave.recall.query import Query, When, checked_query
from slowwave.recall.searching import READ_TROUBLE, Search
from slowwave.recall.view import View
from slowwave.store.releases import Release

if TYPE_CHECKING:
    from slowwave.recall.context import Context, Turn
    from slowwave.recall.rendering import Format
    from slowwave.recall.tokens import Tokenizer
    from slowwave.store.snapshot import Snapshot

LOG = logging.getLogger(__name__)
TROUBLE = (*READ_TROUBLE, StoreError)
"""What a store raises that is gone, or half there."""


class Memory:
    """The released memory of one space."""

    def __init__(self, settings: Settings, root: Path, release: str | None, encoder: Encoder | None) -> None:
        self.settings, self.root, self.space = settings, root, settings.space
        self.notes: list[str] = []
        """What this memory could not use, and what it did instead; each once."""
        self._named = release
        self._vectors = QueryVectors(settings.encoder, encoder, self._note)
        self._answers = Answers(root, settings.space, settings.recall.cached_answers)
        self._view: View | None = None
        self._stamp = 0
        self._looked = 0.0
        self._looking = Lock()

    @classmethod
    def open(
        cls,
        store: Path | str | None = None,
        space: str = "default",
        release: str | None = None,
        *,
        encoder: Encoder | None = None,
    ) -> "Memory":
        """The live release of a space, or the one of that id or name (`r3`); `store` defaults to the settings' one.

        `encoder` takes the place of the model that the release names. A store that can't be reached, but gave answers
        before, is opened all the same: those answers are told, marked as stale, until it is back.

        Raises:
            StoreMissing: there is no such store or space.
            NoRelease: nothing is released yet, or not under that name.
            UsageError: the encoder given is not the one the stored vectors were made with, or `space` is no name.
        """
        settings = _settings(space)
        memory = cls(settings, Path(store) if store is not None else settings.store, release, encoder)
        try:
            memory._view = memory._opened()
        except TROUBLE as trouble:
            if isinstance(trouble, NoRelease) or not memory._answers.any:
                raise
            memory._note(f"the store can't be read ({trouble}): answered from the last answers")
            return memory
        made_with = memory.release.encoder
        if encoder is not None and made_with is not None and encoder.name != made_with:
            raise UsageError(f"this memory's vectors were made with {made_with!r}, not with {encoder.name!r}")
        return memory

    @property
    def release(self) -> Release:
        """The release that answers.

        Raises:
            StoreMissing: the store can't be reached, and could not when this was opened.
        """
        return (self._view or self._opened()).release

    @property
    def snapshot(self) -> "Snapshot":
        """The release's tables, for what recall does not do."""
        from slowwave.store.snapshot import Snapshot

        return Snapshot(self.root, self.space, self.release.release_id)

    def recall(
        self,
        query: str,
        k: int = 10,
        kinds: Iterable[str] | str = KINDS,
        workspace: str | None = None,
        category: str | None = None,
        since: When = None,
        until: When = None,
        *,
        automatic: bool = False,
        now: datetime | None = None,
        as_of: When = None,
    ) -> Hits:
        """Up to k memories that answer the query, best first; equal scores in order of kind and id.

        Nothing, with the `reason`, when nothing is relevant. A hit that a later claim has changed is marked
        `superseded`, names its successor, and stands below it. `since` and `until` are datetimes, dates or ISO strings
        (naive: UTC; a bare `until` date counts to its end); rows without a time are then left out. `category` is a
        property of observations: when it is given, nothing else answers.

        Args:
            automatic: nobody asked: the stricter floor holds, for each hit.
            now: what "yesterday" in the query counts back from; the clock's time, unless given.
            as_of: answer as on that day: what was said later is left out, and what was true then is active.

        Raises:
            UsageError: a query without words or over-long, k under 1, an unknown kind, a bound that is no date.
        """
        asked = (k, kinds, workspace, category, since, until)
        return self.recall_many([query], *asked, automatic=automatic, now=now, as_of=as_of)[0]

    def recall_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        kinds: Iterable[str] | str = KINDS,
        workspace: str | None = None,
        category: str | None = None,
        since: When = None,
        until: When = None,
        *,
        automatic: bool = False,
        now: datetime | None = None,
        as_of: When = None,
    ) -> list[Hits]:
        """`recall` of each query, in order, from one release and with one call of the encoder.

        Raises:
            UsageError: one of the queries, or a condition, can't be carried out as put; nothing is searched.
        """
        some = tuple(kinds) if isinstance(kinds, Iterator) else kinds  # read once, for every query
        asked = [checked_query(query, k, some, workspace, category, since, until, now, as_of) for query in queries]
        try:
            answers = self._search().answers(asked, automatic=automatic)
        except TROUBLE as trouble:
            self._note(f"the store can't be read ({trouble}): answered from the last answers")
            return [self._last_answer(query, automatic) for query in asked]
        for query, hits in zip(asked, answers, strict=True):
            self._answers.keep(self._question(query, automatic), hits)
        return answers

    async def arecall(
        self,
        query: str,
        k: int = 10,
        kinds: Iterable[str] | str = KINDS,
        workspace: str | None = None,
        category: str | None = None,
        since: When = None,
        until: When = None,
        *,
        automatic: bool = False,
        now: datetime | None = None,
        as_of: When = None,
    ) -> Hits:
        """`recall` on a thread of its own, for callers that must not be held up."""
        asked = (k, kinds, workspace, category, since, until)
        return await asyncio.to_thread(self.recall, query, *asked, automatic=automatic, now=now, as_of=as_of)

    def context(
        self,
        query: str,
        budget: int | None = None,
        *,
        web: Iterable[object] = (),
        conversation: Iterable["Turn"] = (),
        tokenizer: "Tokenizer | None" = None,
        format: "Format" = "markdown",
        workspace: str | None = None,
    ) -> "Context":
        """A prompt block of at most `budget` tokens: web results, memories, conversation; the best nearest the end.

        Its memories are whole sentences of past sessions, each line with its source, chosen to cover what most likely
        matters to the query; none where recall finds nothing relevant. What does not fit is recapped, never cut.

        Args:
            budget: tokens by `tokenizer`; both by default the settings'.
            web: results with url, title and text, the best first.
            conversation: turns (role and content), the latest last.

        Raises:
            UsageError: a query that `recall` refuses, a budget below 0, an unknown format or tokenizer.
        """
        from slowwave.recall.prompts import context_of

        return context_of(
            self,
            query,
            budget,
            web=web,
            conversation=conversation,
            tokenizer=tokenizer,
            format=format,
            workspace=workspace,
        )

    def briefing(
        self, budget: int | None = None, *, tokenizer: "Tokenizer | None" = None, format: "Format" = "markdown"
    ) -> "Context":
        """What is known, for the start of a conversation: the same bytes as long as the release is the same."""
        from slowwave.recall.prompts import briefing_of

        return briefing_of(self, budget, tokenizer=tokenizer, format=format)

    def _search(self) -> Search:
        view = self._current()
        made_with = view.release.encoder
        return Search(view, self.settings.recall, lambda texts: self._vectors.encoded(made_with, texts), self._note)

    def _last_answer(self, query: Query, automatic: bool) -> Hits:
        told = self._answers.told(self._question(query, automatic))
        return (
            Hits(reason="the store can't be read, and this was never asked before", stale=True)
            if told is None
            else told
        )

    def _question(self, query: Query, automatic: bool) -> str:
        return repr((query, automatic, self._named))

    def _current(self) -> View:
        """The view that answers: of a newer release, when there is one. Others go on with the old one meanwhile."""
        view, wait = self._view, self.settings.recall.refresh_seconds
        late = view is None or (self._named is None and time.monotonic() - self._looked >= wait)
        if late and self._looking.acquire(blocking=view is None):
            try:
                return self._looked_again()
            finally:
                self._looking.release()
        return view or self._opened()

    def _looked_again(self) -> View:
        """The live release's view; the one there is, where nothing was added to the releases or they can't be read."""
        self._looked = time.monotonic()
        view = self._view
        try:
            if view is not None and self._stamped() == self._stamp:
                return view
            fresh = self._opened()
        except TROUBLE as trouble:
            if view is None:
                raise
            self._note(f"the releases can't be read ({trouble}): answered from {view.release.name}")
            return view
        if view is None or fresh.release.release_id != view.release.release_id:
            LOG.info("answering from release %s", fresh.release.name)
            self._view = view = fresh
        return view

    def _opened(self) -> View:
        self._stamp = self._stamped()
        self._looked = time.monotonic()
        return View.open(self.root, self.space, self._named)

    def _stamped(self) -> int:
        """When a row was last added to the releases; 0 where there are none."""
        versions = self.root / self.space / f"{RELEASES.name}.lance" / "_versions"
        return versions.stat().st_mtime_ns if versions.is_dir() else 0

    def _note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)
            LOG.warning(what)


def _settings(space: str) -> Settings:
    """The settings in force, for this space: a space is a wall, so its name must not lead out of the store."""
    try:
        return Settings(space=space)
    except ValidationError as refused:
        if any(error["loc"] == ("space",) for error in refused.errors()):
            raise UsageError(f"space is {space!r}; it is a name of a-z, 0-9, - and _, at most 63 long") from None
        raise
