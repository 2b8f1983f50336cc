"""What a store that is gone, or half there, raises: Lance's bare errors, and the project's own, which is one line."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from slowwave.schemas.errors import StoreError, StoreUnreadable, StoreUnwritable

READ_TROUBLE = (OSError, RuntimeError, ValueError)
"""What Lance raises for an index or a file it can't read."""
TROUBLE = (*READ_TROUBLE, StoreError)
"""What a store raises that is gone, or half there."""
TOLD = 300
"""Characters of Lance's own words, at most."""
SOURCE = re.compile(r"\.rs:\d+")


def format_error(trouble: Exception) -> str:
    """Return an error's own words, as far as they tell something: not where in Lance's sources it came up."""
    words = " ".join(str(trouble).split()).split(", ")
    return ", ".join(word for word in words if not SOURCE.search(word))[:TOLD]


def explain_unreadable(trouble: Exception) -> str:
    """Say that the store can't be read and why, in a line."""
    why = format_error(trouble)
    return why if isinstance(trouble, StoreUnreadable) else f"the store can't be read ({why})"


@contextmanager
def translate_read_errors(path: Path, raised: type[StoreError] = StoreUnreadable) -> Iterator[None]:
    """Raise an error of the store for a table that can't be read inside.

    Raises:
        StoreUnreadable: in place of Lance's.
    """
    try:
        yield
    except READ_TROUBLE as trouble:
        raise raised(path, format_error(trouble)) from trouble


def translate_write_errors(path: Path) -> AbstractContextManager[None]:
    """Raise `StoreUnwritable` for what can't be written inside: a full disk, a lost right, a broken table."""
    return translate_read_errors(path, StoreUnwritable)
