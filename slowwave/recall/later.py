"""What persons said later of the same matter as some messages, in whatever words.

A newer value is often told in words that the question lacks ("queries move to Thursdays"), and the older one in the
question's ("I send them on Fridays only"). So the later message is looked for from the older one: by the cosine of
their vectors, and by the share of the older one's words that it has, by their rarity.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slowwave.recall.query import Ints, Mask, Query
from slowwave.recall.release.tables import build_matrix, limit_blas_threads
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import mask_allowed_passages
from slowwave.schemas.rows import PassageRow
from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.schemas.vocabulary import Role
from slowwave.text.rarity import weigh_share
from slowwave.text.words import singular_words

LATEST = 2_000
"""Most passages that a message is compared with, the latest of those that may be."""
NEAREST = 10
"""Passages nearest in meaning, whose words are compared too."""
EACH = 2
"""Most later messages of one."""
LEAST = 0.6
"""Least cosine and share of words together of a later message of the same matter: other matters of a project stay out
of a block that a clear answer ends."""


@dataclass(frozen=True)
class Compared:
    """The passages of a message, and those of later sessions that are nearest to them in meaning."""

    own: Ints
    near: Ints
    cosines: npt.NDArray[np.float32]
    """A row for each near passage, a column for each own one."""


def find_later_passages(
    view: View,
    query: Query,
    ids: Sequence[str],
) -> dict[str, list[PassageRow]]:
    """Return by message the passages that persons said later of its matter, the likest first, of each message one.

    They are of later sessions of the same project, and meet the query's conditions. A store whose vectors have an
    index, or are not all there, has none.
    """
    vectors = view.load_vectors(PASSAGES)
    if vectors is None or vectors.null_count or not ids:
        return {}
    layout = view.passages
    keys = view.read_keys(MESSAGES)
    places = view.find_positions(ids)
    messages = layout.message[places]
    by_person = layout.mask_role(np.arange(len(layout.role)), Role.USER)
    allowed = mask_allowed_passages(view, query) & by_person
    compared = {
        keys[message].as_py(): _compare(
            view=view,
            vectors=vectors,
            own=places[messages == message],
            allowed=allowed,
        )
        for message in np.unique(messages).tolist()
    }
    compared = {key: one for key, one in compared.items() if len(one.near)}
    if not compared:
        return {}
    texts = _read_texts(view, compared.values())
    words = {place: singular_words(row["text"]) for place, row in texts.items()}
    return {key: _rank(one, texts, words) for key, one in compared.items()}


def _compare(
    view: View,
    vectors: pa.ChunkedArray,
    own: Ints,
    allowed: Mask,
) -> Compared:
    """Return the allowed passages that were said in later sessions and are nearest to some own ones."""
    layout = view.passages
    is_later = (
        allowed
        & (layout.workspace == layout.workspace[own[0]])
        & (layout.moment > layout.moment[own[0]])
        & (layout.session != layout.session[own[0]])
    )
    later = np.flatnonzero(is_later)
    latest = later[np.argsort(layout.moment[later], kind="stable")[-LATEST:]]
    with limit_blas_threads():
        cosines = (
            _stack(vectors, layout.offsets[latest])
            @ _stack(vectors, layout.offsets[own]).T
        )
    nearest = np.argsort(-cosines.max(axis=1), kind="stable")[:NEAREST]
    return Compared(own, latest[nearest], cosines[nearest])


def _read_texts(
    view: View,
    compared: Iterable[Compared],
) -> dict[int, PassageRow]:
    """Return the text and message of each passage, by place; all are read at once, since each look costs."""
    parts = [part for one in compared for part in (one.own, one.near)]
    places = np.unique(np.concatenate(parts))
    rows: list[PassageRow] = view.take(
        PASSAGES, view.passages.offsets[places], ["message_id", "text"]
    ).to_pylist()
    return dict(zip(places.tolist(), rows, strict=True))


def _rank(
    compared: Compared,
    texts: Mapping[int, PassageRow],
    words: Mapping[int, Set[str]],
) -> list[PassageRow]:
    """Return the later passages that are at least LEAST like one of the own passages, the likest first, of each message
    one.
    """
    likeness = {}
    for place, cosines in zip(compared.near.tolist(), compared.cosines, strict=True):
        shares = [
            weigh_share(words[own], words[place]) for own in compared.own.tolist()
        ]
        likeness[place] = float((cosines + shares).max())
    best = dict[str, PassageRow]()
    near = [place for place in likeness if likeness[place] >= LEAST]
    for place in sorted(near, key=lambda place: -likeness[place]):
        best.setdefault(texts[place]["message_id"], texts[place])
    return list(best.values())[:EACH]


def _stack(vectors: pa.ChunkedArray, offsets: Ints) -> npt.NDArray[np.float32]:
    """Return the vectors at some offsets, as rows."""
    return build_matrix(vectors.take(pa.array(offsets)).combine_chunks())
