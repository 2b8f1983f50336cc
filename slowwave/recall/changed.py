"""What later claims changed of messages, sentence by sentence.

A sentence is marked if it states a changed claim. A change that is less likely is marked with what was said since. In a
model's answer a sentence is marked if it says nothing but such a claim ("The API is on port 9443"). A message that the
night found to state a changed claim in other words is marked behind the sentence that has most of the claim's words.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial

import pyarrow as pa

from slowwave.recall.hits import Change, ChangeStatus
from slowwave.recall.release.said import find_statement
from slowwave.recall.release.view import (
    SINCE,
    View,
    format_later,
    is_changed,
)
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import CHAIN, MESSAGES, PASSAGES, ChainRow
from slowwave.schemas.vocabulary import PERHAPS_CHANGED
from slowwave.text.rarity import ChangedClaim, weigh_share
from slowwave.text.sentences import split_sentences
from slowwave.text.words import singular_words

Found = tuple[str, ClaimRow]
"""A sentence, and the changed claim that it states."""


def find_changes(
    view: View,
    texts: Mapping[str, str],
    as_of: datetime | None = None,
    places: Collection[str] = (),
) -> dict[str, tuple[Change, ...]]:
    """Return for each message with changed sentences what changed them by then, in their order.

    Args:
        view: the release.
        texts: the whole texts of some messages, by id.
        as_of: what changed later is left out.
        places: names of the workspaces that are asked about; empty for all. A claim of another one marks nothing if it
            perhaps changed a sentence, and is not quoted if it surely did.
    """
    if not view.chains.claims or not texts:
        return {}
    positions = _find_positions(view, texts)
    answered = _find_answered(view, positions)
    restated = _read_chains(view, positions, as_of)
    found = dict[str, tuple[Change, ...]]()
    for key, text in texts.items():
        own = [*_find_own(view=view, message=key, text=text, as_of=as_of)]
        echoed = [
            *_find_echoes(view=view, text=text, answered=answered.get(key), as_of=as_of)
        ]
        known = {row["chain_id"] for _, row in (*own, *echoed)}
        others = [
            pair
            for chain in restated.get(key, ())
            if chain["chain_id"] not in known
            for pair in _find_restated(view, text, chain)
        ]
        changes = _build_changes(
            view=view,
            text=text,
            found=[*own, *echoed, *others],
            as_of=as_of,
            places=places,
        )
        if changes:
            found[key] = changes
    return found


def _find_positions(view: View, ids: Iterable[str]) -> dict[str, list[int]]:
    """Return the positions of each message's passages."""
    layout = view.passages
    at = view.find_positions(list(ids))
    positions = defaultdict[str, list[int]](list)
    names = view.read_keys(MESSAGES).take(pa.array(layout.message[at])).to_pylist()
    for name, place in zip(names, at.tolist(), strict=True):
        positions[name].append(place)
    return positions


def _find_answered(view: View, positions: Mapping[str, list[int]]) -> dict[str, str]:
    """Return by message of a model the person's message before it in its session."""
    layout = view.passages
    before = {
        key: int(layout.last_of_user[places[0]]) for key, places in positions.items()
    }
    keys = view.read_keys(MESSAGES)
    return {
        key: keys[int(layout.message[at])].as_py()
        for key, at in before.items()
        if at >= 0 and layout.message[at] != layout.message[positions[key][0]]
    }


def _read_chains(
    view: View,
    positions: Mapping[str, list[int]],
    as_of: datetime | None,
) -> dict[str, list[ChainRow]]:
    """Return the chains of each message's passages that later claims had changed, or perhaps had."""
    places = sorted(at for own in positions.values() for at in own)
    offsets = view.passages.offsets[places]
    rows = view.take(PASSAGES, offsets, CHAIN).select(CHAIN).to_pylist()
    chains = dict(zip(places, rows, strict=True))
    return {
        key: [
            chains[at] for at in own if is_changed(chains[at], as_of, PERHAPS_CHANGED)
        ]
        for key, own in positions.items()
    }


def _find_changed(
    view: View,
    message: str,
    as_of: datetime | None,
) -> list[ClaimRow]:
    """Return the changed claims that were made from a message."""
    rows = []
    for row in view.chains.by_message.get(message, ()):
        since = row["chain_at"]
        said_at = row["observed_at"]
        is_since = since and said_at and said_at >= since
        if is_changed(row, as_of) and not is_since:
            rows.append(row)
    return rows


def _find_own(
    view: View,
    message: str,
    text: str,
    as_of: datetime | None,
) -> Iterator[Found]:
    """Yield the sentences of a message that state a changed claim made from it."""
    for row in _find_changed(view, message, as_of):
        for begin, end in find_statement(text, row["summary"], row["quote"])[:1]:
            yield text[begin:end], row


def _find_echoes(
    view: View,
    text: str,
    answered: str | None,
    as_of: datetime | None,
) -> Iterator[Found]:
    """Yield the sentences of a model's message that echo a changed claim made from the message that it answers."""
    rows = _find_changed(view, answered, as_of) if answered else []
    for row in rows:
        later = view.chains.find_successor(row, as_of)
        if later is None or not is_changed(row, as_of, PERHAPS_CHANGED):
            continue
        changed = ChangedClaim.from_texts(row["summary"], later["summary"])
        for sentence in split_sentences(text):
            if changed.is_repeated(singular_words(sentence.text)):
                yield sentence.text, row


def _find_restated(
    view: View,
    text: str,
    chain: ChainRow,
) -> Iterator[Found]:
    """Yield the sentence with most words of a claim that was changed in a chain, with the claim."""
    rows = [
        row
        for row in view.chains.claims.values()
        if row["chain_id"] == chain["chain_id"] and row["chain_at"] == chain["chain_at"]
    ]
    for row in rows[:1]:
        share = partial(weigh_share, singular_words(row["summary"]))
        best = max(
            split_sentences(text),
            key=lambda sentence: share(singular_words(sentence.text)),
            default=None,
        )
        likely = ClaimRow(chain_likely=chain["chain_likely"])
        yield best.text if best else text, row | likely


def _build_changes(
    view: View,
    text: str,
    found: Iterable[Found],
    as_of: datetime | None,
    places: Collection[str],
) -> tuple[Change, ...]:
    """Return the changes of a message, in the order of its sentences: of several of one sentence the surest."""
    best = dict[str, ClaimRow]()
    for sentence, row in found:
        likely = row["chain_likely"] or 0.0
        if sentence not in best or likely > (best[sentence]["chain_likely"] or 0.0):
            best[sentence] = row
    changes = []
    for sentence, row in best.items():
        if later := view.chains.find_successor(row, as_of, places):
            changes.append(
                _build_change(view=view, sentence=sentence, row=row, later=later)
            )
    return tuple(sorted(changes, key=lambda change: text.find(change.text)))


def _build_change(
    view: View,
    sentence: str,
    row: ClaimRow,
    later: ClaimRow,
) -> Change:
    likely = row["chain_likely"] or 0.0
    successor = view.chains.make_successor(later)
    return Change(
        text=sentence,
        status=_name_status(likely),
        by=later["claim_id"],
        successor=successor,
        note=format_later(successor, likely, ""),
        likely=likely,
    )


def _name_status(likely: float) -> ChangeStatus:
    """Return the name of a claim's state, from the probability that it was changed."""
    if likely >= 1.0:
        return "superseded"
    return "perhaps superseded" if likely >= PERHAPS_CHANGED else SINCE
