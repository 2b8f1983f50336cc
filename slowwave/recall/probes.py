"""Probes asked of a release, the questions of the setting `gates.probes`: of which the first hits hold the answer."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from slowwave.recall.hits import KINDS
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.encoding import QueryVectors
from slowwave.recall.search import Search
from slowwave.schemas.settings import Settings

FIRST = 5
"""Hits among which the answer must stand."""
STILL = 20
"""Hits among which it must stand yet in the release to be: what news push down a few places is not lost."""


def find_answered(
    view: View, settings: Settings, probes: Mapping[str, str], now: datetime, first: int = FIRST
) -> set[str]:
    """Return the questions whose answer stands in one of a release's first hits, whatever its case and spaces."""

    def note(_: str) -> None:
        """Leave what could not be used unsaid: it is the same for both releases."""

    vectors = QueryVectors(settings.encoder, None, note)
    search = Search(view, settings.recall, partial(vectors.encode_texts, view.release.encoder), note)
    answers = search.answer_queries([build_query(question, first, KINDS, now=now) for question in probes])
    texts = (" ".join(_fold(hit.text) for hit in found) for found in answers)
    return {asked for (asked, answer), text in zip(probes.items(), texts, strict=True) if _fold(answer) in text}


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
