"""Is it still so? A certificate held against the store as it is."""

from dataclasses import dataclass

from slowwave.schemas.tables import MESSAGES, RELEASED, TABLES
from slowwave.store.releases import read_releases
from slowwave.store.store import Store
from slowwave.tasks.forget.canaries import Canaries
from slowwave.tasks.forget.certificate import Plain, digest_body, digest_ids, read_batch
from slowwave.tasks.forget.erase import is_blank
from slowwave.tasks.forget.exports import list_exports
from slowwave.tasks.forget.ledger import read_forgotten_links
from slowwave.tasks.forget.scan import Scan
from slowwave.tasks.forget.seal import scan_store
from slowwave.tasks.ingest.vault import find_broken_chains


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    holds: bool
    told: str


def check_certificate(store: Store, certificate: Plain) -> list[Finding]:
    """Return what of a certificate holds: its own digest, the ledger, the messages, the releases, exports, the
    bytes.
    """
    batch = read_batch(store, certificate["run_id"])
    canaries = Canaries(**certificate["canaries"])
    scan = scan_store(store, canaries)
    said = _count_said(store)
    older = _list_older(store, (certificate["release"] or {"number": 0})["number"])
    checked, broken = find_broken_chains(store)
    there = {(one.path, one.at) for one in list_exports(store.dir)}
    left = [one["path"] for one in certificate.get("exports", ()) if (one["path"], one["at"]) in there]
    return [
        Finding("certificate", digest_body(certificate) == certificate["digest"], "its digest is that of its words"),
        Finding(
            "ledger",
            digest_ids(batch) == certificate["forgotten"]["digest"],
            f"{len(batch):,} rows noted as forgotten, as then",
        ),
        Finding("messages", not said, f"{said:,} of what was ever forgotten is said again"),
        Finding("chains", not broken, f"{checked.messages:,} messages, {len(broken)} broken chains"),
        Finding("releases", not older, f"{len(older)} tables keep a version from before"),
        Finding("exports", not left, f"{len(left)} made before are still there{': ' * bool(left)}{', '.join(left)}"),
        Finding("bytes", not scan.found, describe_scan(scan, len(canaries.marks))),
    ]


def describe_scan(scan: Scan, canaries: int) -> str:
    """Return a scan in a line."""
    where = f": {', '.join(sorted(scan.found))}" if scan.found else ""
    unread = f", {len(scan.unread)} files could not be read whole" if scan.unread else ""
    return (
        f"{canaries} canaries, found in {len(scan.found)} of {scan.files:,} files "
        f"({scan.bytes / 1e6:,.1f} MB, {scan.decoded:,} decoded{unread}){where}"
    )


def _count_said(store: Store) -> int:
    """Return how many forgotten messages say something."""
    rows = store.read_ids(MESSAGES, read_forgotten_links(store)).to_pylist()
    return sum(not is_blank(row) for row in rows)


def _list_older(store: Store, number: int) -> list[str]:
    """Return the tables with a version on disk that is older than what release `number` and the later ones pin."""
    kept = [release for release in read_releases(store) if release.number >= number]
    found = []
    for table in RELEASED:
        first = min((r.versions[table.name] for r in kept if table.name in r.versions and not r.restores), default=0)
        if any(one["version"] < first for one in store.open_dataset(TABLES[table.name]).versions()):
            found.append(table.name)
    return found
