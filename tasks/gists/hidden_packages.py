"""`hide_packages`: import a library as where the packages that it can do without are not installed."""

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType


class _Hider(MetaPathFinder):
    """Says to one thread that packages are not installed; other threads import them as ever."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.thread = get_ident()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Leave every other import to the finders that follow.

        Raises:
            ModuleNotFoundError: the package is one of the hidden ones.
        """
        if fullname in self.names and get_ident() == self.thread:
            raise ModuleNotFoundError(f"{fullname} is not imported here", name=fullname)
        return None


@contextmanager
def hide_packages(names: Collection[str]) -> Iterator[None]:
    """Let no import of this thread inside the block load these packages: it fails as if they were not installed. A
    package that was imported before stays usable.
    """
    hider = _Hider(names)
    sys.meta_path.insert(0, hider)
    try:
        yield
    finally:
        sys.meta_path.remove(hider)
