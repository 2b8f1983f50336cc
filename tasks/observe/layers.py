"""Read what a person's sentences mean out of one pass over their message and the end of the turn before.

`python -m bench.fit.layers` fits upper layers of the encoder that ships to the sentences that independent writers
labelled (`data/labelled/statements_*.jsonl`): a head for each of `reader.HEADS`, over a sentence's tokens and the first
token. A message is read in windows of sentences. What is read of a sentence depends on its message and on the turn
before, to the last bit. `reader.StatementReader` reads the same sentence by its words, and both readings count; with
another encoder, or none, it reads alone.
See `docs/decisions/034-statements-in-one-pass.md` and `046-both-readings.md`.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slowwave.engines.encoders.load import is_there, load_query_encoder
from slowwave.engines.encoders.onnx import OnnxEncoder
from slowwave.engines.encoders.protocol import find_vector_space
from slowwave.engines.encoders.upper_layers import UpperLayers
from slowwave.schemas.errors import EncoderNotFound
from slowwave.schemas.settings import Settings
from slowwave.tasks.observe.reader import (
    HEADS,
    Reading,
    join_readings,
    load_reader,
)
from slowwave.tasks.observe.units import SpokenSentence, TurnSentences

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

LOG = logging.getLogger(__name__)
SHIPPED: str = Settings.model_fields["encoder"].default
"""The encoder whose layers these are."""
LAYERS = "layers"
"""The reader of persons' sentences here."""
REGRESSION = "regression"
"""The one in `reader.py`, for a store without the shipped encoder."""
LAYERS_FILE = "observe/layers.npz"
WINDOW = 600
"""Most characters of the sentences that are read together, unless one has more."""
BEFORE = 240
"""Characters of the turn before, from its end."""
BEFORE_TOKENS = 56
"""Most tokens of the turn before."""
CLOSING = 3
"""Most characters behind a window's last sentence that belong to it: a question mark, quotes."""
FIRST = 101
"""The token at the beginning."""
BETWEEN = 102
"""The token after each part."""
Share = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """The tokens of some sentences of a message, with those of the turn before."""

    ids: list[int]
    spans: dict[int, tuple[int, int]]
    """The tokens of each sentence, by its index in the message. A sentence beyond the last token has none."""

    def build_share(self) -> Share:
        """Return the weights of the tokens, shape (1, 1 + sentences, tokens): of the first, and of each sentence."""
        share = np.zeros((1, 1 + len(self.spans), len(self.ids)), dtype=np.float32)
        share[0, 0, 0] = 1.0
        for row, (start, stop) in enumerate(self.spans.values(), 1):
            share[0, row, start:stop] = 1 / (stop - start)
        return share


class LayeredReader(UpperLayers):
    """Fitted layers from a message to log-odds, one for each of HEADS for each sentence."""

    def read(
        self,
        session: "InferenceSession",
        encoder: OnnxEncoder,
        sentences: Sequence[SpokenSentence],
    ) -> list[Reading | None]:
        """Return a reading of each sentence; None if it is beyond the last token of its window.

        Args:
            session: the encoder with these layers, as `open` returns it.
            encoder: the encoder, for its tokens.
            sentences: the sentences, of any messages.
        """
        readings: list[Reading | None] = [None] * len(sentences)
        by_turns: dict[tuple[int, int], list[int]] = {}
        for at, one in enumerate(sentences):
            by_turns.setdefault((id(one.turn), id(one.last)), []).append(at)
        for places in by_turns.values():
            asked = {sentences[at].at for at in places}
            one = sentences[places[0]]
            found = {
                index: reading
                for window in list_windows(
                    encoder=encoder, turn=one.turn, last=one.last, asked=asked
                )
                for index, reading in self._read_window(session, window)
            }
            for at in places:
                readings[at] = found.get(sentences[at].at)
        return readings

    def _read_window(
        self, session: "InferenceSession", window: ReadWindow
    ) -> Iterator[tuple[int, Reading]]:
        """Yield the index of each sentence of a window with its reading."""
        ids = np.array([window.ids], dtype=np.int32)
        inputs = {"ids": ids, "share": window.build_share()}
        (pooled,) = session.run(["pooled"], inputs)
        states = pooled[0].astype(np.float64)
        first = np.broadcast_to(states[0], states[1:].shape)
        odds = self.compute_odds(np.concatenate([states[1:], first], axis=1))
        likely = 1 / (1 + np.exp(-odds.astype(np.float64)))
        for index, row in zip(window.spans, likely.tolist(), strict=True):
            yield index, Reading(dict(zip(HEADS, row, strict=True)))


def list_windows(
    encoder: OnnxEncoder,
    turn: TurnSentences,
    last: TurnSentences | None,
    asked: set[int],
) -> Iterator[ReadWindow]:
    """Yield the windows of a message that hold one of the sentences asked for, by their indices."""
    before, _ = encoder.locate_tokens(last.text.rstrip()[-BEFORE:] if last else "")
    for indices in split_sentences_by_length(turn):
        if not asked.isdisjoint(indices):
            yield _build_window(
                encoder=encoder,
                turn=turn,
                indices=indices,
                before=before[-BEFORE_TOKENS:],
            )


def split_sentences_by_length(turn: TurnSentences) -> Iterator[list[int]]:
    """Yield indices of successive sentences whose text has up to WINDOW characters, or of one that has more."""
    indices: list[int] = []
    for at, sentence in enumerate(turn.sentences):
        if indices and sentence.end - turn.sentences[indices[0]].start > WINDOW:
            yield indices
            indices = []
        indices.append(at)
    if indices:
        yield indices


def _build_window(
    encoder: OnnxEncoder,
    turn: TurnSentences,
    indices: Sequence[int],
    before: Sequence[int],
) -> ReadWindow:
    """Return the window of successive sentences."""
    start = turn.sentences[indices[0]].start
    end = turn.sentences[indices[-1]].end
    following = turn.sentences[indices[-1] + 1 : indices[-1] + 2]
    stop = min([end + CLOSING, *(sentence.start for sentence in following)])
    ids, places = encoder.locate_tokens(turn.text[start:stop])
    ahead = 2 + len(before)
    spans = {}
    for index in indices:
        sentence = turn.sentences[index]
        own = [
            token
            for token, (opens, closes) in enumerate(places)
            if closes > sentence.start - start and opens < sentence.end - start
        ]
        if own:
            spans[index] = (ahead + own[0], ahead + own[-1] + 1)
    return ReadWindow([FIRST, *before, BETWEEN, *ids, BETWEEN], spans)


@cache
def load_layered_reader() -> LayeredReader:
    """Return the layers that ship with the package."""
    return LayeredReader.from_bytes(
        files("slowwave.tasks").joinpath(LAYERS_FILE).read_bytes()
    )


@cache
def load_shipped() -> OnnxEncoder:
    """Return the encoder that ships, loaded once per process.

    Raises:
        EncoderNotFound: it does not run as a graph here; the next call tries again.
    """
    encoder = load_query_encoder(SHIPPED)
    if not isinstance(encoder, OnnxEncoder):
        raise EncoderNotFound(SHIPPED, ["its graph: can't be opened here"])
    return encoder


@cache
def _open_layers(encoder: OnnxEncoder) -> "InferenceSession":
    """Return the session of the layers that ship, which is opened once per process."""
    return load_layered_reader().open(encoder)


@cache
def can_open_layers() -> bool:
    """Return True if the layers can be opened here; else log why."""
    try:
        _open_layers(load_shipped())
    except EncoderNotFound as error:
        LOG.warning("persons' sentences are read by regression: %s", error)
        return False
    return True


def name_reader(settings: Settings) -> str:
    """Return the reader of persons' sentences: LAYERS if their encoder is set and is there, else REGRESSION."""
    is_shipped = settings.embeddings and find_vector_space(settings.encoder) == SHIPPED
    return LAYERS if is_shipped and is_there(SHIPPED) else REGRESSION


def reads_in_layers(settings: Settings) -> bool:
    """Return True if persons' sentences are read in layers, as the claims' messages were, where they can be opened."""
    return name_reader(settings) == LAYERS and can_open_layers()


def read_sentences(
    sentences: Sequence[SpokenSentence], *, in_layers: bool
) -> list[Reading]:
    """Return a reading of each sentence: by the layers and the regression together, or by the regression alone.

    The regression alone reads what the layers can't: a sentence beyond the last token of its window.

    Raises:
        EncoderNotFound: the layers can't be opened here.
    """
    by_words = load_reader().read(sentences)
    if not in_layers or not sentences:
        return by_words
    encoder = load_shipped()
    session = _open_layers(encoder)
    by_layers = load_layered_reader().read(session, encoder, sentences)
    return [
        join_readings(one, other) if one else other
        for one, other in zip(by_layers, by_words, strict=True)
    ]
