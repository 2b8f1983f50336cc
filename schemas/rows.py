"""The rows of every table as Python has them, a type for each table.

Written by `python docs/rows.py > schemas/rows.py`. A row may lack columns that were not read. A column that the schema
allows to be null is `| None`.
"""

from datetime import datetime
from typing import TypedDict


class MessageRowBlocks(TypedDict, total=False):
    """An item of MessageRowBlocks."""

    type: str
    text: str | None
    name: str | None
    call_id: str | None
    is_error: bool | None
    media: str | None


class MessageRow(TypedDict, total=False):
    """A row of messages."""

    message_id: str
    session_id: str
    seq: int
    native_id: str
    parent_id: str | None
    role: str
    origin: str
    speaker: str | None
    blocks: list[MessageRowBlocks]
    text: str
    ts: datetime | None
    utc_offset: int | None
    workspace: str | None
    source: str
    tokens: int
    identity: str
    prev_hash: str
    hash: str


class SessionRow(TypedDict, total=False):
    """A row of sessions."""

    session_id: str
    native_id: str
    source: str
    path: str
    workspace: str | None
    title: str | None
    kind: str
    parent_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    utc_offset: int | None
    messages: int
    tokens: int
    inactive: list[str]
    head_hash: str


class FileRow(TypedDict, total=False):
    """A row of files."""

    path: str
    source: str | None
    size: int
    mtime_ns: int
    digest: str
    read_key: str
    sessions: int
    messages: int
    quarantined: int
    redacted: int
    skipped: list[tuple[str, int]] | None


class QuarantinedRow(TypedDict, total=False):
    """A row of quarantine."""

    quarantine_id: str
    step: str
    path: str | None
    line: int | None
    row_id: str | None
    reason: str
    excerpt: str | None
    resolved: bool


class PassageRow(TypedDict, total=False):
    """A row of passages."""

    passage_id: str
    message_id: str
    session_id: str
    seq: int
    part: int
    role: str
    speaker: str | None
    text: str
    ts: datetime | None
    workspace: str | None
    vector: list[float] | None
    step_key: str
    chain_id: str | None
    chain_at: datetime | None
    chain_likely: float | None
    trust: str | None


class BoilerplateRow(TypedDict, total=False):
    """A row of boilerplate."""

    span_id: str
    text: str
    sessions: int
    kept: list[str]
    step_key: str


class GistRow(TypedDict, total=False):
    """A row of gists."""

    message_id: str
    session_id: str
    summary: str
    keywords: list[str]
    strategy: str
    step_key: str


class PatternRow(TypedDict, total=False):
    """A row of patterns."""

    pattern_id: str
    kind: str
    workspace: str
    items: list[str]
    line: str | None
    role: str | None
    support: int
    turns: list[int]
    times: int
    sessions: int
    share: float | None
    lift: float | None
    first_at: datetime | None
    last_at: datetime | None
    examples: list[str]
    step_key: str


class DeadEndRow(TypedDict, total=False):
    """A row of dead_ends."""

    dead_end_id: str
    session_id: str
    workspace: str | None
    kind: str
    path: str | None
    attempt: str
    words: list[str]
    attempt_id: str
    failure_id: str
    error: str
    by_person: bool
    instead: str | None
    instead_id: str | None
    at: datetime | None
    worked_in: str | None
    step_key: str


class ClaimRow(TypedDict, total=False):
    """A row of claims."""

    claim_id: str
    session_id: str
    workspace: str | None
    summary: str
    detail: str | None
    category: str
    pack: str
    files: list[str]
    quote: str
    message_ids: list[str]
    speaker: str | None
    confidence: float
    observed_at: datetime | None
    utc_offset: int | None
    observer: str
    reusable: bool | None
    non_trivial: bool | None
    specific: bool | None
    verified: bool | None
    gate_reasons: list[str] | None
    keywords: list[str]
    stems: list[str] | None
    vector: list[float] | None
    step_key: str
    status: str
    reason: str | None
    canonical_id: str | None
    superseded_by: str | None
    valid_from: datetime | None
    valid_to: datetime | None
    evidence_sessions: list[str]
    dedupe_key: str | None
    supersede_key: str | None
    topic_id: str | None
    assign_key: str | None
    chain_id: str | None
    chain_at: datetime | None
    chain_likely: float | None
    trust: str | None


class MergeRow(TypedDict, total=False):
    """A row of merges."""

    merge_id: str
    kind: str
    from_id: str
    into_id: str
    rule: str
    scores: list[tuple[str, float]] | None
    reason: str | None
    undone: bool
    step_key: str


class RelationRow(TypedDict, total=False):
    """A row of relations."""

    relation_id: str
    kind: str
    from_id: str
    to_id: str
    weight: float
    reason: str | None
    step_key: str


class CheckRow(TypedDict, total=False):
    """A row of checks."""

    check_id: str
    row_id: str
    message_id: str | None
    workspace: str
    kind: str
    name: str
    value: str | None
    result: str
    checked_at: datetime
    commit: str
    path: str | None
    line: int | None
    text: str | None
    since_commit: str | None
    since_at: datetime | None
    instead: str | None
    step_key: str


class TopicRow(TypedDict, total=False):
    """A row of topics."""

    topic_id: str
    name: str
    purpose: str
    base: bool
    samples: list[str]
    text: str | None
    workspace: str | None
    first_at: datetime | None
    last_at: datetime | None
    size: int
    strength: int | None
    sessions: int | None
    uses: int | None
    centroid: list[float] | None
    cohesion: float | None
    share: float | None
    overlap: float | None
    member_hash: str | None
    step_key: str


class TopicEventRow(TypedDict, total=False):
    """A row of topic_history."""

    event_id: str
    kind: str
    topic_id: str
    name: str
    other_id: str
    other_name: str
    claims: list[str]
    step_key: str


class SummaryRow(TypedDict, total=False):
    """A row of summaries."""

    summary_id: str
    scope: str
    scope_id: str
    tier: int
    seq: int
    title: str | None
    text: str
    member_ids: list[str]
    member_hash: str
    sealed: bool
    first_at: datetime | None
    last_at: datetime | None
    workspace: str | None
    vector: list[float] | None
    step_key: str
    stale: bool | None
    trust: str | None


class MarkRow(TypedDict, total=False):
    """A row of marks."""

    mark_id: str
    step: str
    unit_id: str
    input_key: str
    note: str | None


class LineRow(TypedDict, total=False):
    """A row of lines."""

    session_id: str
    hashes: list[int]
    typed: list[int]
    step_key: str


class ActionRow(TypedDict, total=False):
    """A row of actions."""

    action_id: str
    message_id: str
    session_id: str
    workspace: str | None
    turn: int
    seq: int
    part: int
    at: datetime | None
    kind: str
    tool: str
    path: str | None
    command: str | None
    line: str | None
    role: str | None
    ok: bool | None
    step_key: str


class CompletionRow(TypedDict, total=False):
    """A row of completions."""

    completion_id: str
    request_id: str
    model: str
    engine: str
    text: str
    error: str | None
    reason: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    prefix_tokens: int
    flags: list[str]
    created_at: datetime


class ForgottenRow(TypedDict, total=False):
    """A row of forgotten."""

    forgotten_id: str
    kind: str
    row_id: str
    identity: str | None
    why: str
    run_id: str
    at: datetime


class ExclusionRow(TypedDict, total=False):
    """A row of exclusions."""

    row_id: str
    kind: str
    session_id: str
    inactive: list[str]
    words: str | None
    why: str
    at: datetime


class RunRow(TypedDict, total=False):
    """A row of runs."""

    run_id: str
    kind: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    release_id: str | None
    report: str


class ReleaseRow(TypedDict, total=False):
    """A row of releases."""

    release_id: str
    number: int
    created_at: datetime
    run_id: str | None
    versions: list[tuple[str, int]]
    counts: list[tuple[str, int]]
    encoder: str | None
    restores: str | None
    calibration: str | None
    writer: str | None
