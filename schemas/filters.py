"""The options of `recall` and `context`: one typed dict for Python, the command line and agents, and one text for each.

Imports little, to load fast.
"""

import inspect
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Annotated, Any, TypedDict, TypeVar, cast, get_args, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])
When = datetime | date | str | None
Files = Iterable[str] | str | None


class MessageFilters(TypedDict, total=False):
    """Conditions on what was said, each with what it is called for on the command line and to an agent."""

    workspace: Annotated[str | None, "In this project: its folder or name."]
    speaker: Annotated[str | None, "Said by this person: a whole or first name."]
    files: Annotated[Files, "About one of these files, as src/db.py."]
    since: Annotated[When, "Said from this date on (ISO, UTC)."]
    until: Annotated[When, "Said up to this date (ISO, UTC)."]
    as_of: Annotated[When, "What was true on this date (ISO, UTC), not now."]


class Filters(MessageFilters, total=False):
    """All conditions that `Memory.recall` takes as keywords; the Python, the command line's and the agents' are these.

    A typed dict, not a dataclass: so they stand here alone, and a caller writes `recall(query, speaker="Ada")` or keeps
    them (`mine = Filters(speaker="Ada")`) and writes `recall(query, **mine)`; either is checked by mypy.
    """

    category: Annotated[str | None, "Only claims of this category."]
    tag: Annotated[str | None, "This keyword or tag."]
    min_confidence: Annotated[float | None, "Least confidence of a claim, 0 to 1."]


class Extent(TypedDict, total=False):
    """How far an answer goes."""

    everything: Annotated[bool, "Also hits on other matters."]


class ContextOptions(MessageFilters, Extent, total=False):
    """The conditions and the extent of `Memory.context`."""


class RecallOptions(Filters, Extent, total=False):
    """The conditions and the extent of `Memory.recall`."""


ABOUT = {
    "k": "Most hits to return.",
    "kinds": "claim, message, summary (the default), topic; or session alone.",
    "budget": "Most tokens.",
    "web": "Also search the web, without personal data.",
}
"""Descriptions of the other options, whose types and defaults the command line and the tools of agents set."""


class ClaimFilters(TypedDict, total=False):
    """All conditions on claims that are listed without a question."""

    workspace: Annotated[str | None, "In this project: its folder or name."]
    category: Annotated[str | None, "Only claims of this category, as decision."]
    topic: Annotated[str | None, "In the topic of this name or id."]
    keyword: Annotated[str | None, "With this keyword, in any case."]
    min_confidence: Annotated[float | None, "Least confidence of a claim, 0 to 1."]
    since: Annotated[When, "Said from this date on (ISO, UTC)."]
    superseded: Annotated[bool | None, "Include superseded claims."]


def spell_out_filters(describe: Callable[[str, str], object]) -> Callable[[F], F]:
    """Return a decorator that replaces `**filters` in a function's signature by a parameter for each filter.

    Libraries that make options or a schema from the signature then see each filter.

    Args:
        describe: returns the annotation of a parameter from the filter's name and its description.
    """

    def spelt_out(function: F) -> F:
        (fields,) = get_args(function.__annotations__["filters"])
        hints = get_type_hints(fields, include_extras=True)
        signature = inspect.signature(function)
        plain = [
            item
            for item in signature.parameters.values()
            if item.kind is not item.VAR_KEYWORD
        ]
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=describe(name, about),
            )
            for name, about in (
                (name, hint.__metadata__[0]) for name, hint in hints.items()
            )
        ]
        cast(Any, function).__signature__ = signature.replace(
            parameters=[*plain, *more]
        )
        return function

    return spelt_out
