"""What persons said later of the same matter as some messages, in whatever words.

A newer value is often told in words that the question lacks ("queries move to Thursdays"), and the older one in the
question's ("I send them on Fridays only"). So the later message is looked for from the older one: by the cosine of
their vectors, and by the share of the older one's words that it has, by their rarity.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.query import Ints, Query
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
    wanted = pc.is_in(keys, value_set=pa.array(ids, keys.type)).to_numpy()
    messages = np.unique(layout.message[wanted[layout.message]])
    by_person = layout.mask_role(np.arange(len(layout.role)), Role.USER)
    allowed = mask_allowed_passages(view, query) & by_person
    found = dict[str, list[PassageRow]]()
    for message in messages.tolist():
        own = np.flatnonzero(layout.message == message)
        is_later = (
            allowed
            & (layout.workspace == layout.workspace[own[0]])
            & (layout.moment > layout.moment[own[0]])
            & (layout.session != layout.session[own[0]])
        )
        later = np.flatnonzero(is_later)
        latest = later[np.argsort(layout.moment[later], kind="stable")[-LATEST:]]
        if len(latest):
            found[keys[message].as_py()] = _rank(view, vectors, own, latest)
    return found


def _rank(
    view: View,
    vectors: pa.ChunkedArray,
    own: Ints,
    later: Ints,
) -> list[PassageRow]:
    """Return the later passages that are most like one of some own passages, the likest first, of each message one."""
    offsets = view.passages.offsets
    texts = view.take(PASSAGES, offsets[own], ["text"])["text"].to_pylist()
    words = list(map(singular_words, texts))
    with limit_blas_threads():
        cosines = _stack(vectors, offsets[later]) @ _stack(vectors, offsets[own]).T
    near = np.argsort(-cosines.max(axis=1), kind="stable")[:NEAREST]
    rows: list[PassageRow] = view.take(
        PASSAGES, offsets[later[near]], ["message_id", "text"]
    ).to_pylist()
    likeness = []
    for at, row in zip(near, rows, strict=True):
        said = singular_words(row["text"])
        shares = [weigh_share(one, said) for one in words]
        likeness.append(float((cosines[at] + shares).max()))
    order = sorted(range(len(rows)), key=lambda at: -likeness[at])
    best = dict[str, PassageRow]()
    for at in order:
        best.setdefault(rows[at]["message_id"], rows[at])
    return list(best.values())[:EACH]


def _stack(vectors: pa.ChunkedArray, offsets: Ints) -> npt.NDArray[np.float32]:
    """Return the vectors at some offsets, as rows."""
    return build_matrix(vectors.take(pa.array(offsets)).combine_chunks())
