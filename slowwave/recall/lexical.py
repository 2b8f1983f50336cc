"""Full text read as a conversation: a query's words may stand in neighbouring passages.

Each word is looked up by itself. A passage gets, for each word, the best BM25 that it or a neighbour has for it, a
neighbour's faded by distance; so a word counts once in a stretch of talk, and a passage between two that hold half of
the query each gets all of it. (A plain sum over neighbours counts one frequent word many times: LoCoMo evidence
recall @10 goes from 73 to 77 with the sum, to 81 with the best.)
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from lancedb.table import LanceTable

from slowwave.recall.layout import Ints, Layout, Mask
from slowwave.recall.query import WORD, Query
from slowwave.recall.search import Pool, Scores, conditions

MAX_WORDS = 64
"""Words of a query that are looked up; later ones are left out."""

ROWS_A_WORD = 1_000
"""Passages a word brings, at most: a word in more of them tells little."""

LOOKUPS_AT_ONCE = 4

REACH = 6
FADE = 0.75
"""How far a passage hears its neighbours, and what a step of distance leaves."""


def lexical_scores(table: LanceTable, pool: Pool, query: Query, layout: Layout, allowed: Mask) -> Scores:
    """Faded best BM25 of each word, summed over the words: one score a position, 0 where no word is in reach."""
    total = np.zeros(len(layout.row_ids))
    for positions, scores in word_lanes(table, pool, query, layout):
        best = np.zeros(len(total))
        for offset in range(-REACH, REACH + 1):
            moved, same = layout.shifted(positions, offset)
            np.maximum.at(best, moved[same], scores[same] * FADE ** abs(offset))
        total += best
    total[~allowed] = 0.0
    return total


def word_lanes(table: LanceTable, pool: Pool, query: Query, layout: Layout) -> list[tuple[Ints, Scores]]:
    """Positions and BM25 of the passages that hold a word of the query, word by word; unknown words are left out."""
    where = conditions(pool, query)

    def lane(word: str) -> tuple[Ints, Scores]:
        search = table.search(word, query_type="fts", fts_columns=pool.text).limit(ROWS_A_WORD).with_row_id(True)
        found = (search if where is None else search.where(where)).select(["_score"]).to_arrow()
        return layout.positions(found["_rowid"].to_numpy()), found["_score"].to_numpy().astype(np.float64)

    with ThreadPoolExecutor(LOOKUPS_AT_ONCE) as pool_of_threads:
        lanes = list(pool_of_threads.map(lane, distinct_words(query.text)[:MAX_WORDS]))
    return [(positions, scores) for positions, scores in lanes if len(positions)]


def distinct_words(text: str) -> list[str]:
    """The words of a text in order, each once, in lower case."""
    return list(dict.fromkeys(word.lower() for word in WORD.findall(text)))


def rarity(masks: Sequence[Mask], of: int) -> npt.NDArray[np.float64]:
    """BM25's inverse document frequency of each mask among `of` rows: what a match is worth."""
    held = np.array([mask.sum() for mask in masks], dtype=np.float64)
    return np.log1p((of - held + 0.5) / (held + 0.5))
