"""The hash chain of a Persistent Mind Model's ledger, by each recipe that its versions wrote.

A row names its predecessor's hash, and its own is SHA-256 over one of: the canonical JSON of kind, content, meta and
prev_hash; the same with id and ts; `prev_hash|kind|content|meta`; and, of rows that its memory manager wrote,
`ts|kind|content|id` with the event's own id or the table's, or the JSON of ts, kind, summary, id, tags, effects,
evidence and prev_hash. The manager hashes the time in UTC and the table keeps it in local time, at that moment or a
little later: each zone is tried, the one that fitted last first.

A row whose hash none of them gives breaks the chain, where another of its kind is borne out. Where none is, the recipe
is not known: then the links alone are checked, and that is said.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from slowwave.tasks.ingest.parsing.records import Rejected

QUARTERS = (0, *(sign * n for n in range(1, 57) for sign in (1, -1)))
"""Time zones as quarters of an hour off UTC, up to 14 hours."""
LATE = (0, 1, 2)
"""Seconds between a row's hash and its place in the table."""


class Event(NamedTuple):
    """A row of the ledger, as it is stored."""

    id: int
    ts: object
    kind: object
    content: object
    meta: object
    prev_hash: str | None
    hash: str | None
    long: str | None = None
    """Why content or meta was not read, where one is over the limit of a line."""
    summary: object = None
    keywords: object = None
    """What the mind itself made of it, where its table has these columns; no hash covers them."""


def parse_meta(event: Event) -> dict[str, object]:
    """Return a row's meta; an empty one where it is no JSON object."""
    try:
        meta = json.loads(str(event.meta)) if event.meta else {}
    except json.JSONDecodeError:
        return {}
    return meta if isinstance(meta, dict) else {}


class Chain:
    """The chain of one ledger, row by row."""

    def __init__(self) -> None:
        self.before: str | None = None
        self.zone = 0
        """Quarters of an hour between the table's times and the hashed ones, as they fitted last."""
        self.borne_out: set[object] = set()
        """Kinds of rows of which one's hash was recomputed."""
        self.unverified: list[tuple[int, object, str]] = []
        """Id, kind and hash of rows whose hash no recipe gives."""
        self.forged: list[int] = []
        """Rows that do not say what was written when their chain was made, once `judge_unverified` has told."""

    def check(self, event: Event) -> str | None:
        """Return why a row does not continue the chain; None where it does, or where `judge_unverified` will tell.

        Rows from before the ledger had hashes are no break.
        """
        before, self.before = self.before, event.hash or self.before
        if event.hash is None and event.prev_hash is None and before is None:
            return None
        if event.hash is None:
            self.forged.append(event.id)
            return "it has no hash"
        if event.long:
            pass  # of what was not read there is no hash
        elif event.hash in self._compute_hashes(event):
            self.borne_out.add(event.kind)
        else:
            self.unverified.append((event.id, event.kind, event.hash))
        if (event.prev_hash or None) != before:
            return f"prev_hash is {event.prev_hash}, the hash before it is {before}"
        return None

    def judge_unverified(self) -> Iterator[Rejected]:
        """Yield each row whose hash is not its content's, which is forged, and once a kind what could not be
        recomputed.
        """
        unknown: dict[object, list[int]] = {}
        for row, kind, digest in self.unverified:
            if kind in self.borne_out:
                self.forged.append(row)
                yield Rejected(row, f"the hash chain breaks at row {row}: hash is {digest}, its content gives another")
            else:
                unknown.setdefault(kind, []).append(row)
        for kind, rows in unknown.items():
            yield Rejected(
                rows[0],
                f"hashes of {len(rows)} rows of kind {kind!r:.60} from row {rows[0]} on: no known recipe gives them, "
                "only their links are checked",
            )

    def _compute_hashes(self, event: Event) -> Iterator[str]:
        """Yield what the row's hash is under each recipe."""
        meta = parse_meta(event)
        said = {"kind": event.kind, "content": event.content, "meta": meta, "prev_hash": event.prev_hash}
        try:
            for payload in (said, {"id": event.id, "ts": event.ts, **said}):
                yield _compute_sha256(json.dumps(payload, sort_keys=True, separators=(",", ":")))
        except TypeError:
            return  # a column holds bytes: no recipe gives a hash for that
        yield _compute_sha256(f"{event.prev_hash or ''}|{event.kind}|{event.content}|{event.meta}")
        ids = [own for own in (meta.get("event_id") or meta.get("id"), event.id) if own is not None]
        rest = {key: meta.get(key) or [] for key in ("tags", "effects")}
        for zone, ts in self._iter_times(event.ts):
            texts = [f"{ts}|{event.kind}|{event.content}|{own}" for own in ids]
            payload = {"ts": ts, "kind": event.kind, "summary": event.content, "id": ids[0], **rest}
            payload |= {"evidence": meta.get("evidence"), "prev_hash": event.prev_hash}
            for text in (*texts, json.dumps(payload, sort_keys=True, ensure_ascii=False)):
                if (digest := _compute_sha256(text)) == event.hash:
                    self.zone = zone
                yield digest

    def _iter_times(self, stored: object) -> Iterator[tuple[int, str]]:
        """Yield what a row's time may have been when it was hashed, in UTC, with the zone that makes it so."""
        yield self.zone, str(stored)
        try:
            at = datetime.fromisoformat(str(stored)).replace(tzinfo=None)
        except ValueError:
            return
        for zone in dict.fromkeys((self.zone, *QUARTERS)):
            for late in LATE:
                yield zone, f"{at - timedelta(minutes=15 * zone, seconds=late):%Y-%m-%dT%H:%M:%SZ}"


def _compute_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
