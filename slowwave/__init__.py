"""slowwave: nightly memory for AI agents, distilled from their transcripts, recalled with its sources."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowwave.memory import Memory

__all__ = ["Memory"]


def __getattr__(name: str) -> object:
    """Return `Memory` on first use: importing slowwave alone costs nothing."""
    if name == "Memory":
        from slowwave.memory import Memory

        return Memory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
