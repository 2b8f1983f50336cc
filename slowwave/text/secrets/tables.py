"""Secrets in tables of plain text: the name stands in the heading of a column, and the values below it."""

import re
from collections.abc import Iterator

from slowwave.text.secrets.rules import CORE, NAMED, classify_secret, is_placeholder

SEPARATORS = "|\t,;"
TRIMMED = " \t\"'`*"
LONGEST_HEADING = 30
"""Most characters of a heading."""
SHORTEST = 6
"""Least characters of a value."""
RULED = re.compile(r"[-+=|: \t]+\Z")
"""A line below the headings, as psql draws it."""
MIXED = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[^\s]+\Z")
"""One word of letters and figures."""
PROBE = "Quay7Lamp8Mill9"
"""A value that a name for a secret would make one."""


def find_tabled(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the values below a heading that names a secret, in order."""
    if not CORE.search(text.lower()):
        return
    separator = ""
    columns = list[int]()
    width = 0
    at = 0
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if separator and bare.count(separator) == width:
            yield from _find_values(
                line=bare, at=at, separator=separator, columns=columns
            )
        elif not (separator and RULED.match(bare)):
            separator, columns = _read_heading(bare)
            width = bare.count(separator) if separator else 0
        at += len(line)


def _read_heading(line: str) -> tuple[str, list[int]]:
    """Return the separator of a line of headings, and the columns of those that name a secret; "" for another line."""
    for separator in SEPARATORS:
        cells = line.split(separator)
        is_heading = len(cells) > 1 and all(
            len(cell.strip()) <= LONGEST_HEADING
            and len(cell.split()) <= 3
            and (separator in "|\t" or cell == cell.strip())
            for cell in cells
        )
        if is_heading:
            columns = [n for n, cell in enumerate(cells) if _names_secret(cell)]
            if columns:
                return separator, columns
    return "", []


def _names_secret(heading: str) -> bool:
    """Return True if a value assigned to a heading would be a secret."""
    name = heading.strip(TRIMMED)
    for core in CORE.finditer(name.lower()):
        match = NAMED.match(f"{name}={PROBE}", core.start())
        is_whole = match is not None and match.end("suffix") == len(name)
        if match and is_whole and classify_secret(name[: core.start()], match):
            return True
    return False


def _find_values(
    line: str,
    at: int,
    separator: str,
    columns: list[int],
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the values in these columns of a line that starts at a place of the text."""
    start = at
    for n, cell in enumerate(line.split(separator)):
        value = cell.strip(TRIMMED)
        if (
            n in columns
            and len(value) >= SHORTEST
            and MIXED.match(value)
            and not is_placeholder(value)
        ):
            first = start + cell.index(value)
            yield first, first + len(value)
        start += len(cell) + len(separator)
