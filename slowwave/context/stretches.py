"""A question about a stretch of time, "what did we do last week?": the summaries of its sessions, the newest first.

It asks for no message, and is known by its form: a time, with or without the names of workspaces, and nothing beside;
or at most `FEW` words that the memory knows, where the rest of the question is nearer to one that asks what was done
than to any that asks for a fact (`stretches.toml`). Of 24 such questions the nearest example tells 15 so, and 3 of 38
that ask for a fact.

Each session has a line: its title, then sentences of its summary; first one sentence of as many sessions as there is
room for, then more of each.
"""

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import cast

import numpy as np

from slowwave.context.rendering import Line, LineSource
from slowwave.recall.filters import mask_allowed_passages
from slowwave.recall.query import Query, build_query
from slowwave.recall.release.columns import Mask
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import search_words
from slowwave.recall.retrieve.pools import POOLS, Vector
from slowwave.recall.retrieve.sessions import read_rows_where, read_session_ids
from slowwave.recall.times import QueryTimes, convert_datetimes
from slowwave.schemas.tables import PASSAGES, SESSIONS, SUMMARIES
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.text.pyramid import MASTER
from slowwave.text.sentences import split_sentences
from slowwave.text.words import TERM

FEW = 2
"""Words beside the time and the workspace that a question about a stretch of time has at most."""
NEARER = 0.15
"""Cosine by which it is nearer to the examples of its kind than to any other."""
LARGEST = 0.3
"""Of the budget, what a sentence may have."""
READ = ["scope", "scope_id", "tier", "seq", "title", "text", "first_at", "last_at"]

Encode = Callable[[Sequence[str]], Mapping[str, Vector]]
Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Summarised:
    """What is told of a session: its title, where it has one, and the sentences of its summary."""

    title: str | None
    sentences: tuple[str, ...]
    source: LineSource


def find_stretch(view: View, query: Query, encode: Encode, tags: Mapping[str, str]) -> list[Summarised]:
    """Return what is told of the sessions of a time, the newest first; nothing where something else is asked for, or
    nothing was summed up then.

    Args:
        encode: vectors of texts; empty without an encoder.
        tags: how headings name the sessions (`View.session_tags`).
    """
    times = query.times
    if times is None or query.is_narrowed:
        return []
    layout = view.passages
    places = times.about & layout.workspace_words.keys()
    rest = times.about - places
    if rest and not (_are_known(view, rest) and asks_what_was_done(_strip(query, times.words | places), encode)):
        return []
    allowed = mask_allowed_passages(view, query) & times.mask_inside(layout.moment, layout.moment)
    here: Mask = np.logical_or.reduce([layout.mask_workspace(word) for word in places]) if places else allowed
    numbers = np.unique(layout.session[allowed & here]).tolist()
    ids = read_session_ids(view, layout, numbers) if numbers else []
    rows = [one for one in read_rows_where(view, SUMMARIES, READ, "scope_id", ids) if _is_open(one, query)]
    about = view.read_by_id(SESSIONS, ids, ["native_id", "title"])
    told = [_tell(key, about.get(key, {}), rows, times, tags) for key in ids]
    return sorted((one for one in told if one is not None), key=lambda one: cast(datetime, one.source.at), reverse=True)


def _are_known(view: View, words: Collection[str]) -> bool:
    """Return whether there are few words, each of which somebody said."""
    if len(words) > FEW or not view.has_full_text(PASSAGES):
        return False
    said = search_words(view, POOLS["message"], build_query(" ".join(words), 1, "message"), view.passages)
    return sum(bool(len(positions)) for positions, _ in said) == len(words)


def asks_what_was_done(text: str, encode: Encode) -> bool:
    """Return whether a question is nearer to those that ask what was done than to those that ask for a fact."""
    whole, fact = load_examples()
    vectors = encode([text, *whole, *fact]) if text else {}
    if text not in vectors:
        return False
    near = [max(float(vectors[text] @ vectors[one]) for one in some) for some in (whole, fact)]
    return near[0] - near[1] >= NEARER


@cache
def load_examples() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return questions that ask what was done, and such that ask for a fact."""
    read = tomllib.loads(files("slowwave.context").joinpath("stretches.toml").read_text("utf-8"))
    return tuple(read["whole"]), tuple(read["fact"])


def _strip(query: Query, words: Collection[str]) -> str:
    """Return what is asked without some words, in lower case."""
    return " ".join(one for one in query.text.split() if not set(TERM.findall(one.lower())) & set(words))


def _is_open(row: Row, query: Query) -> bool:
    """Return whether a session's summary tells of nothing that the conditions leave out."""
    first, last = (cast(datetime | None, row[name]) for name in ("first_at", "last_at"))
    if row["scope"] != SummaryScope.SESSION or row["tier"] not in (MASTER, 0) or first is None or last is None:
        return False
    return (query.since is None or first >= query.since) and (query.until is None or last <= query.until)


def _tell(
    session: str, about: Row, rows: Iterable[Row], times: QueryTimes, tags: Mapping[str, str]
) -> Summarised | None:
    """Return what is told of a session: its master summary, or where it is of other times too its parts of this one."""
    mine = [one for one in rows if one["scope_id"] == session]
    inside = times.mask_inside(*(convert_datetimes([one[name] for one in mine]) for name in ("first_at", "last_at")))
    then = [one for one, there in zip(mine, inside.tolist(), strict=True) if there]
    kept = [one for one in then if one["tier"] == MASTER] or sorted(then, key=lambda one: cast(int, one["seq"]))
    if not kept:
        return None
    native = str(about.get("native_id") or session)
    title = about.get("title") or kept[0]["title"]
    sentences = (one for row in kept for one in split_whole_sentences(str(row["text"])))
    at = min(cast(datetime, one["first_at"]) for one in kept)
    return Summarised(
        str(title) if title else None,
        tuple(dict.fromkeys(sentences)),
        LineSource(native, at=at, short=tags.get(native)),
    )


def split_whole_sentences(text: str) -> list[str]:
    """Return a text's sentences, each with what ends it."""
    starts = [one.start for one in split_sentences(text)]
    return [" ".join(text[start:end].split()) for start, end in pairwise([*starts, len(text)])]


def pack_summaries(
    said: Sequence[Summarised], budget: int, count: Callable[[str], int], price: Callable[[LineSource], int]
) -> list[Line]:
    """Return a line a session, the newest first, of whole sentences: one of each while there is room, then more.

    Args:
        budget: tokens.
        count: tokens of a text.
        price: of a line without its text, heading and all.
    """
    told = [_list_told(one, int(budget * LARGEST), count) for one in said]
    shown: list[list[str]] = [[] for _ in said]
    room = budget
    for turn in range(max(map(len, told), default=0)):
        for n, some in enumerate(told):
            if turn >= len(some) or len(shown[n]) < turn:
                continue
            cost = count(f" {some[turn]}") + (0 if turn else price(said[n].source))
            if cost <= room:
                shown[n].append(some[turn])
                room -= cost
            elif not turn:
                break  # of older ones none, rather than the one that is short
    return [Line(" ".join(texts), one.source) for one, texts in zip(said, shown, strict=True) if texts]


def _list_told(one: Summarised, most: int, count: Callable[[str], int]) -> list[str]:
    """Return a title and sentences, less those of more than so many tokens unless all have."""
    title = [one.title if one.title[-1] in ".!?" else f"{one.title}."] if one.title else []
    told = [*title, *one.sentences]
    return [text for text in told if count(text) <= most] or told
