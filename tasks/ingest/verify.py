"""Is the vault what it was? Every session's chain, computed again."""

from dataclasses import dataclass

import polars as pl

from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.store.releases import read_releases
from slowwave.store.store import Store
from slowwave.tasks.forget.ledger import read_forgotten_links
from slowwave.tasks.ingest.vault import find_first_break
from slowwave.tasks.progress import show_progress

SESSIONS_AT_ONCE = 50


@dataclass
class VerifyStats:
    """How much was looked at."""

    messages: int = 0
    sessions: int = 0


def find_broken_chains(store: Store) -> tuple[VerifyStats, list[str]]:
    """Return how much was checked, and one sentence for the first broken row of each session that has one."""
    sessions = store.read(SESSIONS, ["session_id", "native_id", "head_hash"]).to_pylist()
    heads = {row["session_id"]: row for row in sessions}
    counted = pl.DataFrame(store.read(MESSAGES, ["session_id"]))["session_id"].unique().sort().to_list()
    ids = sorted({*heads, *counted})
    forgotten = read_forgotten_links(store)
    checked, broken = VerifyStats(sessions=len(ids)), []
    with show_progress("verify", len(ids)) as advance:
        for start in range(0, len(ids), SESSIONS_AT_ONCE):
            chunk = ids[start : start + SESSIONS_AT_ONCE]
            rows = store.read_ids(MESSAGES, chunk, by="session_id").to_pylist()
            checked.messages += len(rows)
            for sid in chunk:
                mine = sorted((r for r in rows if r["session_id"] == sid), key=lambda r: r["seq"])
                head = heads.get(sid, {})
                found = find_first_break(mine, head.get("head_hash"), forgotten)
                if found:
                    broken.append(f"session {head.get('native_id', sid)}, message {found[0]}: {found[1]}")
            advance(len(chunk))
    return checked, [*broken, *_find_removed_sessions(store, checked)]


def _find_removed_sessions(store: Store, checked: VerifyStats) -> list[str]:
    """Return the vault only grows: fewer messages or sessions than a release counted mean that whole ones were
    removed.
    """
    return [
        f"release {release.name} counted {release.counts[name]:,} {name}, {held:,} are left: sessions were removed"
        for release in read_releases(store)[-1:]
        for name, held in (("messages", checked.messages), ("sessions", checked.sessions))
        if release.counts.get(name, 0) > held
    ]
