"""What says that something is forgotten: hashes and counts, which release holds none of it, and what a scan found."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import FORGOTTEN
from slowwave.store.private import replace_file
from slowwave.store.releases import Release
from slowwave.store.store import Store
from slowwave.tasks.forget.exports import list_exports
from slowwave.tasks.forget.plan import Plan
from slowwave.tasks.forget.scan import Scan

FORMAT = "slowwave-forgetting/1"
FOLDER = "certificates"
Plain = dict[str, Any]


def build_certificate(plan: Plan, store: Store, live: Release | None, scan: Scan) -> Plain:
    """Return a certificate; its `digest` is over all the rest."""
    batch = read_batch(store, plan.run_id)
    there = {(one.path, one.at) for one in list_exports(store.dir)}
    body: Plain = {
        "format": FORMAT,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "space": store.space,
        "run_id": plan.run_id,
        "asked": plan.why,
        "rows": {name: count for name, count in plan.counts.items() if count},
        "forgotten": {"rows": len(batch), "digest": digest_ids(batch)},
        "release": None if live is None else {"number": live.number, "release_id": live.release_id},
        "exports": [{"path": path, "at": at, "removed": (path, at) not in there} for path, at in plan.exports],
        "canaries": {"key": plan.canaries.key, "marks": plan.canaries.marks},
        "scan": {**scan.as_dict(), "found": len(scan.found), "unread": len(scan.unread)},
    }
    return {**body, "digest": digest_body(body)}


def read_batch(store: Store, run_id: str) -> list[str]:
    """Return ids of what a run noted as forgotten, sorted."""
    rows = store.read(FORGOTTEN, ["forgotten_id"], pc.field("run_id") == run_id)
    return sorted(rows["forgotten_id"].to_pylist())


def digest_ids(ids: Iterable[str]) -> str:
    """Return SHA-256 hex over ids, in order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()


def digest_body(body: Plain) -> str:
    """Return SHA-256 hex over a certificate's canonical JSON, its own digest left out."""
    plain = {name: value for name, value in body.items() if name != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_certificate(space_dir: Path, run_id: str, certificate: Plain) -> Path:
    """Write a certificate into the space's folder; returns where."""
    folder = space_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{run_id}.json"
    replace_file(path, json.dumps(certificate, indent=1).encode() + b"\n")
    return path


def list_certificates(space_dir: Path, since: str) -> list[Path]:
    """Return the certificates of a space that were made after a time (ISO, UTC), the oldest first; no broken one."""
    found = []
    for path in sorted((space_dir / FOLDER).glob("*.json")):
        with suppress(UsageError):
            found += [path] if load_certificate(path)["made_at"] > since else []
    return found


def load_certificate(path: Path) -> Plain:
    """Return a certificate.

    Raises:
        UsageError: the file is none.
    """
    try:
        plain = json.loads(path.read_text(encoding="utf-8")) if path.is_file() or not path.exists() else None
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise UsageError(f"{path} is no certificate of `slowwave forget`")
    return plain
