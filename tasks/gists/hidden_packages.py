"""Import a library as if its optional packages were not installed."""

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType


class _Hider(MetaPathFinder):
    """Makes imports of some packages fail in the thread that created it; other threads import them as usual."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.thread = get_ident()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return None, so that the next finder is asked.

        Raises:
            ModuleNotFoundError: the package is one of the hidden ones.
        """
        if fullname in self.names and get_ident() == self.thread:
            raise ModuleNotFoundError(f"{fullname} is not imported here", name=fullname)
        return None


@contextmanager
def hide_packages(names: Collection[str]) -> Iterator[None]:
    """Make imports of these packages fail in this thread inside the block, as if they were not installed.

    A package that was imported before stays usable.
    """
    hider = _Hider(names)
    sys.meta_path.insert(0, hider)
    try:
        yield
    finally:
        sys.meta_path.remove(hider)
