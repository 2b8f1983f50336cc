"""Passages in the order they were said: what stands next to what, who said it, and when.

An index knows rows; a conversation is a sequence. This holds one small record a passage (64 bytes), read once a
release: 100,000 passages in about 0.1 s.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from slowwave.recall.query import Query
from slowwave.recall.release.columns import Ints, Mask, RowIndex, convert_timestamps, encode_column
from slowwave.recall.release.tables import Tables
from slowwave.recall.times import Calendar, compute_calendar
from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.schemas.vocabulary import Role
from slowwave.text.words import TERM

COLUMNS = ["session_id", "seq", "part", "role", "speaker", "ts", "workspace", "message_id"]
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
        told = self.speaker_words.keys() | self.workspace_words.keys()
        return query.times is not None and query.times.about <= told

    def mask_workspace(self, word: str) -> Mask:
        """Return which of the passages come from a workspace that a word, in lower case, names."""
        return np.isin(self.workspace, sorted(self.workspace_words.get(word, ())))

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
        role = self.roles[self.role[position]]
        if role == Role.USER:
            answer = self._find_last_answer(position)
            return [position] if answer is None else [position, answer]
        if role == Role.ASSISTANT:
            question = self._find_nearest_by_role(position, -1, "user")
            return [position] if question is None else [question, position]
        return [position]

    def find_reply(self, position: int) -> int | None:
        """Return a passage of what the user said next to an assistant's message; None where nothing was."""
        said_by = self.roles[self.role[position]]
        return self._find_nearest_by_role(position, 1, "user", "assistant") if said_by == Role.ASSISTANT else None

    def _find_last_answer(self, position: int) -> int | None:
        answer = self._find_nearest_by_role(position, 1, "assistant")
        while (
            answer is not None
            and (later := self._find_nearest_by_role(answer, 1, "assistant", unless="user")) is not None
        ):
            answer = later
        return answer

    def _find_nearest_by_role(self, position: int, step: int, wanted: str, unless: str | None = None) -> int | None:
        """Return the nearest passage of another message with this role, in one direction.

        None if `unless` comes before it.
        """
        for at in range(position + step, position + step * (PAIR_REACH + 1), step):
            if not 0 <= at < len(self.session) or self.session[at] != self.session[position]:
                return None
            role = self.roles[self.role[at]]
            if role == wanted and self.message[at] != self.message[position]:
                return at
            if role == unless:
                return None
        return None


def read_passage_index(view: Tables) -> PassageIndex:
    """Return the passages' places."""
    rows = view.open_dataset(PASSAGES).to_table(columns=COLUMNS, with_row_id=True)
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
    found: dict[str, set[int]] = {}
    for i, name in enumerate(names):
        for word in TERM.findall(name.lower()):
            found.setdefault(word, set()).add(i)
    return found
