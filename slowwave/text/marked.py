"""Replace a block between two marks in a person's file. The text around the block is never changed.

    <!-- slowwave:begin -->
    …
    <!-- slowwave:end -->

Each mark is on a line of its own. Bytes that are not UTF-8 and the ends of lines are kept.
"""

import os
from pathlib import Path
from secrets import token_hex

from slowwave.schemas.errors import UsageError

MARKS = ("<!-- slowwave:begin -->", "<!-- slowwave:end -->")
HASH_MARKS = ("# slowwave:begin", "# slowwave:end")
"""The marks in files whose comments begin with `#`, such as TOML."""


def replace_marked(
    text: str,
    block: str,
    marks: tuple[str, str] = MARKS,
) -> str:
    """Return the text with the block between its marks. If the text has no marks, they are added at its end.

    Raises:
        UsageError: the marks are not one pair.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    whole = newline.join([marks[0], *block.strip("\n").split("\n"), marks[1], ""])
    span = find_marked(text, marks)
    if span is None:
        return f"{text}{newline if text else ''}{whole}"
    return text[: span[0]] + whole + text[span[1] :]


def remove_marked(text: str, marks: tuple[str, str] = MARKS) -> str:
    """Return the text without the marks and the block, as it was before `replace_marked`.

    If there is text below the block, the line above the block keeps its line break.

    Raises:
        UsageError: the marks are not one pair.
    """
    span = find_marked(text, marks)
    if span is None:
        return text
    before = text[: span[0]]
    after = text[span[1] :]
    shorter = before.removesuffix("\n").removesuffix("\r")
    return (
        before if after and shorter and not shorter.endswith("\n") else shorter
    ) + after


def find_marked(text: str, marks: tuple[str, str] = MARKS) -> tuple[int, int] | None:
    """Return the bounds of the lines from the first mark to the last; None if the text has no marks.

    Raises:
        UsageError: the marks are not one pair.
    """
    places: list[tuple[int, int, int]] = []
    at = 0
    for line in (
        text.splitlines(keepends=True) if marks[0] in text or marks[1] in text else ()
    ):
        if line.strip() in marks:
            places.append((marks.index(line.strip()), at, at + len(line)))
        at += len(line)
    if not places:
        return None
    if [which for which, _, _ in places] != [0, 1]:
        raise UsageError(
            f"its marks {marks[0]} and {marks[1]} are not one pair: repair them by hand, or remove them"
        )
    return places[0][1], places[1][2]


def read_as_it_is(path: Path) -> str:
    """Return a file's text; "" if the file does not exist. Bytes that are not UTF-8 become lone surrogates.

    Raises:
        UsageError: the path is a pipe, a device or a folder.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file")
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""


def write_whole(
    path: Path,
    text: str,
    like: Path | None = None,
    *,
    bounded: bool = False,
) -> bool:
    """Write a file in one step, and return True if its content changed. A link's target is written.

    An existing file keeps its permissions. Missing folders are made.

    Args:
        path: the file.
        text: as `read_as_it_is` returns it.
        like: a file whose permissions a new file gets; default: by the umask.
        bounded: whether a link outside of every checkout must stay in its folder.

    Raises:
        UsageError: the path links out of its checkout or folder, which others may have written.
    """
    named = Path(os.path.normpath(path.absolute()))  # with its links
    checkouts = [
        folder
        for folder in named.parents
        if (folder / ".git").exists() and folder != Path.home()
    ]
    if bounded and not checkouts:
        checkouts = [named.parent]
    given = path
    path = path.resolve()
    if not all(path.is_relative_to(folder.resolve()) for folder in checkouts):
        raise UsageError(
            f"{given} is a link out of the project: nothing was written; name the file that is meant"
        )
    rights = path if path.exists() else like
    raw = text.encode("utf-8", "surrogateescape")
    before = path.read_bytes() if path.exists() else None
    if raw == before:
        return False
    # beside the file, and in its place once it is on the disk
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{token_hex(4)}")
    with written.open("xb") as file:
        try:
            if rights:
                written.chmod(rights.stat().st_mode & 0o7777)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
            written.replace(path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise
    return True
