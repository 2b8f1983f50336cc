"""The definition of a page, and the space that the pages show."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from secrets import token_urlsafe
from threading import Lock
from typing import Annotated, Any, get_args

import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from slowwave.memory import Memory
from slowwave.recall.hits import GROUPS, Hit, Hits
from slowwave.recall.release.tables import LRUCache
from slowwave.recall.release.view import View
from slowwave.recall.views.show import NodeLineage, show
from slowwave.schemas.errors import (
    NoSuchId,
    SlowwaveError,
    UsageError,
    explain_invalid,
)
from slowwave.schemas.places import name_last_part
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import Table
from slowwave.text.times.days import localise
from slowwave.text.times.relative_days import add_days

ROWS = 50
"""Most rows of a page."""
KEPT_OPEN = 2
"""Most releases kept open beside the live one: each has its vectors in memory."""
Data = dict[str, Any]
Id = Annotated[str, "An id, or its first characters."]
After = Annotated[int, "Show what comes after so many rows."]


@dataclass
class Explorer:
    """The space that the pages show; the first request opens its memory."""

    settings: Settings
    read_only: bool = False
    token: str = field(default_factory=lambda: token_urlsafe(24))
    pages: tuple["Page", ...] = ()
    actions: Mapping[str, Callable[..., Data]] = field(default_factory=dict)
    outcomes: list[Data] = field(default_factory=list)
    """The actions since the server started, newest first."""
    previews: dict[str, dict[str, str]] = field(default_factory=dict)
    """The conditions of each preview of a forgetting, by the preview's token."""
    _memory: Memory | None = None
    _earlier: LRUCache[tuple[str, str], Memory] = field(
        default_factory=lambda: LRUCache(KEPT_OPEN)
    )
    _opening: Lock = field(default_factory=Lock)

    @property
    def memory(self) -> Memory:
        """The memory.

        Raises:
            StoreMissing, NoRelease: the space has no release yet.
        """
        with self._opening:
            if self._memory is None:
                self._memory = Memory.open(self.settings.store, self.settings.space)
            return self._memory

    def open_release(self, name: str) -> Memory:
        """Return the memory at a release; the last few releases are kept open.

        Raises:
            NoRelease: no release has this name.
        """
        # A forgetting makes a new release, and drops the earlier ones.
        key = (
            self.view.release.name,
            name,
        )
        if (memory := self._earlier.get(key)) is None:
            memory = Memory.open(self.settings.store, self.settings.space, name)
            self._earlier.put(key, memory)
        return memory

    def close(self) -> None:
        """Close the memory: the next page opens it again, with a new release."""
        with self._opening:
            self._memory = None

    def name_project(self, workspace: str) -> str | None:
        """Return the shown name of a project, which tells projects of one name apart."""
        try:
            return self.memory.name_project(workspace)
        except SlowwaveError:
            return name_last_part(workspace)

    @property
    def view(self) -> View:
        """The view of the live release."""
        return self.memory.get_view()


@dataclass(frozen=True)
class Page:
    """A page: its address, the function that makes its data, and the template."""

    path: str
    build: Callable[..., Data]
    """Called with the explorer and, by name, the parameters of the address."""
    template: str

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """The parameters of the address by name: type, default and description."""
        fields: dict[str, Any] = {}
        for name, parameter in list(inspect.signature(self.build).parameters.items())[
            1:
        ]:
            kind, about = get_args(parameter.annotation)
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (
                kind,
                Field(default, description=about, ge=0 if kind is int else None),
            )
        return create_model(
            self.build.__name__, __config__=ConfigDict(extra="forbid"), **fields
        )

    def parse(self, given: Mapping[str, str]) -> Data:
        """Parse the parameters of an address as the function takes them.

        Raises:
            UsageError: a parameter is unknown, missing or not a number.
        """
        try:
            return dict(
                self.parameters.model_validate(
                    {name: value for name, value in given.items() if value.strip()}
                )
            )
        except ValidationError as wrong:
            raise UsageError(explain_invalid(wrong)) from None


def find_row(
    at: Explorer,
    row_id: str,
    kind: str,
    depth: int = 0,
) -> NodeLineage:
    """Return a row of a kind with `depth` levels below it, and the rows above it.

    Raises:
        UsageError: no row has the id, several do, or the row is of another kind.
    """
    lineage = show(at.view, row_id, depth)
    if lineage.node.kind != kind:
        raise NoSuchId(
            f"no {kind} has the id {row_id!r}: it is a {lineage.node.kind}'s"
        )
    return lineage


def read_rows(
    at: Explorer,
    table: Table,
    columns: Sequence[str],
    where: pc.Expression,
) -> list[Data]:
    """Return rows of the live release; an empty list if it lacks the table."""
    rows: list[Data] = (
        at.view.read(table, columns, where).to_pylist() if at.view.count(table) else []
    )
    return rows


def read_said_at(row: Mapping[str, Any]) -> datetime | None:
    """Return when a row was said (`observed_at`, `ts` or `at`), at the UTC offset of its speaker."""
    at = row.get("observed_at") or row.get("ts") or row.get("at")
    at = datetime.fromisoformat(at) if isinstance(at, str) and at else at
    return localise(at or None, row.get("utc_offset"))


def date_text(text: str, row: Mapping[str, Any]) -> str:
    """Return a text of a row with its date beside "yesterday" and the like; a summary's stays as it is."""
    is_of_many = row.get("kind") in GROUPS
    return text if is_of_many else add_days(text, read_said_at(row))


def explain_hit(hits: Hits, hit: Hit) -> Data:
    """Return the trace of a hit's rank: its score in each signal, and its rank after each stage."""
    return {
        "relevance": hit.relevance,
        "signals": {},
        "places": {},
        "order": "",
        **hits.trace.get(hit.id, {}),
    }
