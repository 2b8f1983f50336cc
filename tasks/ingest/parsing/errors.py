"""Errors of reading; `slowwave.schemas.errors` draws the tree of all."""

from pathlib import Path

from slowwave.schemas.errors import SlowwaveError


class ReadError(SlowwaveError):
    """A transcript could not be read."""


class UnknownFormat(ReadError):
    """No reader recognises the file, or it is empty or cannot be opened."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: no known transcript format ({why}); the file is left out")


class NoSuchPath(ReadError):
    """A path that was asked for does not exist, or is a pipe or a device."""

    def __init__(self, path: Path, why: str = "no such file or folder") -> None:
        self.path = path
        super().__init__(f"{path}: {why}; nothing was read")
