"""The tree a Claude Code transcript really is, kept small: which messages stand on branches that were rewound.

A record costs 17 bytes and its id, whatever the size of the file: uuids are held as 64-bit hashes, and the ids are
looked at again only for what was rewound.
"""

from array import array
from collections.abc import Iterator

TYPED, MESSAGE = 1, 2


class Tree:
    """Records by uuid and parent, in the order of the file."""

    def __init__(self) -> None:
        self._uid = array("q")
        self._parent = array("q")
        self._flags = array("B")
        self._session = array("L")
        self._ids = bytearray()
        self._ends = array("Q")
        self._typed_children: dict[int, list[int]] = {}

    def add(self, uuid: str, parent: str | None, session: int, flags: int) -> None:
        """Add one record; `flags` says whether a person typed it (TYPED) and whether it gave a message (MESSAGE)."""
        if flags & TYPED and parent:
            self._typed_children.setdefault(hash(parent), []).append(len(self._uid))
        self._uid.append(hash(uuid))
        self._parent.append(hash(parent) if parent else 0)
        self._flags.append(flags)
        self._session.append(session)
        if flags & MESSAGE:
            self._ids += uuid.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._ids))

    def select_present(self, uuids: set[str]) -> set[str]:
        """Return those of the uuids that stand in the file."""
        wanted = {hash(uuid): uuid for uuid in uuids}
        return {wanted[uid] for uid in self._uid if uid in wanted} if wanted else set()

    def find_rewound(self) -> Iterator[tuple[int, str]]:
        """Yield session number and uuid of each message on an abandoned branch.

        Only two messages typed by a person under the same parent are a rewind, and the later one won: parallel tool
        calls, retries and sidechains fork too, and nobody took those back. One pass in the order of the file, where
        a child follows its parent, so that a cycle or a dangling parent ends nothing.
        """
        losers = {i for group in self._typed_children.values() for i in self._find_replaced(group)}
        if not losers:
            return
        dead = {self._uid[i] for i in losers}
        for i in range(min(losers), len(self._uid)):
            if self._uid[i] in dead or (self._parent[i] and self._parent[i] in dead):
                dead.add(self._uid[i])
                if self._flags[i] & MESSAGE:
                    yield self._session[i], self._decode_id(i)

    def _find_replaced(self, group: list[int]) -> list[int]:
        """Return siblings that a later one replaced; a record replayed with the same uuid is no sibling of itself."""
        if len(group) < 2:
            return []
        last = self._uid[group[-1]]
        return [i for i in group if self._uid[i] != last]

    def _decode_id(self, i: int) -> str:
        start = self._ends[i - 1] if i else 0
        return self._ids[start : self._ends[i]].decode("utf-8", "surrogatepass")
