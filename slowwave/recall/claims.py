"""Which observations answer: by words and by vectors, as for any table, and by who is asked about.

"What is Paul's job?" is answered by "I restore organs now", said by Paul: a claim in the first person does not name its
speaker, and a name in the query leads its vector away. So a query that names a speaker is compared with and without
the name, each row keeps the better of the two, and what that speaker said comes before what others said.
"""

import numpy as np

from slowwave.recall.fusion import reciprocal_rank
from slowwave.recall.layout import Layout
from slowwave.recall.query import Query, content_words, word_share
from slowwave.recall.search import Candidates, Pool, Scores, Vector, lanes, vector_lane
from slowwave.recall.view import View

SPEAKER = 0.25
"""What the named speaker's own words are worth, in first places of one index."""


def claim_candidates(
    view: View, pool: Pool, query: Query, limit: int, bare: Vector | None, whole: Vector | None, full_text: bool, k: int
) -> tuple[Candidates, Scores]:
    """Candidates among the observations, and their scores.

    Args:
        limit: rows of each index.
        bare: vector of the query without speakers' names; None without an encoder.
        whole: vector of the query; the same as `bare` where it names none.
        full_text: whether the table's full text may be asked.
        k: the constant of reciprocal rank fusion.
    """
    more = {}
    if bare is not None and whole is not None and bare is not whole:
        more["bare"] = vector_lane(view, pool, query, limit, bare)
    candidates = lanes(view, pool, query, limit, whole, full_text, more)
    if more:
        better = np.fmax(candidates.signals["vector"], candidates.signals.pop("bare"))
        candidates.signals["vector"] = candidates.cosine = better
    scores = reciprocal_rank(candidates, k)
    words = content_words(query.text)
    named = Layout.of(view).names.keys() & words
    if not named:
        return candidates, scores
    speakers = [str(row["speaker"] or "") for row in candidates.rows]
    mine = np.array([not named.isdisjoint(content_words(speaker)) for speaker in speakers], dtype=bool)
    texts = [f"{row[pool.text]} {speaker}" for row, speaker in zip(candidates.rows, speakers, strict=True)]
    candidates.covered = np.array([word_share(words, text) for text in texts], dtype=np.float64)
    return candidates, scores + SPEAKER / (k + 1) * mine
