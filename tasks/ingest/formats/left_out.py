"""Count and name the files and folders that are left out below a folder, by reason, so that a report lists them."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from slowwave.schemas.counters import WORDS, Count
from slowwave.tasks.ingest.storable import show_path

NAMED = 3
"""Places of each reason that are named."""


@dataclass
class LeftOut:
    """Files and folders other than transcripts, by reason."""

    counts: Counter[Count] = field(default_factory=Counter)
    names: defaultdict[Count, dict[str, None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """The first few by reason: paths; for `JUNK_FOLDERS` names, and for `OTHER_FILES` suffixes."""
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    """Folders that can't be listed, each with the reason."""

    def add(self, reason: Count, path: Path) -> None:
        """Count a file or folder, and keep the first names of each reason."""
        self.counts[reason] += 1
        names = self.names[reason]
        if len(names) <= NAMED:
            by_kind = (
                path.suffix or path.name if reason == Count.OTHER_FILES else path.name
            )
            is_short = reason in (Count.JUNK_FOLDERS, Count.OTHER_FILES)
            names[by_kind if is_short else show_path(path)] = None

    def describe(self) -> list[str]:
        """Return a line for each reason, with the number and the first names."""
        return [
            f"left out, {WORDS[reason]}: {n:,} ({', '.join([*self.names[reason]][:NAMED])}{', …' * (n > NAMED)})"
            for reason, n in sorted(
                self.counts.items(), key=lambda pair: WORDS[pair[0]]
            )
        ]
