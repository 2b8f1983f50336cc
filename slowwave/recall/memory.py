"""`Memory`: opens a released state of the store and answers from it.

    from slowwave import Memory
    hits = Memory.open().recall("why did we leave Redis?", k=5)

Opening reads one small table; the encoder is loaded by the first query that needs it.
"""

import logging
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from lancedb.table import LanceTable
from pydantic import ValidationError

from schemas.errors import UsageError
from schemas.settings import Settings
from slowwave.engines.encoder import Encoder
from slowwave.recall.fusion import best_of_each, reciprocal_rank
from slowwave.recall.hits import KINDS, Hit
from slowwave.recall.layout import Layout
from slowwave.recall.messages import message_candidates
from slowwave.recall.query import Query, When, checked_query
from slowwave.recall.search import POOLS, Candidates, Pool, Scores, lanes
from slowwave.recall.sources import Found, hits_with_sources, merged
from slowwave.store.releases import Release
from slowwave.store.snapshot import Snapshot

LOG = logging.getLogger(__name__)

Vector = npt.NDArray[np.float32]
INDEX_TROUBLE = (OSError, RuntimeError, ValueError)
"""What Lance raises for an index or a file it can't read."""


class Memory:
    """The released memory of one space."""

    def __init__(self, snapshot: Snapshot, settings: Settings, encoder: Encoder | None = None) -> None:
        self.snapshot, self.settings = snapshot, settings
        self.notes: list[str] = []
        """What this memory could not use, and what it did instead; each once."""
        self._encoder = encoder
        self._no_encoder = False
        self._last: tuple[str, Vector] | None = None

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

        `encoder` takes the place of the model that the release names.

        Raises:
            StoreMissing: there is no such store or space.
            NoRelease: nothing is released yet, or not under that name.
            UsageError: the encoder given is not the one the stored vectors were made with, or `space` is no name.
        """
        settings = _settings(space)
        snapshot = Snapshot(Path(store) if store is not None else settings.store, space, release)
        made_with = snapshot.release.encoder
        if encoder is not None and made_with is not None and encoder.name != made_with:
            raise UsageError(f"this memory's vectors were made with {made_with!r}, not with {encoder.name!r}")
        return cls(snapshot, settings, encoder)

    @property
    def release(self) -> Release:
        """The release that answers."""
        return self.snapshot.release

    def recall(
        self,
        query: str,
        k: int = 10,
        kinds: Iterable[str] | str = KINDS,
        workspace: str | None = None,
        category: str | None = None,
        since: When = None,
        until: When = None,
    ) -> list[Hit]:
        """Up to k memories that answer the query, best first; equal scores in order of kind and id.

        Observations are the active ones alone. `since` and `until` are datetimes, dates or ISO strings (naive: UTC; a
        bare `until` date counts to its end); rows without a time are then left out. `category` is a property of
        observations: when it is given, nothing else answers.

        Raises:
            UsageError: a query without words or over-long, k under 1, an unknown kind, a bound that is no date.
        """
        asked = checked_query(query, k, kinds, workspace, category, since, until)
        found = [self._found(POOLS[kind], asked) for kind in asked.kinds]
        return hits_with_sources(self.snapshot, merged(found, self.settings.recall.rrf_k)[: asked.k])

    def _found(self, pool: Pool, query: Query) -> list[Found]:
        """The k best rows of a pool, one an owner, best first."""
        table = self.snapshot.table(pool.table)
        if table.count_rows() == 0 or (query.category is not None and pool.kind != "observation"):
            return []
        meant = self._layout.without_speakers(query.text) if pool.kind == "message" else query.text
        candidates, scores = self._scored(table, pool, query, self._encoded(meant), self._full_text(table, pool))
        owners = [str(row[pool.owner]) for row in candidates.rows]
        cosine = candidates.signals.get("vector", np.full(len(owners), np.nan))
        best = best_of_each(scores, owners, candidates.ids)[: query.k]
        return [Found(pool.kind, owners[i], candidates.rows[i], float(scores[i]), float(cosine[i])) for i in best]

    def _scored(
        self, table: LanceTable, pool: Pool, query: Query, vector: Vector | None, full_text: bool
    ) -> tuple[Candidates, Scores]:
        """Candidates and scores; where full text turns out to be broken, once more without it."""
        limit = max(self.settings.recall.candidates, 2 * query.k)
        try:
            if pool.kind == "message":
                return message_candidates(table, pool, query, self._layout, limit, vector, full_text)
            candidates = lanes(table, pool, query, limit, vector, full_text)
            return candidates, reciprocal_rank(candidates, self.settings.recall.rrf_k)
        except INDEX_TROUBLE as trouble:
            if not full_text:
                raise
            self._note(f"full text of {pool.table.name} can't be read ({trouble}): answered by vectors alone")
            return self._scored(table, pool, query, vector, full_text=False)

    def _full_text(self, table: LanceTable, pool: Pool) -> bool:
        """Whether the table has an index of full text."""
        if any(index.columns == [pool.text] for index in table.list_indices()):
            return True
        self._note(f"{pool.table.name} has no full-text index: answered by vectors alone")
        return False

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.snapshot.table(POOLS["message"].table))

    def _encoded(self, text: str) -> Vector | None:
        """The query's vector; None when there is no encoder to make it."""
        if self._encoder is None and not self._no_encoder:
            self._encoder = self._loaded()
            self._no_encoder = self._encoder is None
        if self._encoder is None:
            return None
        if self._last is None or self._last[0] != text:  # asked once a kind
            self._last = (text, self._encoder.encode([text])[0])
        return self._last[1]

    def _loaded(self) -> Encoder | None:
        made_with = self.release.encoder
        if made_with is None:
            self._note("this release has no vectors: answered by full text alone")
            return None
        from slowwave.engines.errors import EncoderNotFound
        from slowwave.engines.sentence_transformer import load_encoder

        chosen = self.settings.encoder  # may be a folder; releases keep its last part
        try:
            return load_encoder(chosen if Path(chosen).name == made_with else made_with)
        except EncoderNotFound:
            self._note(f"the encoder {made_with!r} of this release can't be loaded: answered by full text alone")
            return None

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
