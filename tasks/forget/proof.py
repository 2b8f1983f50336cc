"""The proof of a forgetting: a scan of every file for canaries, a certificate, and its verification.

A certificate has hashes and counts, the first release without the forgotten rows, and the scan's results. The scan
reads each Lance file directly and not through a version of the table. So it also sees rows that are marked as deleted
and files that no version names. It can't read the words in a full-text index, which are packed into automata; the
indexes are rebuilt from the rows that are left.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import READ_TROUBLE, UsageError
from slowwave.schemas.tables import FORGOTTEN, MESSAGES, RELEASED, TABLES
from slowwave.store.private import replace_file
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Release
from slowwave.store.store import Store
from slowwave.tasks.forget.canaries import STEP, Canaries
from slowwave.tasks.forget.erase import is_blank
from slowwave.tasks.forget.exports import list_exports
from slowwave.tasks.forget.plan import Plan, read_forgotten
from slowwave.tasks.forget.spelling import Words
from slowwave.tasks.ingest.vault import find_broken_chains
from slowwave.text.words import count_noun, count_rows

FORMAT = "slowwave-forgetting/1"
FOLDER = "certificates"
Plain = dict[str, Any]


@dataclass
class Scan:
    """What a scan read, and where it found canaries."""

    files: int = 0
    bytes: int = 0
    decoded: int = 0
    """Lance files that were also read as tables."""
    unread: list[str] = field(default_factory=list)
    """Files that could not be read, and Lance files that could not be read as tables; each with the reason."""
    found: dict[str, int] = field(default_factory=dict)
    """File -> the number of canaries in it."""


def scan_store(store: Store, canaries: Canaries) -> Scan:
    """Search all files of the store's space for canaries."""
    return scan_files([store.dir], canaries)


def scan_files(paths: Iterable[Path], canaries: Canaries | Words) -> Scan:
    """Search files, and all files in folders, for canaries or words. Paths that do not exist are ignored."""
    result = Scan()
    places = [place for root in paths for place in (root, *sorted(root.rglob("*")))]
    for path in filter(Path.is_file, places):
        hits: set[str] = set()
        try:
            with path.open("rb") as stream:
                result.files += 1
                tail = b""
                while chunk := stream.read(STEP):
                    result.bytes += len(chunk)
                    hits |= canaries.find(tail + chunk)
                    tail = (tail + chunk)[1 - canaries.width :]
            # Lance panics on an empty file, which a power cut may leave.
            if path.suffix == ".lance" and path.stat().st_size:
                for buffer in _decode_buffers(path):
                    hits |= canaries.find(memoryview(buffer))
                result.decoded += 1
        except FileNotFoundError:  # a reader's file, deleted since it was listed
            continue
        except READ_TROUBLE as trouble:
            result.unread.append(
                f"{path}: {getattr(trouble, 'strerror', None) or type(trouble).__name__}"
            )
        if hits:
            result.found[str(path)] = len(hits)
    return result


def _decode_buffers(path: Path) -> Iterator[pa.Buffer]:
    """Yield the decoded buffers of a Lance file; a column of lists or structs has its children's too."""
    from lance.file import LanceFileReader

    rows = LanceFileReader(str(path)).read_all(batch_size=4_096)
    for batch in rows.to_batches():
        for column in batch.columns:
            yield from filter(None, column.buffers())


def write_certificate(
    plan: Plan,
    store: Store,
    live: Release | None,
) -> Path:
    """Scan the store, write the certificate of a plan that is carried out, and return its path in the space's folder.

    The certificate's `digest` covers all its other fields.
    """
    batch = _read_batch(store, plan.run_id)
    there = _list_there(store)
    scan = scan_store(store, plan.canaries)
    body: Plain = {
        "format": FORMAT,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "space": store.space,
        "run_id": plan.run_id,
        "asked": plan.why,
        "rows": {name: count for name, count in plan.counts.items() if count},
        "forgotten": {"rows": len(batch), "digest": _digest(*batch)},
        "release": None
        if live is None
        else {"number": live.number, "release_id": live.release_id},
        "exports": [
            {"path": path, "at": at, "removed": (path, at) not in there}
            for path, at in plan.exports
        ],
        "canaries": vars(plan.canaries),
        "scan": {**vars(scan), "found": len(scan.found), "unread": len(scan.unread)},
    }
    path = store.dir / FOLDER / f"{plan.run_id}.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    replace_file(
        path,
        json.dumps({**body, "digest": _digest_body(body)}, indent=1).encode() + b"\n",
    )
    return path


def describe_certificate(path: Path, certificate: Plain) -> tuple[str, str]:
    """Return a certificate's content in two lines."""
    rows = count_rows(certificate["rows"])
    scan = certificate["scan"]
    found = scan["found"]
    files = (
        f"{count_noun(scan['files'], 'file')} searched ({scan['bytes'] / 1e6:,.1f} MB)"
    )
    left = (
        f"a trace is left in {count_noun(found, 'file')}"
        if found
        else "no trace is left"
    )
    return (f"Forgotten: {rows}.", f"{files}: {left}. Certificate: {path}")


def load_certificate(path: Path) -> Plain:
    """Read a certificate from a file.

    Raises:
        UsageError: the file does not exist, or isn't a certificate.
    """
    try:
        plain = (
            json.loads(path.read_text(encoding="utf-8"))
            if path.is_file() or not path.exists()
            else None
        )
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise UsageError(f"{path} is not a certificate of `slowwave forget`")
    return plain


def list_certificates(space_dir: Path, since: str) -> list[Path]:
    """Return the certificates of a space that were made after a time (ISO, UTC), sorted by run.

    Leave out broken ones.
    """
    paths = []
    for path in sorted((space_dir / FOLDER).glob("*.json")):
        with suppress(UsageError):
            paths += [path] if load_certificate(path)["made_at"] > since else []
    return paths


@dataclass(frozen=True)
class Finding:
    """The result of one check of a certificate."""

    what: str
    holds: bool
    told: str


def check_certificate(store: Store, certificate: Plain) -> list[Finding]:
    """Check a certificate against the store: its digest, the ledger, messages, chains, releases, exports and bytes."""
    batch = _read_batch(store, certificate["run_id"])
    forgotten = store.read_ids(MESSAGES, read_forgotten(store, "message"))
    back = sum(not is_blank(row) for row in forgotten.to_pylist())
    older = _find_older_versions(store, certificate)
    checked, broken = find_broken_chains(store)
    left = _find_left_exports(store, certificate)
    same_ledger = _digest(*batch) == certificate["forgotten"]["digest"]
    same_body = _digest_body(certificate) == certificate["digest"]
    chains = f"{checked['messages']:,} messages, {len(broken)} broken chains"
    exports = f"{len(left)} made before are still there{_name(left)}"
    return [
        Finding("certificate", same_body, "its digest is that of its words"),
        Finding(
            "ledger", same_ledger, f"{len(batch):,} rows noted as forgotten, as then"
        ),
        Finding(
            "messages", not back, f"{back:,} of what was ever forgotten is said again"
        ),
        Finding("chains", not broken, chains),
        Finding(
            "releases", not older, f"{len(older)} tables keep a version from before"
        ),
        Finding("exports", not left, exports),
        _scan_bytes(store, certificate),
    ]


def _find_older_versions(store: Store, certificate: Plain) -> list[str]:
    """Return the tables that still have a version on disk from before the certificate's release."""
    number = (certificate["release"] or {"number": 0})["number"]
    later = [release for release in read_releases(store) if release.number >= number]
    older = []
    for table in RELEASED:
        pinned = [
            release.versions[table.name]
            for release in later
            if table.name in release.versions and not release.restores
        ]
        first = min(pinned, default=0)
        versions = store.open_dataset(TABLES[table.name]).versions()
        if any(version["version"] < first for version in versions):
            older.append(table.name)
    return older


def _find_left_exports(store: Store, certificate: Plain) -> list[str]:
    """Return the paths of the certificate's exports that still exist."""
    there = _list_there(store)
    return [
        export["path"]
        for export in certificate["exports"]
        if (export["path"], export["at"]) in there
    ]


def _scan_bytes(store: Store, certificate: Plain) -> Finding:
    """Return the finding on bytes: it holds if no file of the store contains one of the certificate's canaries."""
    canaries = Canaries(**certificate["canaries"])
    scan = scan_store(store, canaries)
    files = (
        f"{scan.files:,} files ({scan.bytes / 1e6:,.1f} MB, {scan.decoded:,} decoded"
    )
    if scan.unread:
        files += f", {len(scan.unread)} files could not be read whole"
    told = f"{len(canaries.marks)} canaries, found in {len(scan.found)} of {files})"
    return Finding("bytes", not scan.found, told + _name(sorted(scan.found)))


def _name(paths: list[str]) -> str:
    return f": {', '.join(paths)}" if paths else ""


def _read_batch(store: Store, run_id: str) -> list[str]:
    """Return the ids of the rows of FORGOTTEN that a run wrote, sorted."""
    return sorted(
        store.read(FORGOTTEN, ["forgotten_id"], pc.field("run_id") == run_id)[
            "forgotten_id"
        ].to_pylist()
    )


def _list_there(store: Store) -> set[tuple[str, str]]:
    """Return path and time of the exports that still exist."""
    return {(export.path, export.at) for export in list_exports(store.dir)}


def _digest_body(body: Plain) -> str:
    """Return the digest of a certificate's canonical JSON without the field `digest`."""
    plain = {name: value for name, value in body.items() if name != "digest"}
    return _digest(json.dumps(plain, sort_keys=True, separators=(",", ":")))


def _digest(*lines: str) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
