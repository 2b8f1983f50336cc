"""Queries as vectors: the release's own encoder, loaded by the first query that needs it."""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, local

from slowwave.engines.encoders.protocol import SERVER, Encoder, KnownEncoder, compute_encoder_name
from slowwave.recall.hits import Cost
from slowwave.recall.query import Vector
from slowwave.recall.release.tables import LRUCache
from slowwave.schemas.errors import EncoderFailed

KEPT_QUERIES = 256
"""Vectors of the last queries, kept: an agent asks the same thing twice."""

ENCODE_TROUBLE = (OSError, RuntimeError, ValueError, EncoderFailed)
"""What a model raises whose files are gone, cut or another's, and a server that is away."""


class QueryVectors:
    """Vectors of queries, by the encoder that a release names."""

    def __init__(self, chosen: str, given: Encoder | None, note: Callable[[str], None]) -> None:
        """Set up; nothing is loaded yet.

        Args:
            chosen: the encoder in the settings; may be a folder, of which releases keep the last part.
            given: takes the place of what a release names, where the names agree.
            note: told what could not be had.
        """
        self.chosen, self.given, self._note = chosen, given, note
        self._loaded: dict[str, Encoder | None] = {}
        self._kept: LRUCache[tuple[str, str], Vector] = LRUCache(KEPT_QUERIES)
        self._lock = Lock()
        self._spent = local()

    @property
    def seconds(self) -> float:
        """Seconds that the calling thread has spent on vectors, the loading of a model among them."""
        return float(getattr(self._spent, "seconds", 0.0))

    def start_clock(self, kind: str, budget: int = 0) -> Callable[[], Cost]:
        """Return a function that tells the cost of an answer that this thread begins now."""
        start, before = time.perf_counter(), self.seconds
        return lambda: Cost(kind, time.perf_counter() - start, self.seconds - before, budget)

    def encode_texts(self, made_with: str | None, texts: Sequence[str]) -> Mapping[str, Vector]:
        """Return each text's vector, the new ones made in one call; empty when there is no encoder to make them."""
        start = time.perf_counter()
        try:
            if (encoder := self._get_encoder(made_with)) is None:
                return {}
            last = {text: self._kept.get((encoder.name, text)) for text in texts}
            kept = {text: vector for text, vector in last.items() if vector is not None}
            missing = [text for text in texts if text not in kept]
            try:
                fresh = dict(zip(missing, encoder.encode(missing), strict=True)) if missing else {}
            except ENCODE_TROUBLE as trouble:
                self._note(f"the encoder {encoder.name!r} failed ({trouble}): answered by full text alone")
                return {}
            for text, vector in fresh.items():
                self._kept.put((encoder.name, text), vector)
            return fresh | kept
        finally:
            self._spent.seconds = self.seconds + time.perf_counter() - start

    def prepare_encoder(self, made_with: str | None, texts: Sequence[str]) -> KnownEncoder | None:
        """Return an encoder that knows the vectors of some texts, made in one call; None where there is none."""
        known = self.encode_texts(made_with, texts)
        encoder = self._get_encoder(made_with) if known else None
        if encoder is None:
            return None
        prepared = KnownEncoder(encoder)
        prepared.known |= known
        return prepared

    def _get_encoder(self, made_with: str | None) -> Encoder | None:
        if made_with is None:
            self._note("this release has no vectors: answered by full text alone")
            return None
        if self.given is not None:
            if self.given.name == made_with:
                return self.given
            self._note(f"this release's vectors were made with {made_with!r}: answered by full text alone")
            return None
        # loaded by the first query; a server that was away is asked again
        with self._lock:
            if made_with not in self._loaded:
                self._loaded[made_with] = self._load_encoder(made_with)
            loaded = self._loaded[made_with]
            is_chosen = compute_encoder_name(self.chosen) == made_with
            if loaded is None and is_chosen and self.chosen.startswith(SERVER):
                del self._loaded[made_with]  # it may be back by the next query
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
            return load_query_encoder(self.chosen if compute_encoder_name(self.chosen) == made_with else made_with)
        except EncoderNotFound:
            return None
