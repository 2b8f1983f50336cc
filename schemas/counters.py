"""What the steps of a run count, and what a model's answers cost: their names in a report, and the words for them.

A report in `runs` has the names. `WORDS`, `WORDS_BY_KIND` and `USAGE_WORDS` have what people read: no code reads words.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self


class Count(StrEnum):
    """What a step counts."""

    FILES = "files"
    FILES_UNCHANGED = "files_unchanged"
    FILES_EXCLUDED = "files_excluded"
    FILES_UNREADABLE = "files_unreadable"
    FILES_WITHOUT_MESSAGE = "files_without_message"
    LINKS = "links"
    JUNK_FOLDERS = "junk_folders"
    JUNK_FILES = "junk_files"
    STORES = "stores"
    LANCE_TABLES = "lance_tables"
    EXPORTED_TABLES = "exported_tables"
    OTHER_FILES = "other_files"
    SESSIONS = "sessions"
    MESSAGES_PRESENT = "messages_present"
    MESSAGES_CHANGED = "messages_changed"
    MESSAGES_FROM_FUTURE = "messages_from_future"
    RECORDS_SKIPPED = "records_skipped"
    LINES_QUARANTINED = "lines_quarantined"
    ANSWERS_QUARANTINED = "answers_quarantined"
    ECHOES = "echoes"
    INJECTIONS = "injections"
    SESSIONS_SKIPPED = "sessions_skipped"
    MESSAGES_SHOWN = "messages_shown"
    CLAIMS_KEPT = "claims_kept"
    CLAIMS_REJECTED = "claims_rejected"
    CLAIMS_WITHDRAWN = "claims_withdrawn"
    DUPLICATES = "duplicates"
    CHAIN_ROWS = "chain_rows"
    SUPERSEDED = "superseded"
    ACTIVE_AGAIN = "active_again"
    PERHAPS_CHANGED = "perhaps_changed"
    LESS_LIKELY_CHANGED = "less_likely_changed"
    AFFIRMED = "affirmed"
    NARROWED = "narrowed"
    JUDGED_BY_MODEL = "judged_by_model"
    LEFT_TO_CLASSIFIER = "left_to_classifier"
    TOPICS = "topics"
    TOPICS_MERGED = "topics_merged"
    TOPICS_SPLIT = "topics_split"
    CLAIMS_PLACED_BY_MODEL = "claims_placed_by_model"
    SESSIONS_SUMMARISED = "sessions_summarised"
    GROUPS_SEALED = "groups_sealed"
    GROUPS_SHRUNK = "groups_shrunk"
    SUMMARIES_BY_MODEL = "summaries_by_model"
    SUMMARIES_WITHOUT_MODEL = "summaries_without_model"
    SUMMARIES_STALE = "summaries_stale"
    PATTERNS = "patterns"
    WORKED_LATER = "worked_later"
    VECTORS_FILLED = "vectors_filled"
    RECALLS_FORGOTTEN = "recalls_forgotten"
    TABLES_COMPACTED = "tables_compacted"
    BYTES_FREED = "bytes_freed"
    BYTES_A_ROW = "bytes_a_row"
    ROWS_UNINDEXED = "rows_unindexed"


class CountByKind(StrEnum):
    """What a step counts by kind: of a table, a tier, a reason."""

    WAITING = "waiting"
    """By what waits: requests that the step's model has not answered, or files over the quota."""
    REDACTED = "redacted"
    """By the kind of secret."""
    FORGOTTEN = "forgotten"
    """By table."""
    SESSIONS_READ = "sessions_read"
    """By the reader of claims."""
    GISTS = "gists"
    """By `strategy`."""
    RELATIONS = "relations"
    """By `RelationKind`."""
    CHECKS = "checks"
    """By `CheckResult`."""
    CHECKOUTS_REFUSED = "checkouts_refused"
    """By reason."""
    NEAREST_FOUND = "nearest_found"
    """By table: of a thousand nearest rows those that its index of vectors finds."""
    TIER_SIZE = "tier_size"
    """By tier, as the four below: a model's summaries."""
    TIER_COVERAGE = "tier_coverage"
    TIER_UNFOUNDED = "tier_unfounded"
    TIER_LIKE_MEMBERS = "tier_like_members"
    TIER_LIKE_ABOVE = "tier_like_above"


WORDS: Mapping[Count, str] = {
    Count.FILES: "files",
    Count.FILES_UNCHANGED: "files unchanged",
    Count.FILES_EXCLUDED: "files excluded",
    Count.FILES_UNREADABLE: "files unreadable",
    Count.FILES_WITHOUT_MESSAGE: "files without a message",
    Count.LINKS: "links not followed",
    Count.JUNK_FOLDERS: "folders left out by name",
    Count.JUNK_FILES: "files left out by name",
    Count.STORES: "slowwave stores",
    Count.LANCE_TABLES: "Lance tables",
    Count.EXPORTED_TABLES: "tables in exports",
    Count.OTHER_FILES: "files of other kinds",
    Count.SESSIONS: "sessions",
    Count.MESSAGES_PRESENT: "messages already stored",
    Count.MESSAGES_CHANGED: "changed messages of a person",
    Count.MESSAGES_FROM_FUTURE: "messages dated in the future",
    Count.RECORDS_SKIPPED: "records outside a conversation",
    Count.LINES_QUARANTINED: "quarantined",
    Count.ANSWERS_QUARANTINED: "rows in quarantine",
    Count.ECHOES: "echoes of recall left out",
    Count.INJECTIONS: "passages left out since they give orders to the memory",
    Count.SESSIONS_SKIPPED: "sessions skipped",
    Count.MESSAGES_SHOWN: "messages shown to the model",
    Count.CLAIMS_KEPT: "claims kept",
    Count.CLAIMS_REJECTED: "claims and parts rejected",
    Count.CLAIMS_WITHDRAWN: "claims withdrawn",
    Count.DUPLICATES: "duplicates",
    Count.CHAIN_ROWS: "rows with a chain of changes",
    Count.SUPERSEDED: "superseded",
    Count.ACTIVE_AGAIN: "active again",
    Count.PERHAPS_CHANGED: "perhaps changed",
    Count.LESS_LIKELY_CHANGED: "less likely changed",
    Count.AFFIRMED: "affirmed",
    Count.NARROWED: "narrowed",
    Count.JUDGED_BY_MODEL: "judged by the model",
    Count.LEFT_TO_CLASSIFIER: "left to the classifier for another night",
    Count.TOPICS: "topics",
    Count.TOPICS_MERGED: "topics merged",
    Count.TOPICS_SPLIT: "topics split",
    Count.CLAIMS_PLACED_BY_MODEL: "claims placed by the model",
    Count.SESSIONS_SUMMARISED: "sessions summarised",
    Count.GROUPS_SEALED: "topic groups sealed",
    Count.GROUPS_SHRUNK: "groups that lost a member",
    Count.SUMMARIES_BY_MODEL: "summaries by the model",
    Count.SUMMARIES_WITHOUT_MODEL: "summaries made without the model",
    Count.SUMMARIES_STALE: "summaries waiting for a model",
    Count.PATTERNS: "patterns",
    Count.WORKED_LATER: "worked later",
    Count.VECTORS_FILLED: "missing vectors computed",
    Count.RECALLS_FORGOTTEN: "lines of recalls.jsonl forgotten",
    Count.TABLES_COMPACTED: "tables indexed or compacted",
    Count.BYTES_FREED: "bytes freed",
    Count.BYTES_A_ROW: "bytes a row",
    Count.ROWS_UNINDEXED: "rows not indexed",
}
WORDS_BY_KIND: Mapping[CountByKind, str] = {
    CountByKind.WAITING: "{} left for another night",
    CountByKind.REDACTED: "redacted {}",
    CountByKind.FORGOTTEN: "{} forgotten",
    CountByKind.SESSIONS_READ: "sessions read by {}",
    CountByKind.GISTS: "{}",
    CountByKind.RELATIONS: "{}",
    CountByKind.CHECKS: "{}",
    CountByKind.CHECKOUTS_REFUSED: "checkouts not read ({})",
    CountByKind.NEAREST_FOUND: "{}: nearest found by index, of 1,000",
    CountByKind.TIER_SIZE: "{} by the model",
    CountByKind.TIER_COVERAGE: "{}, words of members, percent",
    CountByKind.TIER_UNFOUNDED: "{}, stating what no member states",
    CountByKind.TIER_LIKE_MEMBERS: "{}, likeness to members, percent",
    CountByKind.TIER_LIKE_ABOVE: "{}, likeness to the tier above, percent",
}
"""The kind takes the place of the braces."""
USAGE_WORDS: Mapping[str, str] = {
    "requests": "requests",
    "cache_hits": "cache hits",
    "prompt_tokens": "prompt tokens",
    "prefix_tokens": "prefix-cache tokens",
    "answer_tokens": "answer tokens",
}
"""The words for the fields of `ModelUsage`, in the order of a report's columns."""


def describe_counts(
    counts: Mapping[Count, int], kinds: Mapping[CountByKind, Mapping[str, int]]
) -> dict[str, int]:
    """Return each number by its words, sorted by these."""
    numbers = {WORDS[count]: n for count, n in counts.items()}
    for count, by_kind in kinds.items():
        for kind, n in by_kind.items():
            numbers[WORDS_BY_KIND[count].format(kind)] = n
    return dict(sorted(numbers.items()))


@dataclass
class ModelUsage:
    """What was asked of a model and what it cost. An answer from the completions cache costs no tokens and no time."""

    requests: int = 0
    cache_hits: int = 0
    """Requests that the completions cache answered."""
    prompt_tokens: int = 0
    prefix_tokens: int = 0
    """Prompt tokens that the engine's prefix cache held."""
    answer_tokens: int = 0
    milliseconds: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Failed requests by the kind of error."""

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Return the usage that a report has as JSON. What another version counted is left out."""
        names = {one.name for one in fields(cls)}
        known = {name: row[name] for name in row.keys() & names}
        return cls(**{**known, "errors": Counter(row.get("errors", {}))})

    @property
    def paid_requests(self) -> int:
        """Requests that the model answered itself."""
        return self.requests - self.cache_hits

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.answer_tokens

    def add(self, other: "ModelUsage") -> None:
        """Add what was asked besides."""
        self.requests += other.requests
        self.cache_hits += other.cache_hits
        self.prompt_tokens += other.prompt_tokens
        self.prefix_tokens += other.prefix_tokens
        self.answer_tokens += other.answer_tokens
        self.milliseconds += other.milliseconds
        self.errors.update(other.errors)

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {**vars(self), "errors": dict(self.errors)}
