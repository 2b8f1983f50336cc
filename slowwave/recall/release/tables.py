"""The tables of one release, each opened once at its pinned version, and what is kept of them in memory: columns as
arrays, strings as numbers, times as microseconds, and where a row or a value stands.

A table knows rows; a conversation is a sequence. And a claim is terse ("approved, go with MessagePack"); what it is
about stands in the turns around it. So the two indexes hold one small record a passage, in the order they were said,
and one a claim, tied to the positions of the passages that it was made in (64 bytes each), read once a release: 100,000
passages in about 0.1 s.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import ThreadpoolController

from slowwave.recall.query import (
    NO_TIME,
    Calendar,
    Ints,
    Mask,
    Vector,
    compute_calendar,
)
from slowwave.schemas.errors import READ_TROUBLE, StoreUnreadable
from slowwave.schemas.tables import (
    CLAIMS,
    INDEXED_ROWS,
    MESSAGES,
    PASSAGES,
    TABLES,
    Table,
)
from slowwave.schemas.vocabulary import Role, Status
from slowwave.store.manifest import find_index_damage, list_release_files
from slowwave.store.releases import Release, load_releases, open_pinned, pick_release
from slowwave.text.words import TERM

WIDENED = 1_024
"""Vectors of half precision that become single at a time, in the same 1.5 MB each."""


def encode_column(column: pa.ChunkedArray) -> tuple[Ints, tuple[str, ...]]:
    """Return numbers in place of a column's equal strings, -1 for null, and the strings."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(
        zero_copy_only=False
    )
    return codes, tuple(encoded.dictionary.to_pylist())


def convert_timestamps(column: pa.ChunkedArray) -> Ints:
    """Return microseconds since 1970, UTC; NO_TIME for null."""
    moments: Ints = pc.fill_null(column.cast(pa.int64()), NO_TIME).to_numpy()
    return moments


def build_matrix(
    vectors: pa.Array, room: npt.NDArray[np.int32] | None = None
) -> npt.NDArray[np.float32]:
    """Return the vectors of a column as a matrix of shape (rows with a vector, dim).

    Half precision becomes single by moving the bits, in a fifth of NumPy's time: the fraction grows from 10 bits to 23,
    and the exponent counts from 127 instead of 15. Infinity and NaN do not survive this; vectors have neither.

    Args:
        vectors: the column; null rows are left out.
        room: memory for the matrix, overwritten by the next call that gets it; by default new memory.
    """
    column = vectors.drop_null()
    numbers: npt.NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    if numbers.dtype == np.float16:
        bits = (
            np.empty(len(numbers), np.int32) if room is None else room[: len(numbers)]
        )
        bits[...] = numbers.view(np.int16)
        bits <<= 23 - 10  # in place: new arrays would cost more than the sums
        bits &= ~0x70000000  # copies of the sign, which the wider integer brought
        numbers = bits.view(np.float32)
        numbers *= np.float32(2.0 ** (127 - 15))
    return numbers.reshape(len(column), column.type.list_size)


_blas_lock = Lock()
_blas_limits: list[Any] = []
"""One entry for each thread inside `limit_blas_threads`: the first holds what the last to leave restores."""


@contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Compute numpy's products inside on the thread that asks. Costs 0.02 ms; threads may enter and leave in any order.

    numpy's BLAS splits even a product of 20 rows over all cores and spins until the last is done; with the cores busy a
    query may then take 15 times as long (`docs/decisions/005-vectors.md`). The limit is the process's own.
    """
    with _blas_lock:
        _blas_limits.append(
            None
            if _blas_limits
            else _find_blas_libraries().limit(limits=1, user_api="blas")
        )
    try:
        yield
    finally:
        with _blas_lock:
            if len(_blas_limits) == 1:
                _blas_limits[0].restore_original_limits()
            _blas_limits.pop()


_find_blas_libraries = cache(ThreadpoolController)
"""Those that are loaded, found once (2 ms); numpy's is there from its import on."""


def compute_cosines(
    vectors: pa.ChunkedArray, vector: Vector
) -> npt.NDArray[np.float64]:
    """Return the cosine of each row's vector to one; both are of unit length. NaN if a row has no vector, or zeros: the
    encoder could not read its text.
    """
    cosines = np.full(len(vectors), np.nan)
    room = np.empty(WIDENED * len(vector), np.int32)
    with limit_blas_threads():
        parts = (
            chunk[at : at + WIDENED]
            for chunk in vectors.chunks
            for at in range(0, len(chunk), WIDENED)
        )
        found = [build_matrix(part, room) @ vector for part in parts]
    cosines[vectors.is_valid().to_numpy()] = np.concatenate([*found, []])
    perhaps = np.flatnonzero(cosines == 0.0)
    if len(perhaps):
        is_read = build_matrix(vectors.take(pa.array(perhaps)).combine_chunks()).any(
            axis=1
        )
        cosines[perhaps[~is_read]] = np.nan
    return cosines


def find_code(values: tuple[str, ...], value: str) -> int:
    """Return the place of a value among those of a column; -2, the number of no row, for one that is not there."""
    return values.index(value) if value in values else -2


@dataclass(frozen=True, kw_only=True)
class RowIndex:
    """Arrays over all rows of a table, each row at its *place*: where it stands, and what conditions are about."""

    offsets: Ints
    """The offset of each row in its table."""
    row_ids: npt.NDArray[np.uint64]
    workspace: Ints
    workspaces: tuple[str, ...]
    moment: Ints
    """Microseconds since 1970, UTC; NO_TIME if unknown."""
    speaker: Ints
    """Place in `speakers`; -1 if nobody is named."""
    speakers: tuple[str, ...]

    @cached_property
    def _by_row(self) -> tuple[npt.NDArray[np.uint64], Ints]:
        """Row ids in ascending order, and the place of each."""
        places = np.argsort(self.row_ids)
        return self.row_ids[places], places

    def locate(self, row_ids: npt.NDArray[np.uint64]) -> Ints:
        """Return the places of rows."""
        ascending, places = self._by_row
        return places[np.searchsorted(ascending, row_ids)]

    def mask_within(
        self,
        places: Sequence[str],
        since: datetime | None,
        until: datetime | None,
    ) -> Mask:
        """Return a mask of the rows of some workspaces (none: of any) that were said in a stretch of time."""
        mask: Mask = np.ones(len(self.moment), dtype=bool)
        if places:
            mask &= np.isin(
                self.workspace, [find_code(self.workspaces, name) for name in places]
            )
        if since is not None:
            mask &= self.moment >= round(since.timestamp() * 1e6)
        if until is not None:
            mask &= (self.moment <= round(until.timestamp() * 1e6)) & (
                self.moment != NO_TIME
            )
        return mask


T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


def find_equal(values: Ints, places: Ints, wanted: Ints) -> Ints:
    """Return the places of the values that are wanted, ascending; the values are sorted, the places go with them."""
    unique = np.unique(wanted)
    first = np.searchsorted(values, unique, "left")
    last = np.searchsorted(values, unique, "right")
    equal: Ints = np.sort(places[_expand_ranges(first, last)])
    return equal


class KeyPlaces:
    """The places of a table's keys by their hash, so that a look-up compares a few keys and not all."""

    def __init__(self, keys: pa.Array) -> None:
        hashes = np.fromiter(map(hash, keys.to_pylist()), np.int64, len(keys))
        self._keys = keys
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]

    def find(self, ids: Iterable[str]) -> Ints:
        """Return the places of the keys among some ids, ascending."""
        wanted = {*ids}
        hashes = np.fromiter(map(hash, wanted), np.int64, len(wanted))
        places = find_equal(self._hashes, self._order, hashes)
        found = self._keys.take(pa.array(places)).to_pylist()
        is_wanted = np.fromiter((key in wanted for key in found), bool, len(found))
        kept: Ints = places[is_wanted]
        return kept


class LRUCache(Generic[K, T]):
    """The last `size` values made, by key; shared by threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[K, T] = OrderedDict()
        self._lock = RLock()

    def get(self, key: K) -> T | None:
        """Return the value of a key; None when it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(
        self,
        key: K,
        value: T,
    ) -> None:
        """Keep a value; the one longest unused makes room."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self.size:
                self._values.popitem(last=False)


class shared_property(Generic[T]):  # noqa: N801 - used as `property` is
    """A property made by the first who asks, under its owner's `lock`, and then a plain attribute."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(
        self,
        owner: Any,
        _: type,
    ) -> T:
        with owner.lock:
            if self.name not in owner.__dict__:
                owner.__dict__[self.name] = self.make(owner)
        value: T = owner.__dict__[self.name]
        return value


def match_any(column: str, values: Sequence[str]) -> pc.Expression:
    """Return the condition that a column of text has one of some values; no row passes if there are none."""
    return pc.field(column).isin(pa.array(values, pa.string()))


class Tables:
    """The tables of one space as one release has them, for reading by many threads."""

    def __init__(
        self,
        folder: Path,
        release: Release,
    ) -> None:
        self.dir = folder
        self.release = release
        self.lock = RLock()
        self._made: dict[tuple[str, str], Any] = {}
        """By table and what: what was read of it once."""
        self._locks = {name: RLock() for name in TABLES}

    @classmethod
    def open(
        cls,
        root: Path,
        space: str,
        release: str | None = None,
    ) -> Self:
        """Open the live release of a space, or the one of that id or name. If a table can't be read, the error comes
        when it is used.

        Raises:
            StoreMissing: there is no such store or space.
            StoreUnreadable: what is there is broken.
            SchemaMismatch: another version of slowwave wrote it.
            NoRelease: nothing is released yet, or not under that name.
        """
        folder = root / space
        view = cls(folder, pick_release(load_releases(folder), release, folder))
        for name in view.release.versions:
            with suppress(*READ_TROUBLE, StoreUnreadable):
                # The reason, for any call that needs the table.
                view.open_dataset(TABLES[name])
        return view

    def _read_once(
        self,
        table: Table,
        what: str,
        read: Callable[[], T],
    ) -> T:
        """Return a part of a table, read by the first who asks and then kept."""
        key = table.name, what
        if key not in self._made:
            with self._locks[table.name]:
                if key not in self._made:
                    self._made[key] = read()
        value: T = self._made[key]
        return value

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return the Lance dataset at the pinned version.

        Raises:
            StoreUnreadable: it is gone.
            SchemaMismatch: another version of slowwave wrote it.
        """
        return self._read_once(
            table, "dataset", lambda: open_pinned(self.dir, self.release, table)
        )

    def count(self, table: Table) -> int:
        """Return rows of a table."""
        return self._read_once(
            table, "rows", lambda: int(self.open_dataset(table).count_rows())
        )

    def has_full_text(
        self,
        table: Table,
        column: str | None = None,
    ) -> bool:
        """Return True if a column (by default the table's text) has a full-text index and no index of the table is
        damaged.
        """

        def read() -> frozenset[str]:
            indexes = self.open_dataset(table).describe_indices()
            columns = [
                index.field_names[0]
                for index in indexes
                if index.index_type == "Inverted"
            ]
            return frozenset(
                columns if columns and self.find_broken_index(table) is None else ()
            )

        return (column or table.full_text) in self._read_once(table, "full text", read)

    def find_broken_index(self, table: Table) -> str | None:
        """Return a changed file of the table's indexes, and how it changed; None if all are as they were."""

        def read() -> str | None:
            files, is_read = list_release_files(self.dir, self.release.number)
            damage = find_index_damage(
                self.dir, self.open_dataset(table), files, read=is_read
            )
            return next(
                (
                    f"{name}: {what}"
                    for part in damage.values()
                    for name, what in part.items()
                ),
                None,
            )

        return self._read_once(table, "broken index", read)

    def read(
        self,
        table: Table,
        columns: Sequence[str],
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return columns of the rows that pass, in no order that may be relied on."""
        return self.open_dataset(table).to_table(columns=list(columns), filter=where)

    def read_rows(
        self,
        table: Table[R],
        columns: Sequence[str],
        where: pc.Expression | None = None,
    ) -> list[R]:
        """Return the rows that pass, each with these columns alone, as `read` does."""
        rows: list[R] = self.read(table, columns, where).to_pylist()
        return rows

    def read_column(
        self,
        table: Table,
        column: str,
        where: pc.Expression | None = None,
    ) -> pa.ChunkedArray:
        """Return one column of the rows that pass, as `read` does."""
        return self.read(table, [column], where)[column]

    def read_by_id(
        self,
        table: Table[R],
        ids: Sequence[str],
        columns: Sequence[str],
    ) -> dict[str, R]:
        """Return rows by key; ids that the table does not hold are left out. Scans the key column once."""
        offsets = self.find_offsets(table, ids)
        if not len(offsets):
            return {}
        rows = self.take(
            table,
            offsets,
            [table.key, *(name for name in columns if name != table.key)],
        )
        return {str(row[table.key]): row for row in rows.to_pylist()}

    def find_offsets(
        self,
        table: Table,
        ids: Sequence[str],
    ) -> Ints:
        """Return the offsets of rows, ascending, by key; ids that the table does not hold are left out."""
        if not ids or not self.count(table):
            return np.zeros(0, dtype=np.int64)
        keys = self.read_keys(table)
        places = self._read_once(table, "places of keys", lambda: KeyPlaces(keys))
        return places.find(ids)

    def read_keys(self, table: Table) -> pa.Array:
        """Return the key of every row, by offset."""
        return self._read_once(
            table,
            "keys",
            lambda: self.read_column(table, table.key).combine_chunks(),
        )

    def take(
        self,
        table: Table,
        offsets: Ints,
        columns: Sequence[str],
    ) -> pa.Table:
        """Return rows at these offsets, in their order."""
        # asked for an offset, Lance counts the deleted rows before it: slow
        return self.open_dataset(table)._take_rows(
            self.read_row_ids(table)[offsets], columns=list(columns)
        )

    def read_row_ids(self, table: Table) -> npt.NDArray[np.uint64]:
        """Return the row id of every row, by offset."""
        dataset = self.open_dataset(table)
        return self._read_once(
            table,
            "ids",
            lambda: dataset.to_table([], with_row_id=True)["_rowid"].to_numpy(),
        )

    def load_vectors(self, table: Table) -> pa.ChunkedArray | None:
        """Return the vector of every row, by offset. They are kept in memory.

        A table of `INDEXED_ROWS` rows or more has an index of its vectors: for it the result is None.
        """
        if self.count(table) >= INDEXED_ROWS:
            return None
        return self._read_once(
            table, "vectors", lambda: self.read(table, [str(table.vector)])[0]
        )


PASSAGE_COLUMNS = [
    "session_id",
    "seq",
    "part",
    "role",
    "speaker",
    "ts",
    "workspace",
    "message_id",
]
FOLDERS = re.compile(r"[/\\]")
PAIR_REACH = 50
"""Passages between a question and its answer, at most."""


@dataclass(frozen=True, kw_only=True)
class PassageIndex(RowIndex):
    """Arrays over all passages, in order of session, message and part; a *position* is a place in them."""

    session: Ints
    """A number a session."""
    message: Ints
    """Offset of its message in the table of messages; -1 if it is not there."""
    role: Ints
    roles: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    """Ids of the sessions, by number."""

    def mask_role(self, positions: Ints, *roles: str) -> Mask:
        """Return a mask of these positions that somebody in one of these roles said."""
        numbers = [number for number, name in enumerate(self.roles) if name in roles]
        mask: Mask = np.isin(self.role[positions], numbers)
        return mask

    @cached_property
    def _by_message(self) -> tuple[Ints, Ints]:
        """The offset of each passage's message, ascending, and the passage's position."""
        order = np.argsort(self.message, kind="stable")
        return self.message[order], order

    def find_by_messages(self, messages: Ints) -> Ints:
        """Return the positions of the passages of messages, by the messages' offsets; ascending."""
        values, places = self._by_message
        return find_equal(values, places, messages)

    @cached_property
    def is_alone(self) -> Mask:
        """A mask of the passages in whose session nobody else speaks: its messages stand each for itself."""
        spoken = np.flatnonzero(
            self.mask_role(
                np.arange(len(self.role)),
                Role.USER,
                Role.ASSISTANT,
            )
        )
        voices = np.column_stack(
            [
                self.session,
                self.role,
                self.speaker,
            ]
        )[spoken]
        count = np.bincount(
            np.unique(voices, axis=0)[:, 0],
            minlength=int(self.session.max(initial=0)) + 1,
        )
        mask: Mask = count[self.session] == 1
        return mask

    @cached_property
    def answered(self) -> Ints:
        """For each passage the offset of the user's message that it answers.

        It is -1 unless the passage's message is an assistant's, and the only one between a user's message and the next
        user's message or the end of the session.
        """
        size = len(self.message)
        if not size:
            return np.zeros(0, dtype=np.int64)
        # the first passage of each message, and what stands before and after the message
        is_first = np.ones(size, dtype=bool)
        is_first[1:] = np.diff(self.message) != 0
        is_first[1:] |= np.diff(self.session) != 0
        first = np.flatnonzero(is_first)
        session = self.session[first]
        by_user = self.mask_role(first, Role.USER)
        is_same = np.diff(session) == 0
        follows_user = np.append(False, by_user[:-1] & is_same)
        is_last = np.append(by_user[1:] | ~is_same, True)
        is_answer = self.mask_role(first, Role.ASSISTANT) & follows_user & is_last
        before = np.append(-1, self.message[first][:-1])
        lengths = np.diff(np.append(first, size))
        answered: Ints = np.repeat(np.where(is_answer, before, -1), lengths)
        return answered

    @cached_property
    def last_of_user(self) -> Ints:
        """For each passage the position of the last passage of a user up to it, in its session; -1 without one."""
        places = np.arange(len(self.role))
        by_user = self.mask_role(places, Role.USER)
        last = np.maximum.accumulate(np.where(by_user, places, -1))
        is_here = self.session[last] == self.session
        found: Ints = np.where((last >= 0) & is_here, last, -1)
        return found

    @cached_property
    def calendar(self) -> Calendar:
        """Year, month and day on which each passage was said."""
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

    def mask_speakers(
        self,
        text: str,
        positions: Ints | None = None,
    ) -> Mask:
        """Return a mask of the passages (all, unless some are given) that come from a speaker whom the text names."""
        speaker = self.speaker if positions is None else self.speaker[positions]
        named = {
            i
            for word in TERM.findall(text.lower())
            for i in self.speaker_words.get(word, ())
        }
        return (
            np.isin(speaker, sorted(named))
            if named
            else np.zeros(len(speaker), dtype=bool)
        )

    def strip_speakers(self, text: str) -> str:
        """Return the text less the names of speakers: what they said does not name them.

        The text itself, if nothing is left.
        """
        names = sorted(
            {word for word in TERM.findall(text) if word.lower() in self.speaker_words}
        )
        if not names:
            return text
        pattern = "|".join(re.escape(name) for name in names)
        bare = " ".join(re.sub(rf"\b(?:{pattern})\b(?:['’]s\b)?", " ", text).split())
        return bare if TERM.search(bare) else text

    def find_exchange(self, position: int) -> list[int]:
        """Return messages of the exchange that a passage stands in, as one position each, in the order they were said.

        With a user's message goes the answer: what the assistant said last before the user spoke again. With an
        assistant's goes the question: what the user said last before it. Any other stands alone.
        """
        said_by = self.roles[self.role[position]]
        if said_by == Role.ASSISTANT:
            question = next(
                (at for at, role in self._walk(position, -1) if role == Role.USER), None
            )
            return [position] if question is None else [question, position]
        answer: int | None = None
        for at, role in self._walk(position, 1) if said_by == Role.USER else ():
            if role == Role.USER and answer is not None:
                break
            if role == Role.ASSISTANT and (
                answer is None or self.message[at] != self.message[answer]
            ):
                answer = at
        return [position] if answer is None else [position, answer]

    def find_reply(self, position: int) -> int | None:
        """Return a passage of what the user said next to an assistant's message; None if the user said nothing."""
        if self.roles[self.role[position]] != Role.ASSISTANT:
            return None
        turns = (
            (at, role)
            for at, role in self._walk(position, 1)
            if role in (Role.USER, Role.ASSISTANT)
        )
        at, role = next(turns, (position, None))
        return at if role == Role.USER else None

    def _walk(
        self,
        position: int,
        step: int,
    ) -> Iterator[tuple[int, str]]:
        """Yield the positions around one in its session, in one direction, and the role of the speaker there."""
        for at in range(position + step, position + step * (PAIR_REACH + 1), step):
            if (
                not 0 <= at < len(self.session)
                or self.session[at] != self.session[position]
            ):
                return
            yield at, self.roles[self.role[at]]


def read_passage_index(view: Tables) -> PassageIndex:
    """Return where each passage of a release stands, who said it and when."""
    rows = view.open_dataset(PASSAGES).to_table(
        columns=PASSAGE_COLUMNS, with_row_id=True
    )
    # in order of session, message and part
    session, sessions = encode_column(rows["session_id"])
    order = np.lexsort((rows["part"].to_numpy(), rows["seq"].to_numpy(), session))
    # columns as numbers
    role, roles = encode_column(rows["role"])
    speaker, speakers = encode_column(rows["speaker"])
    workspace, workspaces = encode_column(rows["workspace"])
    message = pc.fill_null(
        pc.index_in(rows["message_id"], value_set=view.read_keys(MESSAGES)), -1
    ).to_numpy()
    return PassageIndex(
        offsets=order,
        row_ids=rows["_rowid"].to_numpy()[order],
        session=session[order],
        sessions=sessions,
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


CLAIM_COLUMNS = [
    "message_ids",
    "workspace",
    "category",
    "status",
    "superseded_by",
    "observed_at",
    "speaker",
    "files",
]


@dataclass(frozen=True, kw_only=True)
class ClaimIndex(RowIndex):
    """Arrays over all claims, by their offset in the table."""

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
        first = np.searchsorted(position, positions, "left")
        last = np.searchsorted(position, positions, "right")
        return np.unique(claim[_expand_ranges(first, last)])

    def find_claim_positions(self, claims: Ints) -> tuple[Ints, Ints]:
        """Return pairs: the index of a claim among those given, and a position that it was made in."""
        claim, position = self.made
        first = np.searchsorted(claim, claims, "left")
        last = np.searchsorted(claim, claims, "right")
        return np.repeat(np.arange(len(claims)), last - first), position[
            _expand_ranges(first, last)
        ]

    def compute_recency(self, claims: Ints) -> npt.NDArray[np.float64]:
        """Return for each the share of those from its workspace that were made before it; 0 if it has no time."""
        share = np.zeros(len(claims))
        for workspace in np.unique(self.workspace[claims]):
            dated = np.flatnonzero(
                (self.workspace[claims] == workspace) & (self.moment[claims] != NO_TIME)
            )
            moments = self.moment[claims[dated]]
            share[dated] = np.searchsorted(np.sort(moments), moments, "left") / max(
                len(dated) - 1, 1
            )
        return share

    @cached_property
    def by_position(self) -> tuple[Ints, Ints]:
        """The pairs of `made`, position first, in order of position."""
        claim, position = self.made
        order = np.argsort(position, kind="stable")
        return position[order], claim[order]


def _join_passages(
    message_ids: pa.ListArray,
    keys: pa.Array,
    passage_messages: Ints,
) -> tuple[Ints, Ints]:
    """Return the pairs of a claim and a passage of one message, as places of both, in the order of claims.

    Args:
        message_ids: the messages of each claim.
        keys: the messages of the release, in their order.
        passage_messages: the place of each passage's message among `keys`.
    """
    claim = pc.list_parent_indices(message_ids).to_numpy().astype(np.int64)
    places = pc.index_in(message_ids.flatten(), value_set=keys)
    message = pc.fill_null(places, -1).to_numpy()
    by_message = np.argsort(passage_messages, kind="stable")
    ordered = passage_messages[by_message]
    is_stored = message >= 0
    first = np.searchsorted(ordered, message[is_stored], "left")
    last = np.searchsorted(ordered, message[is_stored], "right")
    passages = by_message[_expand_ranges(first, last)]
    return np.repeat(claim[is_stored], last - first), passages


def read_claim_index(view: Tables, passages: PassageIndex) -> ClaimIndex:
    """Return where each claim of a release stands, whose it is, and the passages that it was made in."""
    rows = view.open_dataset(CLAIMS).to_table(columns=CLAIM_COLUMNS, with_row_id=True)
    changed = pc.and_(
        pc.equal(rows["status"], Status.SUPERSEDED), pc.is_valid(rows["superseded_by"])
    )
    # columns as numbers
    (workspace, workspaces), (category, categories), (speaker, speakers) = (
        encode_column(rows[name]) for name in ("workspace", "category", "speaker")
    )
    # each file beside the claim that names it
    files = rows["files"].combine_chunks()
    naming = pc.list_parent_indices(files).to_numpy().astype(np.int64)
    path, paths = encode_column(pa.chunked_array([files.flatten()]))
    shown = pc.not_equal(rows["status"], Status.QUARANTINED).to_numpy()[naming]
    keys = view.read_keys(MESSAGES)
    made = _join_passages(rows["message_ids"].combine_chunks(), keys, passages.message)
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
        naming=naming[shown],
        path=path[shown],
        paths=paths,
    )


def _expand_ranges(first: Ints, last: Ints) -> Ints:
    """Return the numbers first … last - 1 of each pair, in a row."""
    lengths = last - first
    before = np.cumsum(lengths) - lengths
    runs: Ints = np.arange(int(lengths.sum())) + np.repeat(first - before, lengths)
    return runs
