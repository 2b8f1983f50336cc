"""A store for LangGraph's long-term memory: each item is a note, which recall finds and nights distil.

    store = MemoryStore(Memory.open(unreleased=True))
    graph = builder.compile(store=store)
    store.put(("ann", "tastes"), "food", {"text": "I am allergic to walnuts."})
    store.search(("ann",), query="what may Ann not eat?")

`get` and `search` read the notes, so an item is found at once. A new value of a key is a new note; the earlier note
stays in the memory. `delete` forgets the item's notes, with all that nights made of them. Secrets are replaced before
anything is written. The embeddings are the memory's own: `index` of `put` has no effect, and there is no `ttl`.
"""

import asyncio
import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from slowwave.memory import Memory
from slowwave.plugins.langchain.erase import forget_notes
from slowwave.schemas.errors import UsageError
from slowwave.store.notes import read_note_lines, write_note

Namespace = tuple[str, ...]
KIND = "langgraph"
"""Field of a note's `extra` that marks an item, and has its namespace."""
FOUND = 1_000
"""Most hits of the memory that score the items of a search."""
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class MemoryStore(BaseStore):
    """LangGraph's store over the notes of one space."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in order, and return their results.

        Raises:
            UsageError: an operation is unknown, a value is too long for a note, or a query has no words.
            StoreLocked: an item is deleted while a night is running.
        """
        return [self._run(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in another thread, as `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _run(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._read_items().get((tuple(op.namespace), str(op.key)))
            case SearchOp():
                return self._search(op)
            case PutOp():
                self._put(op)
                return None
            case ListNamespacesOp():
                return self._list_namespaces(op)
        raise UsageError(f"{type(op).__name__} is not an operation of this store")

    def _put(self, op: PutOp) -> None:
        """Write an item as a note; if its value is None, forget all its notes."""
        namespace = tuple(op.namespace)
        key = str(op.key)
        if op.value is None:
            forget_notes(self.memory, self._find_sessions(namespace, key))
            return
        write_note(
            self.memory.root / self.memory.space,
            render_value(op.value),
            tags=namespace,
            redact=self.memory.settings.redact,
            extra={KIND: [*namespace], "key": key, "value": op.value},
        )

    def _read_lines(self) -> list[tuple[tuple[Namespace, str], dict[str, Any]]]:
        """Return the notes that are items, each with its namespace and key, oldest first."""
        return [
            ((tuple(extra[KIND]), extra["key"]), line)
            for line in read_note_lines(self.memory.root / self.memory.space)
            if isinstance(extra := line.get("extra"), dict) and KIND in extra
        ]

    def _find_sessions(self, namespace: Namespace, key: str) -> list[str]:
        """Return the sessions of the notes of all values that an item had."""
        return [
            line["session_id"]
            for name, line in self._read_lines()
            if name == (namespace, key)
        ]

    def _read_items(self) -> dict[tuple[Namespace, str], SearchItem]:
        """Return the items in the order of their last change, each with its last value."""
        items: dict[tuple[Namespace, str], SearchItem] = {}
        for name, line in self._read_lines():
            at = datetime.fromisoformat(line["ts"])
            before = items.pop(name, None)
            created = before.created_at if before else at
            namespace, key = name
            items[name] = SearchItem(
                namespace=namespace,
                key=key,
                value=line["extra"]["value"],
                created_at=created,
                updated_at=at,
            )
        return items

    def _search(self, op: SearchOp) -> list[SearchItem]:
        """Return a page of the items below a namespace that pass the filter: by relevance to the query, if there is
        one, then the latest first.
        """
        prefix = tuple(op.namespace_prefix)
        items = [
            item
            for item in reversed(self._read_items().values())
            if item.namespace[: len(prefix)] == prefix
            and passes_filter(item.value, op.filter or {})
        ]
        if op.query:
            scores = self._score(op.query)
            for item in items:
                item.score = scores.get((item.namespace, item.key))
            items.sort(key=lambda item: -(item.score or 0.0))
        return items[op.offset :][: op.limit]

    def _score(self, query: str) -> dict[tuple[Namespace, str], float]:
        """Return the relevance to a query of each item that recall finds by its last value."""
        last = {name: line["session_id"] for name, line in self._read_lines()}
        names = {session: name for name, session in last.items()}
        scores: dict[tuple[Namespace, str], float] = {}
        hits = self.memory.recall(query, FOUND, ("message",), everything=True)
        for hit in hits:
            for source in hit.sources:
                if name := names.get(source.session):
                    scores[name] = max(scores.get(name, 0.0), hit.relevance or 0.0)
        return scores

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces of items that meet the conditions, sorted, cut at `max_depth`."""
        found = {
            namespace[: op.max_depth]
            for namespace, _ in self._read_items()
            if all(matches(namespace, one) for one in op.match_conditions or ())
        }
        return sorted(found)[op.offset :][: op.limit]


def render_value(value: Mapping[str, Any]) -> str:
    """Return a value as the text of a note: its only field if that is a text, else a line for each field."""
    (first, *more) = value.values() or ("",)
    if isinstance(first, str) and not more:
        return first
    return "\n".join(f"{name}: {field}" for name, field in value.items())


def passes_filter(value: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return True if each field equals its condition, or meets its operators (`{"score": {"$gt": 4}}`).

    Raises:
        UsageError: an operator is unknown.
    """
    return all(
        _passes(value.get(name), condition) for name, condition in conditions.items()
    )


def _passes(field: Any, condition: Any) -> bool:
    if not (isinstance(condition, dict) and any(key[:1] == "$" for key in condition)):
        return bool(field == condition)
    if unknown := condition.keys() - OPERATORS.keys():
        raise UsageError(
            f"{unknown.pop()!r} is not an operator: it is one of {', '.join(OPERATORS)}"
        )
    try:
        return all(OPERATORS[key](field, bound) for key, bound in condition.items())
    except TypeError:  # a text against a number, or no field
        return False


def matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Return True if a namespace begins or ends with a path; `*` stands for any part."""
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    is_suffix = condition.match_type == "suffix"
    part = namespace[len(namespace) - len(path) :] if is_suffix else namespace
    return all(name in ("*", own) for name, own in zip(path, part, strict=False))
