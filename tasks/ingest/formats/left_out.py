"""Count and name the files and folders that are left out below a folder, by reason, so that a report lists them."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from slowwave.tasks.ingest.storable import show_path

LINKS = "links that are not followed"
FOLDERS = "folders left out by name"
NAMES = "files left out by name"
STORES = "stores of slowwave's"
TABLES = "tables of Lance's"
EXPORTS = "tables of exports"
OTHERS = "files of other kinds"
NAMED = 3
"""Places of each reason that are named."""


@dataclass
class LeftOut:
    """Files and folders that are no transcripts, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    names: defaultdict[str, dict[str, None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """The first few by reason: paths; for `FOLDERS` names, and for `OTHERS` suffixes."""
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    """Folders that can't be listed, each with the reason."""

    def add(self, reason: str, path: Path) -> None:
        """Count a file or folder, and keep the first names of each reason."""
        self.counts[reason] += 1
        names = self.names[reason]
        if len(names) <= NAMED:
            by_kind = path.suffix or path.name if reason == OTHERS else path.name
            names[by_kind if reason in (FOLDERS, OTHERS) else show_path(path)] = None

    def describe(self) -> list[str]:
        """Return a line for each reason, with the number and the first names."""
        return [
            f"left out, {reason}: {n:,} ({', '.join([*self.names[reason]][:NAMED])}{', …' * (n > NAMED)})"
            for reason, n in sorted(self.counts.items())
        ]
