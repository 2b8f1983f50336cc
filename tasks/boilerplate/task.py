"""Boilerplate over the vault: sessions that changed are hashed, spans counted over all, and what recurs is listed."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import BOILERPLATE, LINES, MESSAGES
from slowwave.schemas.vocabulary import SPOKEN
from slowwave.store.journal import load_recalled_spans
from slowwave.store.store import Store
from slowwave.tasks.boilerplate.echo import mask_echoes
from slowwave.tasks.boilerplate.masks import (
    VERSION,
    count_session_spans,
    find_recurring_spans,
    find_span_texts,
    format_span_id,
    mask_spans,
    restore_quote,
)
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import find_pending_sessions, group_sessions, mark_done
from slowwave.tasks.progress import show_progress

MESSAGES_AT_ONCE = 5_000
TEXT_COLUMNS = ["session_id", "message_id", "seq", "text"]


def compute_boilerplate_key(job: Job) -> str:
    """Return what a session's lines depend on besides its messages."""
    return compute_step_key("boilerplate", VERSION)


def find_boilerplate(job: Job) -> StepReport:
    """Hash the lines of sessions that are new or changed, and list the spans that recur over the vault."""
    with report_step("boilerplate") as report:
        key = compute_boilerplate_key(job)
        sessions = find_pending_sessions(job.store, "boilerplate", key)
        report.rows_in = sessions.height
        with show_progress("boilerplate", sessions.height) as advance:
            for group in group_sessions(sessions, MESSAGES_AT_ONCE):
                job.store.merge(LINES, _build_line_rows(job, group, key))
                mark_done(
                    job.store, "boilerplate", [(s, k, None) for s, k in group[["session_id", "input_key"]].rows()]
                )
                advance(group.height)
        report.rows_out = _update_boilerplate(job, key)
    return report


def _build_line_rows(job: Job, group: pl.DataFrame, key: str) -> pa.Table:
    gone = {message for ids in group["inactive"].to_list() for message in ids}
    spoken = _read_spoken_texts(job.store, group["session_id"].to_list(), gone)
    rows = []
    for sid in group["session_id"]:
        counts = count_session_spans(spoken.get(sid, []))
        held = sorted(counts)
        rows.append({"session_id": sid, "hashes": held, "counts": [counts[h] for h in held], "step_key": key})
    return pa.Table.from_pylist(rows, schema=LINES.schema)


def _read_spoken_texts(store: Store, ids: list[str], gone: Collection[str]) -> dict[str, list[str]]:
    """Return texts by session, in order of speech: people's and models' words that were not taken back."""
    said = pl.DataFrame(store.read_ids(MESSAGES, ids, [*TEXT_COLUMNS, "origin"], by="session_id"))
    said = said.filter(pl.col("origin").is_in(SPOKEN) & ~pl.col("message_id").is_in(sorted(gone)))
    return {str(k[0]): v["text"].to_list() for k, v in said.sort("seq").group_by(["session_id"], maintain_order=True)}


def _update_boilerplate(job: Job, key: str) -> int:
    """Make the table say what the lines say now; rows that stay the same are left alone."""
    lines = job.store.read(LINES, where=pc.field("step_key") == key).sort_by("session_id").to_pylist()
    often = find_recurring_spans([row["hashes"] for row in lines], job.settings.boilerplate.min_sessions)
    listed = compute_step_key("boilerplate", VERSION, job.settings.boilerplate)
    held = {r["span_id"]: r for r in job.store.read(BOILERPLATE).to_pylist()}
    times: Counter[int] = Counter()
    first: dict[int, str] = {}
    for row in lines:
        for number, count in zip(row["hashes"], row["counts"], strict=True):
            if number in often:
                times[number] += count
                first.setdefault(number, row["session_id"])
    texts = {n: held[format_span_id(n)]["text"] for n in often if format_span_id(n) in held}
    texts |= _read_span_texts(job, {n: sid for n, sid in first.items() if n not in texts})
    rows = [_build_boilerplate_row(n, texts[n], often[n], times[n], listed) for n in sorted(often)]
    job.store.delete_ids(BOILERPLATE, sorted(set(held) - {row["span_id"] for row in rows}))
    return job.store.merge_changed(BOILERPLATE, pa.Table.from_pylist(rows, schema=BOILERPLATE.schema))


def _build_boilerplate_row(number: int, text: str, sessions: int, count: int, key: str) -> dict[str, Any]:
    return {"span_id": format_span_id(number), "text": text, "sessions": sessions, "count": count, "step_key": key}


def _read_span_texts(job: Job, wanted: Mapping[int, str]) -> dict[int, str]:
    """Return how each new span reads in the session that is named beside it."""
    texts: dict[int, str] = {}
    for sid in sorted(set(wanted.values())):
        mine = {n for n, at in wanted.items() if at == sid}
        spoken = _read_spoken_texts(job.store, [sid], ())
        texts |= find_span_texts(spoken.get(sid, []), mine)
    return texts


class Mask:
    """What is masked before anything is distilled: boilerplate, and echoes of what recall handed out."""

    def __init__(self, job: Job) -> None:
        rows = job.store.read(BOILERPLATE, ["span_id"])["span_id"].to_pylist()
        self.known = {int.from_bytes(bytes.fromhex(one), signed=True) for one in rows}
        self._store = job.store
        self.recalled = load_recalled_spans(job.store.dir)
        self.echoes = 0
        """Sentences left out so far because they repeat what recall had handed out."""

    @cached_property
    def by_session(self) -> dict[str, str]:
        """Session -> hash of the spans masked in it; sessions without any are left out."""
        if not self.known:
            return {}
        known = np.array(sorted(self.known), dtype=np.int64)
        touched: dict[str, str] = {}
        for row in self._store.read(LINES, ["session_id", "hashes"]).to_pylist():
            mine = np.intersect1d(np.asarray(row["hashes"], dtype=np.int64), known)
            if mine.size:
                touched[row["session_id"]] = compute_content_id(*(format_span_id(int(n)) for n in mine))
        return touched

    def mask_text(self, text: str, said_at: datetime | None) -> str:
        """Return a message's text, of the same length, with what is masked blanked out."""
        kept, echoes = mask_echoes(mask_spans(text, self.known), said_at, self.recalled)
        self.echoes += echoes
        return kept

    def mask_messages(self, rows: pa.Table) -> pa.Table:
        """Return rows of MESSAGES (`text` and `ts` at least) with what is masked blanked out."""
        if not (self.known or self.recalled) or not rows.num_rows:
            return rows
        said = zip(rows["text"].to_pylist(), rows["ts"].to_pylist(), strict=True)
        texts = pa.array([self.mask_text(one, at) for one, at in said], pa.string())
        return rows.set_column(rows.schema.get_field_index("text"), rows.schema.field("text"), texts)


def restore_verbatim_quotes(claims: pa.Table, shown: pa.Table, stored: pa.Table) -> pa.Table:
    """Return claims made from masked messages with their quotes as the stored messages have them.

    A claim's quote is from the first of its messages.
    """
    texts = dict(zip(stored["message_id"].to_pylist(), stored["text"].to_pylist(), strict=True))
    blank = dict(zip(shown["message_id"].to_pylist(), shown["text"].to_pylist(), strict=True))
    quotes = [
        restore_quote(quote, blank[ids[0]], texts[ids[0]])
        for quote, ids in zip(claims["quote"].to_pylist(), claims["message_ids"].to_pylist(), strict=True)
    ]
    place = claims.schema.get_field_index("quote")
    return claims.set_column(place, claims.schema.field("quote"), pa.array(quotes, pa.string()))
