"""Probes asked of a release: of which the first hits hold the answer."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from slowwave.recall.hits import KINDS
from slowwave.recall.query import build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.encoding import QueryVectors
from slowwave.recall.search import Search
from slowwave.schemas.settings import Settings
from slowwave.store.journal import Probe

FIRST = 5
"""Hits among which the answer must stand."""
STILL = 20
"""Hits among which it must stand yet in the release to be: what news push down a few places is not lost."""


class Asked(NamedTuple):
    """What became of probes."""

    answered: set[Probe]
    """Their answer stands in one of the first hits, whatever its case and spaces."""
    told: set[Probe]
    """They get a hit at all."""


def find_answered(view: View, settings: Settings, probes: Sequence[Probe], now: datetime) -> set[Probe]:
    """Return the probes whose answer stands in one of a release's first hits."""
    return ask_probes(view, settings, probes, now).answered


def ask_probes(view: View, settings: Settings, probes: Sequence[Probe], now: datetime, first: int = FIRST) -> Asked:
    """Ask a release all probes at once; an answer counts among so many first hits."""

    def note(_: str) -> None:
        """Leave what could not be used unsaid: it is the same for both releases."""

    vectors = QueryVectors(settings.encoder, None, note)
    search = Search(view, settings.recall, partial(vectors.encode_texts, view.release.encoder), note)
    answers = search.answer_queries([build_query(probe.question, first, KINDS, now=now) for probe in probes])
    hits = list(zip(probes, answers, strict=True))
    answered = {probe for probe, found in hits if _fold(probe.answer) in " ".join(_fold(hit.text) for hit in found)}
    return Asked(answered, {probe for probe, found in hits if found})


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
