"""A query, checked, and the times that it names: a request that can't be carried out as put is refused here, with what
would be.

Times are evidence among the rest: what was said then is worth more (`DATED`). What is relevant anyhow moves up some
places if it was said then or names that time: a question may be about a date, or of one.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cached_property
from numbers import Integral
from typing import TypeVar, Unpack, cast, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from slowwave.recall.hits import LEANING_WORDS, Kind
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import Files, Filters, RecallOptions, When
from slowwave.text.full_text import is_left_out
from slowwave.text.languages import ENGLISH, is_stop_word
from slowwave.text.sentences import split_sentences
from slowwave.text.stop_words import UNKNOWN_MEMORY, MemoryWords
from slowwave.text.times.dates import (
    Date,
    DateMentions,
    Span,
    convert_to_utc,
    extract_dates,
    extract_spans,
    extract_time_words,
)
from slowwave.text.words import (
    TERM,
    extract_content_words,
    extract_distinct_words,
    extract_words_in,
    put_spaces,
    singular_words,
)
from slowwave.text.workspaces import anchor_workspace

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Vector = npt.NDArray[np.float32]

NO_TIME = np.iinfo(np.int64).min
"""The moment of what has no time."""
MOST_TIMES = 32
"""Most times of each kind that are taken from a query. A person names one or two, and each is compared with all
rows."""
Calendar = tuple[Ints, Ints, Ints]
"""Years, months and days of the month, in UTC."""


@dataclass(frozen=True)
class QueryTimes:
    """The times that a query names, and the words that name them."""

    named: DateMentions
    spans: tuple[Span, ...]
    words: frozenset[str]
    about: frozenset[str]
    """What it is about beside."""

    def build_masks(
        self,
        moment: Ints,
        calendar: Calendar,
    ) -> list[Mask]:
        """Return for each year, month, day, whole date and span the rows said in it."""
        named = self.named
        single: list[Date] = [(year, None, None) for year in sorted(named.years)]
        single += [(None, month, None) for month in sorted(named.months)]
        single += [(None, None, day) for day in sorted(named.days)]
        whole = [
            date
            for date in sorted(named.dates, key=repr)
            if date[0] is not None or date[2] is not None
        ]
        dates = (_mask_date(calendar, date) for date in (*single, *whole))
        return [
            mask & (moment != NO_TIME) for mask in (*self._mask_spans(moment), *dates)
        ]

    def mask_inside(self, stretches: Sequence[tuple[object, object]]) -> Mask:
        """Return a mask of the stretches, from first to last, in a time named; years don't count beside a date."""
        first, last = (
            self._mask_moments(convert_datetimes(ends))
            for ends in zip(*stretches, strict=True)
        )
        return first & last

    def is_named_in(self, text: str) -> bool:
        """Return True if a text names a date that the query names."""
        dates = extract_dates(text).dates if self.named.dates else ()
        return any(
            all(
                a is None or b is None or a == b
                for a, b in zip(date, other, strict=True)
            )
            for date in self.named.dates
            for other in dates
        )

    def _mask_moments(self, moment: Ints) -> Mask:
        dates = self.named.dates or {(year, None, None) for year in self.named.years}
        calendar = compute_calendar(moment)
        on = (_mask_date(calendar, date) for date in dates)
        mask: Mask = np.any([*self._mask_spans(moment), *on], axis=0) & (
            moment != NO_TIME
        )
        return mask

    def _mask_spans(self, moment: Ints) -> list[Mask]:
        edges = map(convert_datetimes, self.spans)
        return [(moment >= start) & (moment < end) for start, end in edges]


def parse_times(text: str, now: datetime | None) -> QueryTimes | None:
    """Return the times that a query names, counted back from `now` (default: today); None if it names none."""
    now = now or datetime.now().astimezone().replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    named = extract_dates(text)
    named = DateMentions(
        frozenset(sorted(named.years)[-MOST_TIMES:]),
        frozenset(sorted(named.dates, key=repr)[-MOST_TIMES:]),
    )
    spans = tuple(dict.fromkeys(extract_spans(text, now)))[:MOST_TIMES]
    if not (named.years or named.dates or spans):
        return None
    words = extract_time_words(text, now)
    return QueryTimes(
        named=named,
        spans=spans,
        words=words,
        about=frozenset(extract_content_words(text)) - words,
    )


def compute_calendar(moment: Ints) -> Calendar:
    """Return the calendar of moments in microseconds since 1970; those of no time are of 1970."""
    at = np.where(moment != NO_TIME, moment, 0).astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    years: Ints = at.astype("datetime64[Y]").astype(np.int64) + 1970
    months: Ints = month.astype(np.int64) % 12 + 1
    days: Ints = (at.astype("datetime64[D]") - month).astype(np.int64) + 1
    return years, months, days


def _mask_date(calendar: Calendar, date: Date) -> Mask:
    """Return a mask of rows that match the given parts of a date."""
    mask: Mask = np.ones(len(calendar[0]), dtype=bool)
    for values, part in zip(calendar, date, strict=True):
        if part is not None:
            mask &= values == part
    return mask


def convert_datetimes(times: Sequence[object]) -> Ints:
    """Return microseconds since 1970, UTC; NO_TIME for null."""
    moments: Ints = np.array(
        [
            round(at.timestamp() * 1e6) if isinstance(at, datetime) else NO_TIME
            for at in times
        ],
        dtype=np.int64,
    )
    return moments


MOST_HITS = 1_000_000_000
"""More than a store holds: a larger k asks for all hits."""
DIRECT_WORDS = 16
"""Most content words of a question that one message answers. A longer query is a report, whose words occur in many
messages."""
MAX_CHARS = 50_000
"""A longer query is refused: it is a document, and no index ranks by one."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")

T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """A query, with its filters."""

    text: str
    k: int
    kinds: tuple[Kind, ...]
    workspace: str | None = None
    """As it is asked for."""
    places: tuple[str, ...] = ()
    """As the tables have it: all names of the workspace; none for any workspace."""
    category: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    now: datetime | None = None
    """When it is asked, for words like "yesterday"; None: the clock's time."""
    as_of: datetime | None = None
    """The moment whose truth is asked for; None: now."""
    speaker: str | None = None
    files: tuple[str, ...] = ()
    """Paths, one of which a row is to be about; with forward slashes."""
    tag: str | None = None
    """A keyword of a claim or gist, or a tag of a message, in whatever case."""
    min_confidence: float | None = None
    """Least confidence of claims."""
    own_sessions: tuple[str, ...] = ()
    """The transcripts' own ids of sessions that are left out: the one in which this is asked, and those below it."""
    everything: bool = False
    """Whether up to k hits are wanted, also of other matters."""
    memory: MemoryWords = UNKNOWN_MEMORY
    """The languages of the memory and their stop words. A query that has no language of its own is read in
    that of most of the memory: "Neue Reifen?"."""

    @cached_property
    def content_words(self) -> list[str]:
        """Its content words, in lower case."""
        words = extract_words_in(self.text, self.language)
        return [word for word in words if word not in self.memory_stop_words]

    @property
    def is_report(self) -> bool:
        """Whether the text is too long for a question that one message answers."""
        return len(set(self.content_words)) > DIRECT_WORDS

    @cached_property
    def index_terms(self) -> list[str]:
        """Its distinct words, without those that the index leaves out and the stop words of its language: plain terms,
        no operators.
        """
        words = [
            word for word in extract_distinct_words(self.text) if not is_left_out(word)
        ]
        if not self.is_foreign:
            return words
        said = [word for word in words if not is_stop_word(word, self.language)]
        return (
            [word for word in said if word not in self.memory_stop_words]
            or said
            or words
        )

    @cached_property
    def language(self) -> str | None:
        """The language of its text, or else of the memory; None if nothing tells it."""
        return self.memory.find_language(self.text)

    @property
    def memory_stop_words(self) -> frozenset[str]:
        """The stop words that were counted in the memory's texts of its language."""
        return self.memory.stop_words.get(self.language or "", frozenset())

    @property
    def is_foreign(self) -> bool:
        """Whether it is in a language other than English."""
        return self.language not in (None, ENGLISH)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Its content words without the s of a plural or a possessive."""
        return singular_words(self.text)

    @cached_property
    def times(self) -> QueryTimes | None:
        """The times that it names; None if it names none."""
        return parse_times(self.text, self.now)

    @property
    def is_of_claims(self) -> bool:
        """Whether it has a filter that only claims can meet."""
        return self.category is not None or self.min_confidence is not None

    @property
    def is_narrowed(self) -> bool:
        """Whether it is limited to a speaker, to files or to a tag."""
        return self.speaker is not None or self.tag is not None or bool(self.files)


def says_little(
    text: str,
    query: Query,
    most: int = LEANING_WORDS,
) -> bool:
    """Return True if a text has at most `most` content words, no figure and no word of the query, such as "Ok, noted".

    The endings of Japanese don't count as words.
    """
    return (
        not any(character.isdigit() for character in text)
        and len(extract_content_words(put_spaces(text, endings=False))) <= most
        and query.stems.isdisjoint(singular_words(text))
    )


def is_question(text: str) -> bool:
    """Return True if a text ends in a question mark of any script."""
    last = text.rstrip()[-1:]
    return unicodedata.name(last or " ", "").endswith("QUESTION MARK")


def only_asks(text: str) -> bool:
    """Return True if a text ends in a question, and no sentence of it states something in more than a few words."""
    return is_question(text) and not any(
        len(extract_content_words(sentence.text)) > LEANING_WORDS
        for sentence in split_sentences(text)
        if not is_question(text[: sentence.end + 1])
    )


@dataclass(frozen=True)
class QueryPlan:
    """The parts of a query that depend on the release, computed once."""

    query: Query
    """With the names of speakers as memory spells them."""
    kinds: tuple[Kind, ...]
    """Those asked for that have rows, and what the conditions are about."""
    nameless_text: str
    """The query without those who said it, and where: what is compared with what was said."""
    is_time_only: bool
    """Whether it asks for nothing but what was said at a time."""
    nameless_vector: Vector | None = None
    """The vector of `nameless_text`; None without an encoder."""
    full_vector: Vector | None = None
    """The vector of the whole query."""
    is_unread: bool = False
    """Whether the encoder does not read the query."""

    @property
    def limit(self) -> int:
        """How many candidates of a kind each index brings."""
        return max(100, 2 * self.query.k)

    @property
    def vector_with_names(self) -> Vector | None:
        """The vector of the query as it was put, if names change it."""
        return None if self.nameless_text == self.query.text else self.full_vector


def refuse_unknown_filters(filters: Mapping[str, object], allowed: type) -> None:
    """Raise TypeError for an unknown filter.

    Raises:
        TypeError: a filter is not among those `allowed`.
    """
    for name in filters.keys() - get_type_hints(allowed).keys():
        raise TypeError(
            f"got an unexpected keyword argument {name!r}; the filters are {', '.join(get_type_hints(allowed))}"
        )


def build_query(
    text: str,
    k: int,
    kinds: Iterable[str] | str,
    *,
    now: datetime | None = None,
    own_sessions: Iterable[str] | str = (),
    **filters: Unpack[RecallOptions],
) -> Query:
    """Return the query, its text cleaned of control characters, its bounds in UTC.

    Raises:
        UsageError: an empty, wordless or over-long text, k under 1, an unknown kind, an empty workspace, category or
            speaker, a file that isn't a path, an invalid date, or bounds the wrong way round.
        TypeError: an unknown filter.
    """
    refuse_unknown_filters(filters, RecallOptions)
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise UsageError(f"k is {k!r}; it is the number of hits wanted, at least 1")
    then = parse_bound(filters.get("as_of"), "as_of", time.max)
    start, end = _parse_span(filters, then)
    names = _parse_names(filters)
    asked_at = parse_bound(now, "now", time.min) or then
    files = _parse_files(filters.get("files"))
    return Query(
        _parse_text(text),
        min(k, MOST_HITS),
        _check_kinds(kinds),
        since=start,
        until=end,
        now=asked_at,
        as_of=then,
        files=files,
        min_confidence=parse_share(filters.get("min_confidence"), "min_confidence"),
        own_sessions=parse_sessions(own_sessions),
        everything=bool(filters.get("everything")),
        places=()
        if (workspace := names["workspace"]) is None
        else (workspace,),  # `resolve_workspace` adds its other names
        **names,
    )


def _parse_span(
    filters: Filters,
    then: datetime | None,
) -> tuple[datetime | None, datetime | None]:
    """Return the first and last time in UTC, the last no later than `then`."""
    start = parse_bound(filters.get("since"), "since", time.min)
    end = parse_bound(filters.get("until"), "until", time.max)
    end = min((bound for bound in (end, then) if bound is not None), default=None)
    if start and end and start > end:
        raise UsageError(
            f"since ({start.isoformat()}) is after until ({end.isoformat()}): nothing lies between"
        )
    return start, end


def _parse_names(filters: Filters) -> dict[str, str | None]:
    """Return the workspace, category, speaker and tag; the workspace as a path that means the same tomorrow."""
    names = {
        "workspace": filters.get("workspace"),
        "category": filters.get("category"),
        "speaker": filters.get("speaker"),
        "tag": filters.get("tag"),
    }
    for name, value in names.items():
        if value is not None and not _is_name(value):
            raise UsageError(
                f"{name} is {value!r}; it is a name without control characters, or None for any"
            )
    if names["workspace"] is not None:
        names["workspace"] = anchor_workspace(names["workspace"])
    return names


def _parse_text(text: object) -> str:
    """Return a query's text in one line, without control characters, in Unicode's form NFC."""
    if not isinstance(text, str):
        raise UsageError(f"the query is {text!r:.40}; it is a text")
    if len(text) > MAX_CHARS:
        raise UsageError(
            f"the query has {len(text):,} characters; at most {MAX_CHARS:,} are searched: shorten it"
        )
    plain = unicodedata.normalize("NFC", " ".join(CONTROL.sub(" ", text).split()))
    if not TERM.search(plain):
        raise UsageError(f"the query {text[:40]!r} has no words to search for")
    return plain


def parse_share(value: float | str | None, name: str) -> float | None:
    """Return a number between 0 and 1.

    Raises:
        UsageError: not such a number.
    """
    try:
        share = None if value is None else float(value)
    except (TypeError, ValueError):
        share = -1.0
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"{name} is {value!r}; it is a number from 0 to 1")
    return share


def read_once(values: T) -> T | tuple[str, ...]:
    """Return an iterator's values; anything else as it is: what is asked of many queries is read but once."""
    return tuple(values) if isinstance(values, Iterator) else values


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not CONTROL.search(value)


def normalise_path(path: str) -> str:
    """Return a path as it is compared: with forward slashes, not from `./` on."""
    return path.strip().replace("\\", "/").removeprefix("./")


def _parse_files(files: Files) -> tuple[str, ...]:
    """Return the paths asked for, in order, each once."""
    if files is None:
        return ()
    try:
        paths = (files,) if isinstance(files, str) else tuple(files)
    except TypeError:
        paths = ()
    wrong = [
        path
        for path in paths
        if not (_is_name(path) and normalise_path(path).strip("/"))
    ]
    if wrong or not paths:
        refused = repr(wrong[0] if wrong else files)
        raise UsageError(
            f"files has {refused:.80}; it is one path or several, like src/db.py, or None for any"
        )
    return tuple(dict.fromkeys(map(normalise_path, paths)))


def parse_sessions(sessions: Iterable[str] | str) -> tuple[str, ...]:
    """Return the ids of sessions as they are compared, sorted, each once: whatever their case, or spaces around them.

    Raises:
        UsageError: one of them isn't a text.
    """
    ids = (sessions,) if isinstance(sessions, str) else tuple(sessions)
    if wrong := [key for key in ids if not isinstance(key, str)]:
        raise UsageError(
            f"own_sessions has {wrong[0]!r:.80}; it is a session's id or several"
        )
    return tuple(sorted({folded for key in ids if (folded := key.strip().casefold())}))


def is_of_session(native: str | None, sessions: Collection[str]) -> bool:
    """Return True if a session, by the transcript's own id, is one of some, or a helper's below one (`ID/AGENT`)."""
    if native is None:
        return False
    folded = native.strip().casefold()
    return folded in sessions or folded.startswith(tuple(f"{key}/" for key in sessions))


def _check_kinds(kinds: Iterable[str] | str) -> tuple[Kind, ...]:
    try:
        names = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    except TypeError:
        names = (repr(kinds),)
    unknown = [kind for kind in names if kind not in get_args(Kind)]
    if unknown or not names:
        allowed = ", ".join(get_args(Kind))
        raise UsageError(
            f"unknown kinds {unknown}: any of {allowed}, at least one; `sessions` finds sessions"
        )
    return tuple(dict.fromkeys(cast(tuple[Kind, ...], names)))


def parse_bound(
    value: When,
    name: str,
    day_edge: time = time.min,
) -> datetime | None:
    """Return an aware UTC moment; a bare date means its start for `since` and its end for `until`.

    Raises:
        UsageError: not a date or time, or outside the years 1 to 9999.
    """
    if value is None:
        return None
    # a text, as a day or a moment
    moment: date = value if isinstance(value, date) else date.min
    if not isinstance(value, date):
        try:
            is_day = len(value) <= len("2025-01-31")
            moment = (
                date.fromisoformat(value) if is_day else datetime.fromisoformat(value)
            )
        except (TypeError, ValueError):
            raise UsageError(
                f"{name} is {value!r}; it is a date or time like 2025-01-31 or 2025-01-31T09:30Z"
            ) from None
    # a day's edge, or the moment in UTC
    if not isinstance(moment, datetime):
        return datetime.combine(moment, day_edge, tzinfo=UTC)
    try:
        return convert_to_utc(moment)
    except OverflowError:
        raise UsageError(
            f"{name} is {moment}; in UTC that is outside the years 1 to 9999"
        ) from None
