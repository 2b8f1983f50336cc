"""Find boilerplate: hash changed sessions, count spans over all, and list those that recur."""

from collections import defaultdict
from collections.abc import Collection, KeysView, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ClaimRow, LineRow
from slowwave.schemas.tables import (
    BOILERPLATE,
    CLAIMS,
    LINES,
    MARKS,
    MESSAGES,
    SESSIONS,
)
from slowwave.schemas.vocabulary import SPOKEN, Origin, Status
from slowwave.store.logs import load_recalled_spans
from slowwave.store.store import Store
from slowwave.tasks.boilerplate.echo import mask_echoes
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import find_pending_sessions, mark_done, split_batches
from slowwave.tasks.progress import show_progress
from slowwave.text.spans import (
    MIN_SESSIONS,
    VERSION,
    find_recurring_spans,
    find_repeating_sessions,
    find_span_texts,
    format_span_id,
    hash_session_spans,
    mask_spans,
    parse_span_id,
    restore_quote,
)

TEXT_COLUMNS = ["session_id", "message_id", "seq", "text"]
REPEATS = "repeats"
"""The name under which sessions are marked whose claims have the evidence of other sessions."""
REPEATABLE = ["session_id", "claim_id", "canonical_id", "message_ids", "quote"]
CURRENT = pc.field("status").isin([Status.ACTIVE, Status.DUPLICATE])
"""Columns and condition of the claims that other sessions may repeat."""


def find_boilerplate(job: Job) -> StepReport:
    """Hash the lines of new and changed sessions, and list the spans that recur in the vault."""
    with report_step("boilerplate") as report:
        key = compute_step_key("boilerplate", VERSION)
        sessions = find_pending_sessions(job.store, "boilerplate", key)
        report.rows_in = sessions.height
        with show_progress("boilerplate", sessions.height) as advance:
            for group in split_batches(sessions, 5_000):
                job.store.merge(LINES, _build_line_rows(job, group, key))
                marks = [
                    (session, done, None)
                    for session, done in group[["session_id", "input_key"]].rows()
                ]
                mark_done(job.store, "boilerplate", marks)
                advance(group.height)
        report.rows_out = _update_boilerplate(job, key)
    return report


def _build_line_rows(job: Job, group: pl.DataFrame, key: str) -> pa.Table:
    gone = {message for ids in group["inactive"].to_list() for message in ids}
    spoken = _read_spoken_texts(job.store, group["session_id"].to_list(), gone)
    rows = []
    for sid in group["session_id"]:
        by_origin = {
            origin: [text for by, text in spoken.get(sid, []) if by == origin]
            for origin in SPOKEN
        }
        spans = {o: hash_session_spans(texts) for o, texts in by_origin.items()}
        typed = sorted(spans[Origin.HUMAN])
        every = sorted(set().union(*spans.values()))
        rows.append(
            {"session_id": sid, "hashes": every, "typed": typed, "step_key": key}
        )
    return pa.Table.from_pylist(rows, schema=LINES.schema)


def _read_spoken_texts(
    store: Store, ids: list[str], gone: Collection[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return (origin, text) of active messages by people and models, by session, in order."""
    messages = pl.DataFrame(
        store.read_ids(MESSAGES, ids, [*TEXT_COLUMNS, "origin"], by="session_id")
    )
    messages = messages.filter(
        pl.col("origin").is_in(SPOKEN) & ~pl.col("message_id").is_in(sorted(gone))
    ).sort("seq")
    groups = messages.group_by(["session_id"], maintain_order=True)
    return {str(key[0]): rows.select("origin", "text").rows() for key, rows in groups}


def _update_boilerplate(job: Job, key: str) -> int:
    """Update BOILERPLATE from LINES; return the number of rows written."""
    begun = pl.DataFrame(job.store.read(SESSIONS, ["session_id", "started_at"]))
    line_rows = pl.DataFrame(
        job.store.read(LINES, where=pc.field("step_key") == key)
    ).join(begun, on="session_id")
    in_order = line_rows.sort("started_at", "session_id", nulls_last=True)
    lines = cast("list[LineRow]", in_order.to_dicts())
    counts = find_recurring_spans([row["hashes"] for row in lines])
    holders, typed = _find_holders(lines, counts.keys())
    stored = {r["span_id"]: r for r in job.store.read(BOILERPLATE).to_pylist()}
    texts = {
        n: stored[format_span_id(n)]["text"]
        for n in counts
        if format_span_id(n) in stored
    }
    texts |= _read_span_texts(
        job, {n: sessions[0] for n, sessions in holders.items() if n not in texts}
    )
    # Keep as many sessions as may have a span that is not masked, so that claims made from them stay.
    max_kept = MIN_SESSIONS - 1
    rows = [
        {
            "span_id": format_span_id(number),
            "text": texts[number],
            "sessions": counts[number],
            "kept": holders[number][:max_kept] if number in typed else [],
            "step_key": key,
        }
        for number in sorted(counts)
    ]
    job.store.delete_ids(
        BOILERPLATE, sorted(set(stored) - {row["span_id"] for row in rows})
    )
    return job.store.merge_changed(
        BOILERPLATE, pa.Table.from_pylist(rows, schema=BOILERPLATE.schema)
    )


def _find_holders(
    lines: Sequence[LineRow], spans: KeysView[int]
) -> tuple[dict[int, list[str]], set[int]]:
    """Return the sessions that contain each span, in order of `lines`, and the spans that a person typed."""
    holders: dict[int, list[str]] = {number: [] for number in spans}
    typed: set[int] = set()
    for row in lines:
        typed |= spans & row["typed"]
        for number in spans & row["hashes"]:
            holders[number].append(row["session_id"])
    return holders, typed


def _read_span_texts(job: Job, sessions: Mapping[int, str]) -> dict[int, str]:
    """Return the text of each new span, read from the session given for it."""
    texts: dict[int, str] = {}
    for sid in sorted(set(sessions.values())):
        hashes = {n for n, at in sessions.items() if at == sid}
        spoken = [
            text for _, text in _read_spoken_texts(job.store, [sid], ()).get(sid, [])
        ]
        texts |= find_span_texts(spoken, hashes)
    return texts


def add_repeating_sessions(job: Job) -> int:
    """Add sessions in which a person typed a masked copy as evidence of the claims made from the first copies.

    A session that keeps copies is looked at again only if its claims, their evidence or the other holders of its spans
    have changed. Returns the number of claims that gained evidence.
    """
    store = job.store
    kept = {
        parse_span_id(r["span_id"]): r["kept"]
        for r in store.read(BOILERPLATE).to_pylist()
        if r["kept"]
    }
    sessions = {session for sessions in kept.values() for session in sessions}
    if not sessions:
        return 0
    holders = _find_other_holders(store, kept)
    claims = store.read_ids(
        table=CLAIMS, ids=sessions, columns=REPEATABLE, by="session_id", where=CURRENT
    )
    held = _describe_held(store, sessions, holders)
    marks = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == REPEATS)
    done = {row["unit_id"]: row["input_key"] for row in marks.to_pylist()}
    keys = _compute_repeat_keys(store, claims, held)
    pending = sorted(name for name, key in keys.items() if done.get(name) != key)
    if not pending:
        return 0
    here = claims.filter(pc.is_in(claims["session_id"], pa.array(pending)))
    gained = _add_evidence(store, _find_repeats(store, here.to_pylist(), holders))
    keys = _compute_repeat_keys(store, claims, held)
    changed = [name for name, key in keys.items() if done.get(name) != key]
    mark_done(store, REPEATS, [(name, keys[name], None) for name in changed])
    return gained


def _add_evidence(store: Store, repeats: Mapping[str, set[str]]) -> int:
    """Add sessions to the evidence of claims; return the number of claims that gained some."""
    stored = store.read_ids(CLAIMS, repeats, ["claim_id", "evidence_sessions"])
    rows = []
    for row in stored.to_pylist():
        evidence = {*row["evidence_sessions"], *repeats[row["claim_id"]]}
        if evidence != {*row["evidence_sessions"]}:
            rows.append({**row, "evidence_sessions": sorted(evidence)})
    return store.update(CLAIMS, pa.Table.from_pylist(rows, schema=stored.schema))


def _describe_held(
    store: Store,
    sessions: Set[str],
    holders: Mapping[int, set[str]],
) -> dict[str, str]:
    """Return by session a hash of its spans that other sessions hold, and of these sessions; none without such."""
    known = {
        number: compute_content_id(format_span_id(number), *sorted(of))
        for number, of in holders.items()
        if of
    }
    lines = store.read_ids(
        table=LINES, ids=sessions, columns=["session_id", "hashes"], by="session_id"
    )
    return {
        row["session_id"]: compute_content_id(*sorted(known[n] for n in spans))
        for row in lines.to_pylist()
        if (spans := known.keys() & row["hashes"])
    }


def _compute_repeat_keys(
    store: Store,
    claims: pa.Table,
    held: Mapping[str, str],
) -> dict[str, str]:
    """Return by session the key of all that decides which evidence its claims gain, and of what they have."""
    rows = pl.DataFrame(claims.select(["session_id", "claim_id", "canonical_id"]))
    rows = rows.filter(pl.col("session_id").is_in([*held])).with_columns(
        canonical=pl.coalesce("canonical_id", "claim_id")
    )
    ids = rows["canonical"].unique().to_list()
    found = store.read_ids(CLAIMS, ids, ["claim_id", "evidence_sessions"]).to_pylist()
    evidence = {row["claim_id"]: sorted(row["evidence_sessions"]) for row in found}
    parts: dict[str, list[str]] = {session: [] for session in held}
    ordered = rows.select("session_id", "claim_id", "canonical").sort("claim_id")
    for session, claim, canonical in ordered.iter_rows():
        has = evidence.get(canonical, [])
        parts[session].append(compute_content_id(claim, canonical, *has))
    return {
        session: compute_content_id(REPEATS, str(VERSION), held[session], *of)
        for session, of in parts.items()
    }


def _find_other_holders(
    store: Store, kept: Mapping[int, list[str]]
) -> dict[int, set[str]]:
    """Return by span the sessions in which a person typed it, except those that keep it."""
    holders: dict[int, set[str]] = {number: set() for number in kept}
    for line in store.read(LINES, ["session_id", "typed"]).to_pylist() if kept else ():
        for number in kept.keys() & line["typed"]:
            holders[number] |= {line["session_id"]} - set(kept[number])
    return holders


def _find_repeats(
    store: Store,
    claims: Sequence[ClaimRow],
    holders: Mapping[int, set[str]],
) -> dict[str, set[str]]:
    """Return the canonical claims of some claims that other sessions repeat, with these sessions."""
    messages = store.read_ids(
        MESSAGES, [claim["message_ids"][0] for claim in claims], ["message_id", "text"]
    )
    texts = {row["message_id"]: row["text"] for row in messages.to_pylist()}
    repeats: defaultdict[str, set[str]] = defaultdict(set)
    for claim in sorted(claims, key=lambda claim: claim["message_ids"][0]):
        found = find_repeating_sessions(
            claim["quote"], texts[claim["message_ids"][0]], holders
        )
        repeats[claim["canonical_id"] or claim["claim_id"]] |= found
    return {claim: found for claim, found in repeats.items() if found}


class Mask:
    """Masks text before it is distilled: boilerplate, and echoes of text that recall returned."""

    def __init__(self, job: Job) -> None:
        self.known: set[int] = set()
        self._kept: defaultdict[str, set[int]] = defaultdict(set)
        for row in job.store.read(BOILERPLATE, ["span_id", "kept"]).to_pylist():
            self.known.add(number := parse_span_id(row["span_id"]))
            for sid in row["kept"]:
                self._kept[sid].add(number)
        self._store = job.store
        self.recalled = load_recalled_spans(job.store.dir)
        self.echoes = 0
        """Number of sentences masked so far because they repeat text that recall had returned."""

    @cached_property
    def by_session(self) -> dict[str, str]:
        """Session -> hash of the spans masked in it; sessions without masked spans are omitted."""
        if not self.known:
            return {}
        touched: dict[str, str] = {}
        for row in self._store.read(LINES, ["session_id", "hashes"]).to_pylist():
            if spans := sorted(
                self.find_masked_spans(row["session_id"]).intersection(row["hashes"])
            ):
                touched[row["session_id"]] = compute_content_id(
                    *map(format_span_id, spans)
                )
        return touched

    def find_masked_spans(self, session_id: str) -> set[int]:
        """Return the spans that are masked in a session: those that recur, except those that it keeps."""
        return (
            self.known - self._kept[session_id]
            if session_id in self._kept
            else self.known
        )

    def mask_text(
        self,
        session_id: str,
        text: str,
        said_at: datetime | None,
    ) -> str:
        """Return a message's text with masked parts blank, at the same length."""
        spoken = mask_spans(text, self.find_masked_spans(session_id))
        masked, echoes = mask_echoes(spoken, said_at, self.recalled)
        self.echoes += echoes
        return masked

    def mask_messages(self, rows: pa.Table) -> pa.Table:
        """Return rows of MESSAGES (`session_id`, `text` and `ts` at least) with masked parts of the text blank."""
        if not (self.known or self.recalled) or not rows.num_rows:
            return rows
        columns = (rows[name].to_pylist() for name in ("session_id", "text", "ts"))
        texts = pa.array(list(map(self.mask_text, *columns)), pa.string())
        return rows.set_column(
            rows.schema.get_field_index("text"), rows.schema.field("text"), texts
        )


def restore_verbatim_quotes(
    claims: pa.Table, shown: pa.Table, stored: pa.Table
) -> pa.Table:
    """Return claims made from masked messages with their quotes as in the stored messages.

    A claim's quote is from its first message.
    """
    texts = dict(
        zip(stored["message_id"].to_pylist(), stored["text"].to_pylist(), strict=True)
    )
    blank = dict(
        zip(shown["message_id"].to_pylist(), shown["text"].to_pylist(), strict=True)
    )
    quotes = [
        restore_quote(quote, blank[ids[0]], texts[ids[0]])
        for quote, ids in zip(
            claims["quote"].to_pylist(), claims["message_ids"].to_pylist(), strict=True
        )
    ]
    column = claims.schema.get_field_index("quote")
    return claims.set_column(
        column, claims.schema.field("quote"), pa.array(quotes, pa.string())
    )


def find_masked_claims(claims: pa.Table, shown: pa.Table, stored: pa.Table) -> set[str]:
    """Return ids of claims whose quote is in the stored message but not in the masked one."""
    texts, blank = (
        dict(zip(t["message_id"].to_pylist(), t["text"].to_pylist(), strict=True))
        for t in (stored, shown)
    )
    return {
        row["claim_id"]
        for row in claims.to_pylist()
        if row["quote"] in texts.get(mid := row["message_ids"][0], "")
        and row["quote"] not in blank.get(mid, row["quote"])
    }
