"""Every table of the store, in the order of the night: its name, its key and its Arrow schema.

Every table is a `Table`; the store opens tables by it, steps cast to it, exports write it down. A column that
says when or how long, and so differs between two equal runs, is *volatile*: digests leave it out.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.vocabulary import EXTRACTIVE, SHARED

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from slowwave.schemas import rows

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:  # Python 3.11 knows no default
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)
"""The type of a table's rows: one of schemas/rows.py."""

VECTOR_DIM = 384
"""Dimensions of the encoder that ships (all-MiniLM-L6-v2): a store has them until its first vectors have others."""
VECTOR = pa.list_(pa.float32())
"""A vector as steps see it. On disk all vectors of a store have the length of its first encoder's, and half precision.
Centroids keep single precision, since every night moves them by a little."""

INDEXED_ROWS = 300_000
QUANTIZED_ROWS = 10_000_000
"""Rows from which vectors have an index, and from which the index has four bits a number. Hits of the latter are
compared again with the whole vectors."""
UTC_US = pa.timestamp("us", tz="UTC")
STRINGS = pa.list_(pa.string())
MEANING = "description"
"""Key of a column's metadata, as other tools call it."""
INTERNAL = (
    "step_key",
    "dedupe_key",
    "supersede_key",
    "assign_key",
    "read_key",
    "stems",
)
"""Columns by which a night finds the rows that still need work. Nothing else uses them."""


def mean(meaning: str) -> dict[str, str]:
    """Return the metadata of a column that says what it means. Stores have none of it, exports do."""
    return {MEANING: meaning}


def string_field(
    name: str,
    meaning: str = "",
    *,
    null: bool = True,
) -> pa.Field:
    """Return a string column."""
    return pa.field(
        name, pa.string(), nullable=null, metadata=mean(meaning) if meaning else None
    )


def vector_field(name: str = "vector") -> pa.Field:
    """Return a column of vectors of unit length; null if embeddings are off."""
    return pa.field(name, VECTOR)


CHAIN = ("chain_id", "chain_at", "chain_likely")
"""Columns of claims and passages that a later claim certainly or perhaps changed: the claim at the end of the chain,
the time from which the row no longer holds, and the probability of that (1: it is superseded). The last two are null in
a row that holds."""


class ChainRow(TypedDict, total=False):
    """The columns CHAIN of a claim or passage."""

    chain_id: str | None
    chain_at: datetime | None
    chain_likely: float | None


NO_CHAIN = ChainRow(chain_id=None, chain_at=None, chain_likely=None)
"""The chain columns of a row that no later claim changed."""


def chain_fields() -> tuple[pa.Field, ...]:
    """Return the columns CHAIN."""
    return tuple(
        pa.field(name, kind)
        for name, kind in zip(CHAIN, (pa.string(), UTC_US, pa.float32()), strict=True)
    )


TRUST: Final = "trust"
"""Column of passages, claims and summaries: a `Trust`, the least of what the row rests on."""


@dataclass(frozen=True)
class Table(Generic[R_co]):
    """Name, primary key, schema and volatile columns of one table."""

    name: str
    key: str
    fields: tuple[pa.Field, ...]
    volatile: frozenset[str] = frozenset()
    full_text: str | None = None
    """The column that a full-text index covers, if the table has one."""
    model_text: str | None = None
    """The column that a second full-text index covers, as soon as a row of `BY_MODEL` has a value in it."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema; the key carries the mark Lance needs to merge without duplicates.

        Without `unenforced-primary-key` concurrent merges of the same new key both insert it.
        """
        marked = [
            f.with_nullable(False).with_metadata(
                {"lance-schema:unenforced-primary-key": "true"}
            )
            if f.name == self.key
            else f.remove_metadata()
            for f in self.fields
        ]
        return pa.schema(marked)

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What each column means, by name."""
        own = {
            f.name: f.metadata[MEANING.encode()].decode()
            for f in self.fields
            if f.metadata
        }
        return {
            f.name: own.get(f.name) or MEANINGS[f.name]
            for f in self.fields
            if f.name in own or f.name in MEANINGS
        }

    @cached_property
    def vector(self) -> str | None:
        """The column of vectors, if the table has one."""
        return next((field.name for field in self.fields if field.type == VECTOR), None)

    def build_disk_schema(self, dim: int = VECTOR_DIM) -> pa.Schema:
        """Return the schema of a store whose vectors have `dim` dimensions."""
        numbers = pa.float32() if self.vector == "centroid" else pa.float16()
        return pa.schema(
            [
                f.with_type(pa.list_(numbers, dim)) if f.type == VECTOR else f
                for f in self.schema
            ]
        )

    def make_empty_table(self) -> pa.Table:
        """Return no rows, with the right columns."""
        return self.schema.empty_table()

    def sort_rows(
        self,
        rows: pa.Table,
        where: pa.ChunkedArray,
    ) -> pa.Table:
        """Return the rows for which `where` is true, sorted by their key.

        They are copied once, since they may be many.
        """
        order = pc.sort_indices(rows[self.key])
        return rows.take(order.filter(where.combine_chunks().take(order)))


TAGS = "tags"
"""Name of the block, of type other, that keeps a message's tags, a line each."""
GIST = "gist"
"""Name of the block, of type other, with the transcript's own gist of a message: a line of summary, then a line for
each keyword.
"""

MEANINGS = {
    "session_id": "hash of the source and the transcript's own session id -> sessions",
    "message_id": "hash of source, identity and content -> messages",
    "passage_id": "hash of the message and the place in it",
    "topic_id": "-> topics",
    "workspace": "the project, by its folder or name: `--project` takes it",
    "source": "the format's name: claude-code, codex, openclaw, …",
    "path": "file of the transcript",
    "title": "the title; null without one",
    "ts": "when it was said, UTC",
    "utc_offset": "minutes by which the speaker's clock was ahead of UTC; null if the transcript does not say",
    "observed_at": "when it was said, UTC",
    "started_at": "time of the first message, UTC",
    "ended_at": "time of the last message, UTC",
    "first_at": "time of the earliest source of this row, UTC",
    "last_at": "time of the latest source of this row, UTC",
    "valid_from": "time from which the claim holds, UTC",
    "valid_to": "time at which a later claim certainly changed it, UTC",
    "messages": "number of messages",
    "sessions": "number of sessions",
    "tokens": "estimate: UTF-8 bytes / 4",
    "prev_hash": "hash of the message before it in the session",
    "hash": "hash of the message and of prev_hash",
    "size": "of a file its bytes; of a topic the number of its active claims",
    "mtime_ns": "time of the last change, ns since 1970",
    "quarantined": "number of records that could not be used",
    "redacted": "number of secrets that were replaced",
    "role": "who speaks: user, assistant, system or tool",
    "speaker": "name of the person or agent, if the transcript has one",
    "text": "the text",
    "summary": "the content in one sentence",
    "detail": "details beyond the summary",
    "keywords": "words that name the subject",
    "files": "files that the row names",
    "reason": "why",
    "superseded_by": "the claim that replaced it -> claims",
    "vector": "embedding of unit length; null if embeddings are off",
    "trust": "a Trust: the least trusted origin of the words",
    "chain_id": "the claim at the end of the chain of changes -> claims",
    "chain_at": "time from which a later claim certainly or perhaps changed this row, UTC",
    "chain_likely": "probability of that change; 1: the row is superseded",
    "step_key": "hash of the version and settings of the step that made the row",
    "from_id": "the claim that was merged, changed or judged -> claims",
    "into_id": "the claim that it was merged into, changed by or judged with -> claims",
    "undone": "true if a person undid the decision",
    "name": "the name",
    "base": "true for a topic that every memory has",
    "other_name": "name of the other topic at that time",
    "line": "line of the file",
    "blocks": "all parts of the message: text, thinking, tool calls and their results, images",
    "centroid": "mean of the vectors of its claims",
    "member_hash": "hash of the members that the text was written from",
    "step": "name of the step",
    "at": "time of the event, UTC",
    "model": "name of the language model",
    "engine": "the engine that ran the model",
    "finish_reason": "why the model stopped: stop, length, …",
    "prompt_tokens": "tokens of the prompt",
    "completion_tokens": "tokens of the answer",
    "flags": "irregularities of the answer",
    "created_at": "time of creation, UTC",
    "row_id": "the row that this row is about",
    "run_id": "-> runs",
    "release_id": "-> releases",
}
"""The meaning of a column by its name, if it is about the same in each table."""

BLOCK = pa.struct(
    [
        string_field(
            "type", "text, thinking, tool_call, tool_result, image or other", null=False
        ),
        string_field(
            "text", "the text; a tool call's arguments as JSON; a tool result's output"
        ),
        string_field("name", "a tool's name"),
        string_field("call_id", "ties a tool result to its call"),
        pa.field("is_error", pa.bool_()),
        string_field("media", "an image's media type; its bytes are never kept"),
    ]
)

MESSAGES: "Table[rows.MessageRow]" = Table(
    name="messages",
    key="message_id",
    fields=(
        string_field("message_id", "hash of source, identity and content"),
        string_field("session_id", "-> sessions", null=False),
        pa.field(
            "seq",
            pa.int64(),
            nullable=False,
            metadata=mean("0, 1, 2… within the session, in order of arrival"),
        ),
        string_field(
            "native_id", "the transcript's own message id, or its ordinal", null=False
        ),
        string_field("parent_id", "the transcript's own id of the message it answers"),
        string_field("role", "a Role", null=False),
        string_field("origin", "an Origin: who or what wrote the words", null=False),
        string_field(
            "speaker", "name of the person or agent, if the transcript has one"
        ),
        pa.field("blocks", pa.list_(BLOCK), nullable=False),
        string_field(
            "text",
            "the text blocks without the tool's noise; empty for tool traffic",
            null=False,
        ),
        pa.field("ts", UTC_US),
        pa.field("utc_offset", pa.int16()),
        string_field("workspace"),
        string_field(
            "source", "the format's name: claude-code, codex, openclaw, …", null=False
        ),
        pa.field(
            "tokens",
            pa.int64(),
            nullable=False,
            metadata=mean("estimate: UTF-8 bytes of all blocks / 4"),
        ),
        string_field(
            "identity",
            "hash that two copies of a message share, without its content",
            null=False,
        ),
        string_field("prev_hash", null=False),
        string_field("hash", null=False),
    ),
)


SESSIONS: "Table[rows.SessionRow]" = Table(
    name="sessions",
    key="session_id",
    fields=(
        string_field("session_id"),
        string_field("native_id", "the transcript's own session id", null=False),
        string_field("source", null=False),
        string_field("path", null=False),
        string_field("workspace"),
        string_field("title"),
        string_field("kind", "chat, subagent, scheduled", null=False),
        string_field(
            "parent_id", "the native id of the session it was spawned or forked from"
        ),
        pa.field("started_at", UTC_US),
        pa.field("ended_at", UTC_US),
        pa.field(
            "utc_offset", pa.int16(), metadata=mean("utc_offset of the last message")
        ),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field(
            "inactive",
            STRINGS,
            nullable=False,
            metadata=mean(
                "message_ids of messages taken back: stored, but not distilled"
            ),
        ),
        string_field(
            "head_hash", "hash of the last message: the end of the chain", null=False
        ),
    ),
)

FILES: "Table[rows.FileRow]" = Table(
    name="files",
    key="path",
    fields=(
        string_field("path"),
        string_field("source"),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        string_field(
            "digest",
            "SHA-256 of the bytes (of database and write-ahead log for SQLite)",
            null=False,
        ),
        string_field(
            "read_key",
            "version of the reader, and of the settings of that reading",
            null=False,
        ),
        pa.field("sessions", pa.int64(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("quarantined", pa.int64(), nullable=False),
        pa.field("redacted", pa.int64(), nullable=False),
        pa.field(
            "skipped",
            pa.map_(pa.string(), pa.int64()),
            metadata=mean("records outside a conversation, by kind"),
        ),
    ),
)


PASSAGES: "Table[rows.PassageRow]" = Table(
    name="passages",
    key="passage_id",
    full_text="text",
    fields=(
        string_field("passage_id"),
        string_field("message_id", null=False),
        string_field("session_id", null=False),
        pa.field(
            "seq",
            pa.int64(),
            nullable=False,
            metadata=mean("the message's place in its session"),
        ),
        pa.field(
            "part",
            pa.int64(),
            nullable=False,
            metadata=mean("0, 1, … within the message"),
        ),
        string_field("role", null=False),
        string_field("speaker"),
        string_field("text", null=False),
        pa.field("ts", UTC_US),
        string_field("workspace"),
        vector_field(),
        string_field("step_key", null=False),
        *chain_fields(),
        string_field(TRUST),
    ),
)


GISTS: "Table[rows.GistRow]" = Table(
    name="gists",
    key="message_id",
    fields=(
        string_field("message_id"),
        string_field("session_id", null=False),
        string_field("summary", null=False),
        pa.field("keywords", STRINGS, nullable=False),
        string_field(
            "strategy",
            "how it was made: llm, extractive, truncated; own: by the transcript",
            null=False,
        ),
        string_field("step_key", null=False),
    ),
)


BOILERPLATE: "Table[rows.BoilerplateRow]" = Table(
    name="boilerplate",
    key="span_id",
    fields=(
        string_field("span_id", "hash of the normalised text, 16 hex digits"),
        string_field(
            "text", "the text, as in the first session that has it", null=False
        ),
        pa.field(
            "sessions",
            pa.int64(),
            nullable=False,
            metadata=mean("number of distinct sessions that have the span"),
        ),
        pa.field(
            "kept",
            STRINGS,
            nullable=False,
            metadata=mean(
                "the first sessions with a span that a person typed; it is not masked there"
            ),
        ),
        string_field("step_key", null=False),
    ),
)

LINES: "Table[rows.LineRow]" = Table(
    name="lines",
    key="session_id",
    fields=(
        string_field("session_id"),
        pa.field(
            "hashes",
            pa.list_(pa.int64()),
            nullable=False,
            metadata=mean("distinct spans of the session, sorted"),
        ),
        pa.field(
            "typed",
            pa.list_(pa.int64()),
            nullable=False,
            metadata=mean("the spans of them that a person typed"),
        ),
        string_field("step_key", null=False),
    ),
)


ACTIONS: "Table[rows.ActionRow]" = Table(
    name="actions",
    key="action_id",
    fields=(
        string_field("action_id", "hash of the message and the place in it"),
        string_field("message_id", null=False),
        string_field("session_id", null=False),
        string_field("workspace"),
        pa.field(
            "turn",
            pa.int64(),
            nullable=False,
            metadata=mean(
                "number of a person's messages in the session up to this one"
            ),
        ),
        pa.field(
            "seq",
            pa.int64(),
            nullable=False,
            metadata=mean("the message's place in its session"),
        ),
        pa.field(
            "part",
            pa.int64(),
            nullable=False,
            metadata=mean("0, 1, … within the message"),
        ),
        pa.field("at", UTC_US),
        string_field("kind", "an ActionKind", null=False),
        string_field("tool", "as the transcript calls it", null=False),
        string_field(
            "path",
            "from the project's folder on; of a command the folder it ran in, '' for the project's own",
        ),
        string_field(
            "command",
            "the program and its subcommand, without arguments; null if no habit is made of it",
        ),
        string_field("line", "the command as typed, without redirections"),
        string_field("role", "a CommandRole"),
        pa.field(
            "ok", pa.bool_(), metadata=mean("true if it succeeded; null if unknown")
        ),
        string_field("step_key", null=False),
    ),
)

PATTERNS: "Table[rows.PatternRow]" = Table(
    name="patterns",
    key="pattern_id",
    fields=(
        string_field("pattern_id", "hash of kind, project and items"),
        string_field("kind", "a HabitKind", null=False),
        string_field("workspace", null=False),
        pa.field(
            "items",
            STRINGS,
            nullable=False,
            metadata=mean("two files; steps in order; or one command"),
        ),
        string_field("line", "of a command, its most frequent spelling"),
        string_field("role", "of a command, a CommandRole"),
        pa.field(
            "support", pa.int64(), nullable=False, metadata=mean("turns that have it")
        ),
        pa.field(
            "turns",
            pa.list_(pa.int64()),
            nullable=False,
            metadata=mean("turns that have each item"),
        ),
        pa.field(
            "times",
            pa.int64(),
            nullable=False,
            metadata=mean("of a command, the number of its runs; else the support"),
        ),
        pa.field("sessions", pa.int64(), nullable=False),
        pa.field(
            "share",
            pa.float32(),
            metadata=mean(
                "support / turns of the rarer file or first step; of a command the share of runs that succeeded"
            ),
        ),
        pa.field(
            "lift",
            pa.float32(),
            metadata=mean("of two files, support / the support expected by chance"),
        ),
        pa.field("first_at", UTC_US),
        pa.field("last_at", UTC_US),
        pa.field(
            "examples",
            STRINGS,
            nullable=False,
            metadata=mean("messages of the latest turns that have it"),
        ),
        string_field("step_key", null=False),
    ),
)


DEAD_ENDS: "Table[rows.DeadEndRow]" = Table(
    name="dead_ends",
    key="dead_end_id",
    fields=(
        string_field("dead_end_id", "hash of the message that tried it"),
        string_field("session_id", null=False),
        string_field("workspace"),
        string_field(
            "kind", "edit, run, check, or words: a refused proposal", null=False
        ),
        string_field("path", "of an edit its file, from the project's folder on"),
        string_field(
            "attempt",
            "the command, the first line that the edit added, or the proposal, redacted",
            null=False,
        ),
        pa.field(
            "words",
            STRINGS,
            nullable=False,
            metadata=mean(
                "of a command its words; of an edit the names that it added; of a proposal the names that were refused"
            ),
        ),
        string_field("attempt_id", "the message that tried it -> messages", null=False),
        string_field(
            "failure_id", "the message that shows the failure -> messages", null=False
        ),
        string_field(
            "error", "the most informative line of the failure, redacted", null=False
        ),
        pa.field(
            "by_person",
            pa.bool_(),
            nullable=False,
            metadata=mean("true if a person refused it; false if a command failed"),
        ),
        string_field("instead", "the later action that replaced it, redacted"),
        string_field("instead_id", "the message with that action -> messages"),
        pa.field("at", UTC_US, metadata=mean("time of the attempt, UTC")),
        string_field(
            "worked_in",
            "a later session in which the attempt worked: the dead end no longer counts -> sessions",
        ),
        string_field("step_key", null=False),
    ),
)


CODING = ("decision", "pattern", "gotcha", "convention", "context")
PERSONAL = ("fact", "preference", "event", "plan", "relationship")
CATEGORIES = (*CODING, *PERSONAL)
"""Categories of claims. A user's own prompts and another memory's claims may have others besides."""
BY_MODEL = (pc.field("observer") != EXTRACTIVE) & ~pc.starts_with(
    pc.field("observer"), f"{SHARED}:"
)
"""True for claims that a language model wrote here. Every word of other claims is in a message."""
GATES = ("reusable", "non_trivial", "specific")
"""Columns of CLAIMS with the verdicts of the gates; False shuts the claim out."""

CLAIMS: "Table[rows.ClaimRow]" = Table(
    name="claims",
    key="claim_id",
    full_text="summary",
    model_text="detail",
    fields=(
        string_field(
            "claim_id",
            "hash of the session, the message, and the sentence or quote behind the claim",
        ),
        string_field("session_id", null=False),
        string_field("workspace"),
        string_field("summary", "one sentence", null=False),
        string_field("detail"),
        string_field(
            "category",
            "of the pack: CODING or PERSONAL; '' if uncertain",
            null=False,
        ),
        string_field("pack", "coding, personal", null=False),
        pa.field("files", STRINGS, nullable=False),
        string_field("quote", "verbatim, from one of the messages", null=False),
        pa.field(
            "message_ids",
            STRINGS,
            nullable=False,
            metadata=mean("the messages that support the quote and the claim"),
        ),
        string_field("speaker"),
        pa.field("confidence", pa.float32(), nullable=False, metadata=mean("0 to 1")),
        pa.field("observed_at", UTC_US),
        pa.field("utc_offset", pa.int16()),
        string_field("observer", "extractive, or a model's name", null=False),
        pa.field(
            "reusable",
            pa.bool_(),
            metadata=mean("a gate, null if not judged: of use beyond its session"),
        ),
        pa.field(
            "non_trivial",
            pa.bool_(),
            metadata=mean("a gate: a reader would not know it anyway"),
        ),
        pa.field(
            "specific", pa.bool_(), metadata=mean("a gate: the claim names something")
        ),
        pa.field(
            "verified",
            pa.bool_(),
            metadata=mean("true if one of its messages has the quote"),
        ),
        pa.field("gate_reasons", STRINGS, metadata=mean("why a gate is shut")),
        pa.field("keywords", STRINGS, nullable=False),
        pa.field(
            "stems",
            STRINGS,
            metadata=mean("stems of the summary's content words, in order"),
        ),
        vector_field(),
        string_field("step_key", null=False),
        string_field("status", "a Status", null=False),
        string_field("reason", "why it is not active"),
        string_field("canonical_id", "the claim that this one repeats -> claims"),
        string_field("superseded_by"),
        pa.field("valid_from", UTC_US),
        pa.field("valid_to", UTC_US),
        pa.field(
            "evidence_sessions",
            STRINGS,
            nullable=False,
            metadata=mean("distinct sessions that state the claim"),
        ),
        string_field(
            "dedupe_key", "null: not yet compared with other claims for duplicates"
        ),
        string_field(
            "supersede_key", "null: not yet compared with other claims for changes"
        ),
        string_field("topic_id"),
        string_field("assign_key", "null: not assigned yet"),
        *chain_fields(),
        string_field(TRUST),
    ),
)

MERGES: "Table[rows.MergeRow]" = Table(
    name="merges",
    key="merge_id",
    fields=(
        string_field("merge_id", "hash of the pair and the rule"),
        string_field(
            "kind",
            "a LedgerKind; after a doubt or an agreement both claims stay active; a judgement is a model's answer",
            null=False,
        ),
        string_field("from_id", null=False),
        string_field("into_id", null=False),
        string_field(
            "rule",
            "exact, token_sort, …; changed, retracted, restored, perhaps …; for a judgement the answer",
            null=False,
        ),
        pa.field(
            "scores",
            pa.map_(pa.string(), pa.float32()),
            metadata=mean("by scorer, 0 to 100; cosine 0 to 1"),
        ),
        string_field("reason"),
        pa.field("undone", pa.bool_(), nullable=False),
        string_field("step_key", null=False),
    ),
)

RELATIONS: "Table[rows.RelationRow]" = Table(
    name="relations",
    key="relation_id",
    fields=(
        string_field("relation_id", "hash of kind and both claims"),
        string_field("kind", "a RelationKind", null=False),
        string_field("from_id", "the later claim", null=False),
        string_field("to_id", "the earlier claim", null=False),
        pa.field(
            "weight",
            pa.float32(),
            nullable=False,
            metadata=mean("0 to 1: closeness; for a contradiction its probability"),
        ),
        string_field("reason", "the files or names that both claims have"),
        string_field("step_key", null=False),
    ),
)


CHECKS: "Table[rows.CheckRow]" = Table(
    name="checks",
    key="check_id",
    volatile=frozenset({"checked_at"}),
    fields=(
        string_field("check_id", "hash of the row and the thing that it names"),
        string_field(
            "row_id",
            "-> claims, or -> passages; for a tag the hash of its workspace",
            null=False,
        ),
        string_field("message_id", "the message of a passage; else null"),
        string_field(
            "workspace",
            "a project as the transcript has it; empty for a tag",
            null=False,
        ),
        string_field(
            "kind", "a CheckKind: the kind of thing that is named", null=False
        ),
        string_field("name", "its name in the text", null=False),
        string_field("value", "the version, value of a setting, or port in the text"),
        string_field("result", "a CheckResult: found, gone, differs", null=False),
        pa.field(
            "checked_at",
            UTC_US,
            nullable=False,
            metadata=mean("time of the check, UTC"),
        ),
        string_field("commit", "HEAD at the time of the check", null=False),
        string_field(
            "path",
            "file of the evidence, relative to the checkout's root; for a branch its reference",
        ),
        pa.field(
            "line", pa.int64(), metadata=mean("line of the evidence; null for a file")
        ),
        string_field("text", "that line, redacted"),
        string_field(
            "since_commit",
            "the first commit with this result; for a branch the last commit that it was seen at",
        ),
        pa.field(
            "since_at",
            UTC_US,
            metadata=mean(
                "that commit's time, UTC; for a tag the first check that found it, null for the first of its workspace"
            ),
        ),
        string_field("instead", "the thing that replaced it, redacted"),
        string_field("step_key", null=False),
    ),
)


BASE_TOPICS = ("self", "user", "system")

TOPICS: "Table[rows.TopicRow]" = Table(
    name="topics",
    key="topic_id",
    full_text="text",
    fields=(
        string_field("topic_id"),
        string_field("name", null=False),
        string_field("purpose", "the kind of claim that belongs here", null=False),
        pa.field("base", pa.bool_(), nullable=False),
        pa.field(
            "samples",
            STRINGS,
            nullable=False,
            metadata=mean("ids of the latest members"),
        ),
        string_field("text", "summary of the topic; null with fewer than three claims"),
        string_field(
            "workspace", "the project of all its claims; null if they have several"
        ),
        pa.field("first_at", UTC_US),
        pa.field("last_at", UTC_US),
        pa.field("size", pa.int64(), nullable=False),
        pa.field(
            "strength",
            pa.int64(),
            metadata=mean("sum, over its claims, of the sessions that state the claim"),
        ),
        pa.field(
            "sessions",
            pa.int64(),
            metadata=mean("number of sessions that state any of its claims"),
        ),
        pa.field(
            "uses",
            pa.int64(),
            metadata=mean(
                "recalls that had returned any of its claims, at the last update"
            ),
        ),
        vector_field("centroid"),  # mean of its claims, by `Limits.alpha`
        pa.field(
            "cohesion",
            pa.float32(),
            metadata=mean(
                "length of the centroid before normalising; 1 - cohesion is the spread"
            ),
        ),
        pa.field("share", pa.float64(), metadata=mean("its part of all claims")),
        pa.field(
            "overlap",
            pa.float64(),
            metadata=mean(
                "cosine to the nearest other topic of its project, or of everyday life"
            ),
        ),
        string_field("member_hash", "hash of its active claims"),
        string_field("step_key", null=False),
    ),
)

TOPIC_HISTORY: "Table[rows.TopicEventRow]" = Table(
    name="topic_history",
    key="event_id",
    fields=(
        string_field("event_id", "hash of the kind, both topics and the claims moved"),
        string_field("kind", "merge, split", null=False),
        string_field("topic_id", "the topic that was merged away or split", null=False),
        string_field("name", "its name at that time", null=False),
        string_field(
            "other_id",
            "the topic that it was merged into, or that was split off",
            null=False,
        ),
        string_field("other_name", null=False),
        pa.field(
            "claims", STRINGS, nullable=False, metadata=mean("the claims that moved")
        ),
        string_field("step_key", null=False),
    ),
)

SUMMARIES: "Table[rows.SummaryRow]" = Table(
    name="summaries",
    key="summary_id",
    full_text="text",
    fields=(
        string_field("summary_id", "hash of scope, scope_id, tier and member_hash"),
        string_field("scope", "a SummaryScope", null=False),
        string_field("scope_id", "topic_id or session_id", null=False),
        pa.field(
            "tier",
            pa.int64(),
            nullable=False,
            metadata=mean("0: over claims or messages; -1: a session's master"),
        ),
        pa.field(
            "seq",
            pa.int64(),
            nullable=False,
            metadata=mean("0, 1, … within the tier, in order of sealing"),
        ),
        string_field("title"),
        string_field("text", null=False),
        pa.field(
            "member_ids",
            STRINGS,
            nullable=False,
            metadata=mean("claims, messages, or summaries of the tier below"),
        ),
        string_field("member_hash", null=False),
        pa.field(
            "sealed",
            pa.bool_(),
            nullable=False,
            metadata=mean("true for a full group: it can lose members, but gains none"),
        ),
        pa.field("first_at", UTC_US),
        pa.field("last_at", UTC_US),
        string_field("workspace"),
        vector_field(),
        string_field("step_key", null=False),
        pa.field(
            "stale",
            pa.bool_(),
            metadata=mean(
                "true if the group lost or gained members since; the model writes it again"
            ),
        ),
        string_field(TRUST),
    ),
)


MARKS: "Table[rows.MarkRow]" = Table(
    name="marks",
    key="mark_id",
    fields=(
        string_field("mark_id", "hash of step and unit"),
        string_field("step", null=False),
        string_field(
            "unit_id", "a session_id; for the step `writer` 'memory'", null=False
        ),
        string_field(
            "input_key",
            "hash of the step's key and of the unit's content at that time",
            null=False,
        ),
        string_field("note", "why the unit has no output; null if it has"),
    ),
)


COMPLETIONS: "Table[rows.CompletionRow]" = Table(
    name="completions",
    key="completion_id",
    fields=(
        string_field(
            "completion_id",
            "hash of model, messages, schema, sampling and token budget",
        ),
        string_field(
            "request_id", "the step's own id of the first request", null=False
        ),
        string_field("model", null=False),
        string_field("engine", null=False),
        string_field(
            "text",
            "the generated text, also if an error was found in it",
            null=False,
        ),
        string_field(
            "error", "null, or a lasting error: the same request would fail again"
        ),
        string_field("reason", null=False),
        string_field("finish_reason", null=False),
        pa.field("prompt_tokens", pa.int64(), nullable=False),
        pa.field("completion_tokens", pa.int64(), nullable=False),
        pa.field(
            "prefix_tokens",
            pa.int64(),
            nullable=False,
            metadata=mean("prompt tokens found in the engine's prefix cache"),
        ),
        pa.field("flags", STRINGS, nullable=False),
        pa.field("created_at", UTC_US, nullable=False),
    ),
    volatile=frozenset({"created_at", "prefix_tokens"}),
)


QUARANTINE: "Table[rows.QuarantinedRow]" = Table(
    name="quarantine",
    key="quarantine_id",
    fields=(
        string_field("quarantine_id", "hash of step, place and reason"),
        string_field("step", "read, observe, …", null=False),
        string_field("path"),
        pa.field("line", pa.int64()),
        string_field("row_id", "the source row, if it was a row"),
        string_field("reason", null=False),
        string_field("excerpt", "the first 2,000 characters, redacted"),
        pa.field(
            "resolved",
            pa.bool_(),
            nullable=False,
            metadata=mean("true if a later reading found the input mended"),
        ),
    ),
)


EXCLUSIONS: "Table[rows.ExclusionRow]" = Table(
    name="exclusions",
    key="row_id",
    volatile=frozenset({"at"}),
    fields=(
        string_field(
            "row_id",
            "a session, message or claim that is not used until it is included again",
        ),
        string_field("kind", "session, message or claim", null=False),
        string_field("session_id", null=False),
        pa.field(
            "inactive",
            STRINGS,
            nullable=False,
            metadata=mean(
                "of a session: messages that its transcript had taken back; of a claim: those that state only it"
            ),
        ),
        string_field(
            "words",
            "of a claim: hash of its project and words; an equal claim stays out too",
        ),
        string_field("why", "a person's reason", null=False),
        pa.field("at", UTC_US, nullable=False),
    ),
)

FORGOTTEN: "Table[rows.ForgottenRow]" = Table(
    name="forgotten",
    key="forgotten_id",
    volatile=frozenset({"run_id", "at"}),
    fields=(
        string_field("forgotten_id", "hash of kind and row_id"),
        string_field("kind", "message, title (of a session), quarantine", null=False),
        string_field("row_id", null=False),
        string_field(
            "identity",
            "of a message: hash that all its versions share; none is read again",
        ),
        string_field(
            "why",
            "the kinds of selection that were given, never their words",
            null=False,
        ),
        string_field("run_id", null=False),
        pa.field("at", UTC_US, nullable=False),
    ),
)


RUNS: "Table[rows.RunRow]" = Table(
    name="runs",
    key="run_id",
    volatile=frozenset({"run_id", "started_at", "ended_at", "report"}),
    fields=(
        string_field("run_id"),
        string_field("kind", "nightly, reprocess, …", null=False),
        pa.field("started_at", UTC_US, nullable=False),
        pa.field("ended_at", UTC_US),
        string_field("status", "a RunStatus", null=False),
        string_field(
            "release_id",
            "the release that the run made; if that is held back, the live one",
        ),
        string_field(
            "report",
            "JSON: for each step rows in, rows out, seconds, counts, usage of models",
            null=False,
        ),
    ),
)

RELEASES: "Table[rows.ReleaseRow]" = Table(
    name="releases",
    key="release_id",
    volatile=frozenset({"release_id", "created_at", "run_id", "versions"}),
    fields=(
        string_field("release_id"),
        pa.field(
            "number",
            pa.int64(),
            nullable=False,
            metadata=mean("1, 2, 3…: the highest is live"),
        ),
        pa.field("created_at", UTC_US, nullable=False),
        string_field("run_id"),
        pa.field(
            "versions",
            pa.map_(pa.string(), pa.int64()),
            nullable=False,
            metadata=mean("table -> version"),
        ),
        pa.field(
            "counts",
            pa.map_(pa.string(), pa.int64()),
            nullable=False,
            metadata=mean("table -> rows"),
        ),
        string_field("encoder", "the model that made every vector"),
        string_field("restores", "the release that a roll-back returned to"),
        string_field(
            "calibration",
            "JSON: scores of known negatives in each table: the scale of relevance",
        ),
        string_field(
            "writer",
            "the writer of its claims, topics and summaries: 'rules' or a language model",
        ),
    ),
)


RELEASED: tuple[Table, ...] = (
    MESSAGES,
    SESSIONS,
    FILES,
    QUARANTINE,
    PASSAGES,
    BOILERPLATE,
    GISTS,
    PATTERNS,
    DEAD_ENDS,
    CLAIMS,
    MERGES,
    RELATIONS,
    CHECKS,
    TOPICS,
    TOPIC_HISTORY,
    SUMMARIES,
)
LEDGERS: tuple[Table, ...] = (
    MARKS,
    LINES,
    ACTIONS,
    COMPLETIONS,
    FORGOTTEN,
    EXCLUSIONS,
    RUNS,
    RELEASES,
)

TABLES: dict[str, Table] = {t.name: t for t in (*RELEASED, *LEDGERS)}
