"""The tree of an OpenClaw or pi session, kept small: which entries its last leaf has left behind.

Every entry names its parent; going back to an earlier one and talking on starts a branch, and nothing is deleted.
An entry costs 26 bytes and its id, whatever its size: ids are compared as 64-bit hashes. The rules are those the
tools read by, made cautious: an entry without a parent, or with one that is not there, goes on from the last.
"""

from array import array
from collections.abc import Iterator
from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Kind(IntEnum):
    """What an entry is to the tree."""

    OTHER = 0
    USER = 1
    MODEL = 2
    TOOL = 3
    LEAF = 4
    """A control that names the entry the session goes on from."""


REWOUND = "on a branch that was left"
RETRY = "stored again for a provider retry"

_CONTINUES = -1
_ROOT = -2


class SessionTree:
    """Entries of one session by id and parent, in the order of the file."""

    def __init__(self, root: str) -> None:
        self._root = hash(root)
        self._id = array("q")
        self._parent = array("q")
        self._how = array("b")  # 0: parent is an id, _CONTINUES, _ROOT
        self._kind = array("b")
        self._side = array("b")
        self._names = bytearray()
        self._ends = array("Q")
        self._retries: dict[int, list[int]] = {}

    def add(self, entry_id: str, parent: object, kind: Kind, *, side: bool = False) -> int:
        """Return one entry and its number.

        `parent` is an id, None for a root, anything else for "goes on from the last".
        """
        self._id.append(hash(entry_id))
        how = 0 if isinstance(parent, str) else _ROOT if parent is None else _CONTINUES
        self._how.append(_ROOT if how == 0 and hash(parent) == self._root else how)
        self._parent.append(hash(parent) if how == 0 else 0)
        self._kind.append(kind)
        self._side.append(side)
        self._names += entry_id.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._names))
        return len(self._id) - 1

    def mark_retry(self, first: int, copy: int) -> None:
        """Say that two entries are one message, sent again."""
        self._retries.setdefault(first, [first]).append(copy)

    def find_inactive(self) -> Iterator[tuple[str, str]]:
        """Yield id and reason of each entry that was left behind or is a second copy, in the order of the file."""
        left = self._mask_rewound()
        reasons = {int(i): REWOUND for i in np.flatnonzero(left)}
        for group in self._retries.values():
            live = next((i for i in group if i not in reasons), None)
            reasons |= {i: RETRY for i in group if i != live and i not in reasons}
        for i in sorted(reasons):
            yield self._decode_id(i), reasons[i]

    def _mask_rewound(self) -> npt.NDArray[np.bool_]:
        """Mask over entries: off the path from the last leaf to the root, on a branch where somebody spoke.

        1. Resolve parents. 2. Walk from the leaf to the root. 3. Name each other entry's branch by the entry where
        it leaves the path. 4. Keep the branches with a user or model message: results of parallel tool calls fork
        as well, and nobody took those back.
        """
        n = len(self._id)
        parents, leaf = self._resolve_parents()
        if leaf < 0 or (leaf == n - 1 and bool(np.all(parents == np.arange(-1, n - 1)))):
            return np.zeros(n, dtype=bool)
        on_path = np.zeros(n, dtype=bool)
        at = leaf
        while at >= 0:
            on_path[at] = True
            at = int(parents[at])
        branch = np.full(n, -1, dtype=np.int64)
        for i in range(n):  # a parent always stands before its child
            if not on_path[i] and not self._side[i]:
                parent = int(parents[i])
                branch[i] = branch[parent] if parent >= 0 and branch[parent] >= 0 else i
        left = self._mask_spoken_branches(branch, parents)
        ids = np.array(self._id, dtype=np.int64)
        # An entry that stands in the file twice is not left by its copy.
        twice: npt.NDArray[np.bool_] = np.isin(ids, ids[~left])
        return left & ~twice

    def _mask_spoken_branches(
        self, branch: npt.NDArray[np.int64], parents: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        kind = np.frombuffer(self._kind, dtype=np.int8)
        speech = (kind == Kind.USER) | (kind == Kind.MODEL)
        kept = set(np.unique(branch[(branch >= 0) & speech]).tolist())
        # Answers that are roots: the writer knew no parents, so roots say nothing about rewinding.
        if bool(np.any((parents == -1) & ((kind == Kind.MODEL) | (kind == Kind.TOOL)))):
            kept = {i for i in kept if parents[i] >= 0}
        gone: npt.NDArray[np.bool_] = np.isin(branch, list(kept)) & (speech | (kind == Kind.TOOL))
        return gone

    def _resolve_parents(self) -> tuple[npt.NDArray[np.int64], int]:
        """Return number of each entry's parent (-1: root), always below its own, and the number of the leaf."""
        found = self._find_parents()
        parents = np.empty(len(found), dtype=np.int64)
        leaf = -1
        for i, how in enumerate(self._how):
            target = -1 if how == _ROOT else leaf if how == _CONTINUES or not 0 <= found[i] < i else int(found[i])
            parents[i] = target
            if self._kind[i] == Kind.LEAF:
                leaf = target
            elif not self._side[i]:
                leaf = i
        return parents, leaf

    def _find_parents(self) -> npt.NDArray[np.int64]:
        """Return number of the entry each parent id names; -1 where there is none."""
        ids, wanted = np.array(self._id, dtype=np.int64), np.array(self._parent, dtype=np.int64)
        if not len(ids):
            return wanted
        order = np.argsort(ids, kind="stable")
        at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
        number: npt.NDArray[np.int64] = np.where(ids[order][at] == wanted, order[at], -1)
        return number

    def _decode_id(self, i: int) -> str:
        start = self._ends[i - 1] if i else 0
        return self._names[start : self._ends[i]].decode("utf-8", "surrogatepass")
