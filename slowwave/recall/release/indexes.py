"""Where passages and claims stand: what was said next to what, when and by whom, and where each claim was made.

A table knows rows; a conversation is a sequence. And a claim is terse ("approved, go with MessagePack"); what it is
about stands in the turns around it. So this holds one small record a passage, in the order they were said, and one a
claim, tied to the positions of the passages that it was made in (64 bytes each), read once a release: 100,000 passages
in about 0.1 s.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.query import NO_TIME, Calendar, Ints, Mask, Query, compute_calendar
from slowwave.recall.release.tables import RowIndex, Tables, convert_timestamps, encode_column
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, PASSAGES
from slowwave.schemas.vocabulary import Role, Status
from slowwave.text.words import TERM

PASSAGE_COLUMNS = ["session_id", "seq", "part", "role", "speaker", "ts", "workspace", "message_id"]
FOLDERS = re.compile(r"[/\\]")
PAIR_REACH = 50
"""Passages between a question and its answer, at most."""


@dataclass(frozen=True, kw_only=True)
class PassageIndex(RowIndex):
    """Arrays over all passages, in order of session, message and part; a *position* is a place in them."""

    session: Ints
    """A number a session."""
    message: Ints
    """Offset of its message in the table of messages; -1 where it is not there."""
    role: Ints
    roles: tuple[str, ...]

    @cached_property
    def calendar(self) -> Calendar:
        """When each was said."""
        return compute_calendar(self.moment)

    @cached_property
    def speaker_words(self) -> dict[str, set[int]]:
        """Each word of a speaker's name, in lower case, and whose names it stands in."""
        return _index_words(self.speakers)

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """Names of the workspaces; of a path its last part."""
        return tuple(FOLDERS.split(name.rstrip("/\\"))[-1] for name in self.workspaces)

    @cached_property
    def workspace_words(self) -> dict[str, set[int]]:
        """Each word of a workspace's name, in lower case, and whose names it stands in."""
        return _index_words(self.folders)

    def is_time_only(self, query: Query) -> bool:
        """Return whether a query asks for nothing but what was said then, by whomever and wherever: "What did Ann say
        in May?".
        """
        names = self.speaker_words.keys() | self.workspace_words.keys()
        return query.times is not None and query.times.about <= names

    def mask_speakers(self, text: str, positions: Ints | None = None) -> Mask:
        """Return which of the passages (all, unless some are given) come from a speaker that the text names."""
        speaker = self.speaker if positions is None else self.speaker[positions]
        named = {i for word in TERM.findall(text.lower()) for i in self.speaker_words.get(word, ())}
        return np.isin(speaker, sorted(named)) if named else np.zeros(len(speaker), dtype=bool)

    def strip_speakers(self, text: str) -> str:
        """Return the text less the names of speakers: what they said does not name them.

        The text, where nothing is left.
        """
        names = sorted({word for word in TERM.findall(text) if word.lower() in self.speaker_words})
        if not names:
            return text
        either = "|".join(re.escape(name) for name in names)
        bare = " ".join(re.sub(rf"\b(?:{either})\b(?:['’]s\b)?", " ", text).split())
        return bare if TERM.search(bare) else text

    def find_exchange(self, position: int) -> list[int]:
        """Return messages of the exchange that a passage stands in, as one position each, in the order they were said.

        With a user's message goes the answer: what the assistant said last before the user spoke again. With an
        assistant's goes the question: what the user said last before it. Any other stands alone.
        """
        said_by = self.roles[self.role[position]]
        if said_by == Role.ASSISTANT:
            question = next((at for at, role in self._walk(position, -1) if role == Role.USER), None)
            return [position] if question is None else [question, position]
        answer: int | None = None
        for at, role in self._walk(position, 1) if said_by == Role.USER else ():
            if role == Role.USER and answer is not None:
                break
            if role == Role.ASSISTANT and (answer is None or self.message[at] != self.message[answer]):
                answer = at
        return [position] if answer is None else [position, answer]

    def find_reply(self, position: int) -> int | None:
        """Return a passage of what the user said next to an assistant's message; None where nothing was."""
        if self.roles[self.role[position]] != Role.ASSISTANT:
            return None
        turns = ((at, role) for at, role in self._walk(position, 1) if role in (Role.USER, Role.ASSISTANT))
        at, role = next(turns, (position, None))
        return at if role == Role.USER else None

    def _walk(self, position: int, step: int) -> Iterator[tuple[int, str]]:
        """Yield the positions around one in its session, in one direction, and the role of who speaks there."""
        for at in range(position + step, position + step * (PAIR_REACH + 1), step):
            if not 0 <= at < len(self.session) or self.session[at] != self.session[position]:
                return
            yield at, self.roles[self.role[at]]


def read_passage_index(view: Tables) -> PassageIndex:
    """Return the passages' places."""
    rows = view.open_dataset(PASSAGES).to_table(columns=PASSAGE_COLUMNS, with_row_id=True)
    # in order of session, message and part
    session, _ = encode_column(rows["session_id"])
    order = np.lexsort((rows["part"].to_numpy(), rows["seq"].to_numpy(), session))
    # columns as numbers
    (role, roles), (speaker, speakers) = encode_column(rows["role"]), encode_column(rows["speaker"])
    workspace, workspaces = encode_column(rows["workspace"])
    message = pc.fill_null(pc.index_in(rows["message_id"], value_set=view.read_keys(MESSAGES)), -1).to_numpy()
    return PassageIndex(
        offsets=order,
        row_ids=rows["_rowid"].to_numpy()[order],
        session=session[order],
        message=message[order].astype(np.int64),
        role=role[order],
        roles=roles,
        speaker=speaker[order],
        speakers=speakers,
        workspace=workspace[order],
        workspaces=workspaces,
        moment=convert_timestamps(rows["ts"])[order],
    )


def _index_words(names: Iterable[str]) -> dict[str, set[int]]:
    """Return each word of some names, in lower case, and the places of the names that it stands in."""
    places: dict[str, set[int]] = {}
    for i, name in enumerate(names):
        for word in TERM.findall(name.lower()):
            places.setdefault(word, set()).add(i)
    return places


CLAIM_COLUMNS = ["message_ids", "workspace", "category", "status", "superseded_by", "observed_at", "speaker", "files"]


@dataclass(frozen=True, kw_only=True)
class ClaimIndex(RowIndex):
    """Arrays over all observations, by their offset in the table."""

    answers: Mask
    """Active, or superseded by a claim that is known: what recall may tell."""
    category: Ints
    categories: tuple[str, ...]
    made: tuple[Ints, Ints]
    """Pairs: a claim and the position of a passage that it was made in, ascending; none for a message without one."""
    naming: Ints
    """Claims, one for each file that it names; those in quarantine name none."""
    path: Ints
    """Beside `naming`: place in `paths`."""
    paths: tuple[str, ...]

    def find_claims_at(self, positions: Ints) -> Ints:
        """Return the claims made in passages at these positions, ascending, each once."""
        position, claim = self.by_position
        first, last = np.searchsorted(position, positions, "left"), np.searchsorted(position, positions, "right")
        return np.unique(claim[_expand_ranges(first, last)])

    def find_claim_positions(self, claims: Ints) -> tuple[Ints, Ints]:
        """Return pairs: the index of a claim among those given, and a position that it was made in."""
        claim, position = self.made
        first, last = np.searchsorted(claim, claims, "left"), np.searchsorted(claim, claims, "right")
        return np.repeat(np.arange(len(claims)), last - first), position[_expand_ranges(first, last)]

    def compute_recency(self, claims: Ints) -> npt.NDArray[np.float64]:
        """Return for each the share of those from its workspace that were made before it; 0 where it has no time."""
        share = np.zeros(len(claims))
        for workspace in np.unique(self.workspace[claims]):
            some = np.flatnonzero((self.workspace[claims] == workspace) & (self.moment[claims] != NO_TIME))
            moments = self.moment[claims[some]]
            share[some] = np.searchsorted(np.sort(moments), moments, "left") / max(len(some) - 1, 1)
        return share

    @cached_property
    def by_position(self) -> tuple[Ints, Ints]:
        """The pairs of `made`, position first, in order of position."""
        claim, position = self.made
        order = np.argsort(position, kind="stable")
        return position[order], claim[order]


def read_claim_index(view: Tables, passages: PassageIndex) -> ClaimIndex:
    """Return the claims' places."""
    rows = view.open_dataset(OBSERVATIONS).to_table(columns=CLAIM_COLUMNS, with_row_id=True)
    changed = pc.and_(pc.equal(rows["status"], Status.SUPERSEDED), pc.is_valid(rows["superseded_by"]))
    # columns as numbers
    (workspace, workspaces), (category, categories), (speaker, speakers) = (
        encode_column(rows[name]) for name in ("workspace", "category", "speaker")
    )
    # each file beside the claim that names it
    files = rows["files"].combine_chunks()
    naming = pc.list_parent_indices(files).to_numpy().astype(np.int64)
    path, paths = encode_column(pa.chunked_array([files.flatten()]))
    kept = pc.not_equal(rows["status"], Status.QUARANTINED).to_numpy()[naming]
    # claims and positions of passages, joined over the message, in order of claim
    message_ids = rows["message_ids"].combine_chunks()
    claim = pc.list_parent_indices(message_ids).to_numpy().astype(np.int64)
    message = pc.fill_null(pc.index_in(message_ids.flatten(), value_set=view.read_keys(MESSAGES)), -1).to_numpy()
    by_message, known = np.argsort(passages.message, kind="stable"), message >= 0
    there = passages.message[by_message]
    first, last = np.searchsorted(there, message[known], "left"), np.searchsorted(there, message[known], "right")
    made = np.repeat(claim[known], last - first), by_message[_expand_ranges(first, last)]
    return ClaimIndex(
        offsets=np.arange(len(rows)),
        row_ids=rows["_rowid"].to_numpy(),
        workspace=workspace,
        workspaces=workspaces,
        moment=convert_timestamps(rows["observed_at"]),
        speaker=speaker,
        speakers=speakers,
        answers=pc.or_(pc.equal(rows["status"], Status.ACTIVE), changed).to_numpy(),
        category=category,
        categories=categories,
        made=made,
        naming=naming[kept],
        path=path[kept],
        paths=paths,
    )


def _expand_ranges(first: Ints, last: Ints) -> Ints:
    """Return the numbers first … last - 1 of each pair, in a row."""
    lengths = last - first
    before = np.cumsum(lengths) - lengths
    runs: Ints = np.arange(int(lengths.sum())) + np.repeat(first - before, lengths)
    return runs
