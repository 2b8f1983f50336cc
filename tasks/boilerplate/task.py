"""Boilerplate over the vault: sessions that changed are hashed, spans counted over all, and what recurs is listed."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import BOILERPLATE, LINES, MESSAGES, OBSERVATIONS, SESSIONS
from slowwave.schemas.vocabulary import SPOKEN, Origin, Status
from slowwave.store.journal import load_recalled_spans
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


def find_boilerplate(job: Job) -> StepReport:
    """Hash the lines of sessions that are new or changed, and list the spans that recur over the vault."""
    with report_step("boilerplate") as report:
        key = compute_step_key("boilerplate", VERSION)
        sessions = find_pending_sessions(job.store, "boilerplate", key)
        report.rows_in = sessions.height
        with show_progress("boilerplate", sessions.height) as advance:
            for group in split_batches(sessions, 5_000):
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
        by_origin = {origin: [text for by, text in spoken.get(sid, []) if by == origin] for origin in SPOKEN}
        spans = {o: hash_session_spans(texts) for o, texts in by_origin.items()}
        typed, every = sorted(spans[Origin.HUMAN]), sorted(set().union(*spans.values()))
        rows.append({"session_id": sid, "hashes": every, "typed": typed, "step_key": key})
    return pa.Table.from_pylist(rows, schema=LINES.schema)


def _read_spoken_texts(store: Store, ids: list[str], gone: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (origin, text) by session, in order of speech: people's and models' words that were not taken back."""
    messages = pl.DataFrame(store.read_ids(MESSAGES, ids, [*TEXT_COLUMNS, "origin"], by="session_id"))
    messages = messages.filter(pl.col("origin").is_in(SPOKEN) & ~pl.col("message_id").is_in(sorted(gone))).sort("seq")
    groups = messages.group_by(["session_id"], maintain_order=True)
    return {str(key[0]): rows.select("origin", "text").rows() for key, rows in groups}


def _update_boilerplate(job: Job, key: str) -> int:
    """Make the table say what the lines say now; rows that stay the same are left alone."""
    begun = pl.DataFrame(job.store.read(SESSIONS, ["session_id", "started_at"]))
    line_rows = pl.DataFrame(job.store.read(LINES, where=pc.field("step_key") == key)).join(begun, on="session_id")
    lines = line_rows.sort("started_at", "session_id", nulls_last=True).to_dicts()
    often = find_recurring_spans([row["hashes"] for row in lines])
    stored = {r["span_id"]: r for r in job.store.read(BOILERPLATE).to_pylist()}
    holders: dict[int, list[str]] = {number: [] for number in often}
    typed: set[int] = set()
    for row in lines:
        typed |= often.keys() & row["typed"]
        for number in often.keys() & row["hashes"]:
            holders[number].append(row["session_id"])
    texts = {n: stored[format_span_id(n)]["text"] for n in often if format_span_id(n) in stored}
    texts |= _read_span_texts(job, {n: sids[0] for n, sids in holders.items() if n not in texts})
    # Kept are as many sessions as held it before it recurred: no claim that was made of it has to go.
    max_kept = MIN_SESSIONS - 1
    rows = [
        {
            "span_id": format_span_id(number),
            "text": texts[number],
            "sessions": often[number],
            "kept": holders[number][:max_kept] if number in typed else [],
            "step_key": key,
        }
        for number in sorted(often)
    ]
    job.store.delete_ids(BOILERPLATE, sorted(set(stored) - {row["span_id"] for row in rows}))
    return job.store.merge_changed(BOILERPLATE, pa.Table.from_pylist(rows, schema=BOILERPLATE.schema))


def _read_span_texts(job: Job, sessions: Mapping[int, str]) -> dict[int, str]:
    """Return how each new span reads in the session that is named beside it."""
    texts: dict[int, str] = {}
    for sid in sorted(set(sessions.values())):
        hashes = {n for n, at in sessions.items() if at == sid}
        spoken = [text for _, text in _read_spoken_texts(job.store, [sid], ()).get(sid, [])]
        texts |= find_span_texts(spoken, hashes)
    return texts


def add_repeating_sessions(job: Job) -> int:
    """Count the sessions in which a person typed a masked copy as evidence of the claims made of the first ones.

    Returns how many claims gained evidence.
    """
    spans = {parse_span_id(r["span_id"]): r["kept"] for r in job.store.read(BOILERPLATE).to_pylist() if r["kept"]}
    holders: dict[int, set[str]] = {number: set() for number in spans}
    for line in job.store.read(LINES, ["session_id", "typed"]).to_pylist() if spans else ():
        for number in spans.keys() & line["typed"]:
            holders[number] |= {line["session_id"]} - set(spans[number])
    sessions, stand = {sid for sids in spans.values() for sid in sids}, [Status.ACTIVE, Status.DUPLICATE]
    columns = ["observation_id", "canonical_id", "message_ids", "quote"]
    claims = job.store.read_ids(OBSERVATIONS, sessions, columns, "session_id", pc.field("status").isin(stand))
    first = {row["observation_id"]: row["message_ids"][0] for row in claims.to_pylist()}
    messages = job.store.read_ids(MESSAGES, first.values(), ["message_id", "text"])
    texts = {row["message_id"]: row["text"] for row in messages.to_pylist()}
    # their canonical rows gain the other sessions as evidence
    more: defaultdict[str, set[str]] = defaultdict(set)
    for row in sorted(claims.to_pylist(), key=lambda claim: first[claim["observation_id"]]):
        repeats = find_repeating_sessions(row["quote"], texts[first[row["observation_id"]]], holders)
        more[row["canonical_id"] or row["observation_id"]] |= repeats
    repeated = [key for key, repeats in more.items() if repeats]
    stored = job.store.read_ids(OBSERVATIONS, repeated, ["observation_id", "evidence_sessions"])
    rows = [
        {**row, "evidence_sessions": sorted({*row["evidence_sessions"], *more[row["observation_id"]]})}
        for row in stored.to_pylist()
        if not more[row["observation_id"]] <= {*row["evidence_sessions"]}
    ]
    return job.store.update(OBSERVATIONS, pa.Table.from_pylist(rows, schema=stored.schema))


class Mask:
    """What is masked before anything is distilled: boilerplate, and echoes of what recall handed out."""

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
        """Sentences left out so far because they repeat what recall had handed out."""

    @cached_property
    def by_session(self) -> dict[str, str]:
        """Session -> hash of the spans masked in it; sessions without any are left out."""
        if not self.known:
            return {}
        touched: dict[str, str] = {}
        for row in self._store.read(LINES, ["session_id", "hashes"]).to_pylist():
            if spans := sorted(self.find_masked_spans(row["session_id"]).intersection(row["hashes"])):
                touched[row["session_id"]] = compute_content_id(*map(format_span_id, spans))
        return touched

    def find_masked_spans(self, session_id: str) -> set[int]:
        """Return the spans that are masked in a session: those that recur, but for those that it keeps."""
        return self.known - self._kept[session_id] if session_id in self._kept else self.known

    def mask_text(self, session_id: str, text: str, said_at: datetime | None) -> str:
        """Return a message's text, of the same length, with what is masked blanked out."""
        spoken = mask_spans(text, self.find_masked_spans(session_id))
        masked, echoes = mask_echoes(spoken, said_at, self.recalled)
        self.echoes += echoes
        return masked

    def mask_messages(self, rows: pa.Table) -> pa.Table:
        """Return rows of MESSAGES (`session_id`, `text` and `ts` at least) with what is masked blanked out."""
        if not (self.known or self.recalled) or not rows.num_rows:
            return rows
        columns = (rows[name].to_pylist() for name in ("session_id", "text", "ts"))
        texts = pa.array(list(map(self.mask_text, *columns)), pa.string())
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
    column = claims.schema.get_field_index("quote")
    return claims.set_column(column, claims.schema.field("quote"), pa.array(quotes, pa.string()))


def find_masked_claims(claims: pa.Table, shown: pa.Table, stored: pa.Table) -> set[str]:
    """Return ids of the claims whose quotes the stored messages have, and the masked ones no longer."""
    texts, blank = (dict(zip(t["message_id"].to_pylist(), t["text"].to_pylist(), strict=True)) for t in (stored, shown))
    return {
        row["observation_id"]
        for row in claims.to_pylist()
        if row["quote"] in texts.get(mid := row["message_ids"][0], "")
        and row["quote"] not in blank.get(mid, row["quote"])
    }
