"""`slowwave show`: list the memory's rows of a kind, or show a row by its id."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_type_hints

import typer

from slowwave.cli.common import command, echo, truncate_line
from slowwave.cli.opening import find_project
from slowwave.schemas.errors import UsageError
from slowwave.schemas.filters import ClaimFilters
from slowwave.schemas.ids import shorten_id
from slowwave.schemas.vocabulary import Status, is_own, is_shared
from slowwave.text.cells import LISTED_CHARS
from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_day, format_minute, localise
from slowwave.text.times.relative_days import add_days

if TYPE_CHECKING:
    from slowwave.memory import Memory
    from slowwave.recall.views.browse import Claim
    from slowwave.recall.views.related import Related
    from slowwave.recall.views.show import Node

LISTED = 20
"""Number of claims listed without --limit."""
SHADES = " ▁▂▃▄▅▆▇█"
"""Bars for the claims of a week: none up to the highest count of the weeks shown."""
HEADINGS = {
    "co_edit": "Files that change together",
    "sequence": "Steps that follow each other",
    "command": "Commands",
}
"""Headings of habits, by their kind."""

OutliersOption = Annotated[
    bool,
    typer.Option(
        "--outliers", help="Claims far off the others of their topic, farthest first."
    ),
]
DOUBTS = {
    "perhaps_superseded_by": "perhaps changed",
    "not_in_code": "doubted by the code",
}
"""What is said beside a row that has one of these facts."""


@command
def show(
    memory: "Memory",
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="claims, topics, habits, dead-ends, intentions or related; or an id, or SESSION/MESSAGE.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            help="For related: a claim's id, a file, person, project or tool."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"Most rows to list; default: {LISTED}."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help="Levels below an id, or steps of relations (1 to 5)."),
    ] = None,
    keywords: Annotated[
        bool, typer.Option("--keywords", help="Count the keywords of these claims.")
    ] = False,
    outliers: OutliersOption = False,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file", help="Habits: files that change with this one. May be repeated."
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Habits, dead ends or intentions of all projects."),
    ] = False,
    as_json: bool = False,
    **filters: Unpack[ClaimFilters],
) -> Any:
    """Show a claim or what else has an id, or list all of a kind.

    The kinds are claims, topics, habits, dead ends (what was tried and left), intentions, and what is related to a
    name. An id (or its first characters) names a claim, summary, topic, session or message: shown are its sources,
    down to the messages, and what contains it.
    """
    options: dict[str, Any] = {
        "name": name,
        "limit": limit,
        "depth": depth,
        "keywords": keywords,
        "outliers": outliers,
        "files": file,
    }
    options |= {"all": everything, **filters}
    given = {
        key: value for key, value in options.items() if value not in (None, False, [])
    }
    list_rows, takes = KINDS.get(what, (None, {"depth"}))
    _refuse_options(what if list_rows else "an id", given.keys() - takes)
    if list_rows is None:
        return _show_row(memory, what, depth, as_json=as_json)
    rows, lines = list_rows(memory, **given)
    if as_json:
        return rows
    echo("\n".join(lines) or f"No {what}.")
    return None


def _refuse_options(of: str, wrong: set[str]) -> None:
    """Raise a usage error that names the options, if there are any."""
    if wrong:
        names = " or ".join(NAMES.get(key, f"--{key}") for key in sorted(wrong))
        raise UsageError(f"`slowwave show` of {of} does not accept {names}")


def _show_row(
    memory: "Memory",
    id: str,
    depth: int | None,
    *,
    as_json: bool,
) -> Any:
    """Show a row of any kind with the rows below, above and related to it; with `as_json`, return them as data."""
    from slowwave.recall.views.show import show as find_row

    try:
        details = find_row(memory.get_view(), id, depth)
    except UsageError as unknown:
        alike = get_close_matches(id, KINDS, 1, NEAR)
        raise (
            UsageError(f"{unknown}. Did you mean `slowwave show {alike[0]}`?")
            if alike
            else unknown
        ) from None
    if as_json:
        return details.as_dict()
    lines = _format_node_lines(details.node, 0, whole=True)
    if details.above:
        lines += ["part of", *(_format_node(node, 1) for node in details.above)]
    if details.related:
        lines.append("related")
    for node in details.related:
        lines.append(
            f"  {node.facts['relation'].replace('_', ' ')}: {_format_node(node, 0)}"
        )
    echo("\n".join(lines))
    return None


def _list_claims(
    memory: "Memory",
    limit: int = LISTED,
    keywords: bool = False,
    outliers: bool = False,
    **filters: Unpack[ClaimFilters],
) -> tuple[object, list[str]]:
    """Return the current claims, newest first; with `keywords`, the number of claims with each keyword."""
    from slowwave.context.recall_log import note_listed

    claims = memory.claims(None if keywords else limit, outliers=outliers, **filters)
    if keywords:
        every_word = Counter(word for claim in claims for word in claim.keywords)
        counts = dict(every_word.most_common(limit))
        lines = [f"{count:>5,}  {word}" for word, count in counts.items()]
        return counts, lines + _say_more(len(counts), len(every_word))
    note_listed(memory.root / memory.space, claims)
    every = memory.count_claims(outliers=outliers, **filters)
    lines = [_format_claim(claim, memory) for claim in claims]
    lines += _say_more(len(claims), every)
    return [claim.as_dict() for claim in claims], lines


def _say_more(
    shown: int,
    every: int,
) -> list[str]:
    """Return a line that says how many of all rows are listed, unless all are."""
    return [f"{shown:,} of {every:,}; --limit N for more"] if shown < every else []


def _format_claim(claim: "Claim", memory: "Memory") -> str:
    """Return the claim on one line, and its properties on a second."""
    sessions = (
        f"{claim.sessions} sessions"
        if claim.sessions > 1
        else f"session {claim.session}"
    )
    facts = [
        claim.category,
        f"{claim.confidence:.0%} likely worth remembering",
        sessions,
        claim.speaker,
        claim.topic,
        memory.name_project(claim.workspace),
    ]
    facts += [", ".join(claim.files[:3])] if claim.files else []
    facts += [f"not {gate}" for gate in claim.shut]
    facts += [check.note for check in claim.not_in_code]
    if is_shared(claim.observer):
        facts.append(claim.observer)
    elif not is_own(claim.trust):
        facts.append(claim.trust)
    text = claim.summary if not claim.detail else f"{claim.summary}: {claim.detail}"
    return _format_two_lines(
        claim=claim,
        status=claim.status if claim.superseded_by else "",
        text=text,
        facts=facts,
    )


def _list_related(
    memory: "Memory",
    name: str = "",
    limit: int = LISTED,
    depth: int = 1,
) -> tuple[object, list[str]]:
    """Return claims related to a claim or a name: by shared files and names, by order, or by change."""
    from slowwave.context.recall_log import note_listed

    if not name:
        raise UsageError("related to what: slowwave show related ID|NAME")
    every = memory.related(name, depth)
    related = every[:limit]
    note_listed(memory.root / memory.space, related)
    lines = [*map(_format_related, related), *_say_more(len(related), len(every))]
    return [claim.as_dict() for claim in related], lines


def _format_related(claim: "Related") -> str:
    """Return the claim on one line, and its relation on a second."""
    how = " ".join(
        filter(
            None,
            (
                claim.relation.replace("_", " "),
                f"({claim.reason})" if claim.reason else "",
            ),
        )
    )
    facts = [
        how,
        f"of {claim.of[:12]}" if claim.steps > 1 else "",
        f"session {claim.session}",
    ]
    return _format_two_lines(
        claim=claim,
        status="" if claim.status == Status.ACTIVE else claim.status,
        text=claim.summary,
        facts=facts,
    )


def _format_two_lines(
    claim: "Claim | Related",
    status: str,
    text: str,
    facts: Sequence[str | None],
) -> str:
    when = format_day(claim.observed_at) if claim.observed_at else "undated"
    text = add_days(text, claim.observed_at)
    stale = f" ({status})" if status else ""
    more = " · ".join(filter(None, facts))
    return f"{claim.id[:12]}  {when:>11}{stale}  {truncate_line(text, LISTED_CHARS)}\n{' ' * 14}{escape_line(more)}"


def _list_topics(memory: "Memory") -> tuple[object, list[str]]:
    """Return the topics, the strongest first, with their claims week by week."""
    topics = memory.topics()
    several = len({topic.workspace for topic in topics}) > 1
    busiest = max((count for topic in topics for count in topic.weeks), default=0) or 1
    lines = []
    for topic in topics:
        # On one line: claims, strength, the last weeks as bars, days and name; its text below.
        bars = "".join(
            SHADES[-(-count * (len(SHADES) - 1) // busiest)] for count in topic.weeks
        )
        days = " to ".join(
            format_day(at) if at else "undated"
            for at in (topic.first_at, topic.last_at)
        )
        name = truncate_line(topic.title, 100)
        name += _name_place(memory, topic.workspace) * several
        lines.append(
            f"{topic.claims:>5,} claims  strength {topic.strength:>5,}  |{bars}|  {days}  {name}"
        )
        lines += (
            [f"{' ' * 14}{truncate_line(topic.text, LISTED_CHARS)}"]
            if topic.text
            else []
        )
    return [topic.as_dict() for topic in topics], lines


def _list_habits(
    memory: "Memory",
    workspace: str | None = None,
    files: list[str] | None = None,
    all: bool = False,
) -> tuple[object, list[str]]:
    """Return the habits of a project, by default this folder's, by kind."""
    project = _choose_project(memory, workspace, all)
    habits = memory.habits(project, None, files or ())
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        if alike := [habit for habit in habits if habit.kind == kind]:
            several = len({habit.workspace for habit in alike}) > 1
            lines += ["", heading]
            lines += [
                f"  {escape_line(habit.describe())}{_name_place(memory, habit.workspace) * several}"
                for habit in alike
            ]
    return [habit.as_dict() for habit in habits], lines[1:]


def _choose_project(
    memory: "Memory",
    workspace: str | None,
    everywhere: bool,
) -> str | None:
    """Return the project to list: the one named, or else this folder's; None for all projects."""
    return None if everywhere else workspace or find_project(memory)


def _name_place(
    memory: "Memory",
    workspace: str | None,
) -> str:
    """Return the project's name in brackets, as it stands behind a line of a list of several projects; "" for none."""
    name = memory.name_project(workspace)
    return f"  [{escape_line(name)}]" if name else ""


def _list_dead_ends(
    memory: "Memory",
    workspace: str | None = None,
    limit: int = LISTED,
    all: bool = False,
) -> tuple[object, list[str]]:
    """Return the dead ends of a project, by default this folder's, the latest first. They are logged as recalled."""
    from slowwave.store.logs import log_recall

    project = _choose_project(memory, workspace, all)
    every = memory.dead_ends(project)
    found = every[:limit]
    log_recall(memory.root / memory.space, {one.id: [one.describe()] for one in found})
    several = len({one.workspace for one in found}) > 1
    lines = [
        f"{one.describe()}{_name_place(memory, one.workspace) * several}"
        for one in found
    ]
    return [one.as_dict() for one in found], lines + _say_more(len(found), len(every))


def _list_intentions(
    memory: "Memory",
    workspace: str | None = None,
    limit: int = LISTED,
    all: bool = False,
) -> tuple[object, list[str]]:
    """Return the intentions of people in a project, by default this folder's: by day, those without a day last.

    The listed intentions are logged as recalled.
    """
    from slowwave.store.logs import log_recall

    project = _choose_project(memory, workspace, all)
    every = memory.intentions(project)
    found = every[:limit]
    log_recall(memory.root / memory.space, {one.id: [one.text] for one in found})
    lines = list[str]()
    for one in found:
        lines.append(one.describe())
        if not one.when:
            lines.append(f"  {escape_line(one.moment)}")
    return [one.as_dict() for one in found], lines + _say_more(len(found), len(every))


def _format_node_lines(
    node: "Node",
    level: int,
    *,
    whole: bool = False,
) -> list[str]:
    lines = [_format_node(node, level, whole=whole)]
    lines += (
        [
            f"  {name}: {escape_line(_format_fact(value, node))}"
            for name, value in node.facts.items()
            if not _repeats(name, node)
        ]
        if whole
        else []
    )
    return lines + [
        line for below in node.below for line in _format_node_lines(below, level + 1)
    ]


def _repeats(name: str, node: "Node") -> bool:
    """Return True if a fact of a row only repeats what stands above it: the whole text, or the time it was said."""
    value = node.facts[name]
    if name == "quote":
        return bool(value == node.dated_text)
    return name == "valid_from" and value == node.facts.get("observed_at")


def _format_fact(value: Any, node: "Node") -> str:
    """Return a fact of a row as text. A time is shown in the time zone of its message, or else of this machine."""
    if isinstance(value, tuple):  # a score with its name
        return f"{value[0]} {value[1]:.3g}"
    if isinstance(value, list):
        return ", ".join(_format_fact(one, node) for one in value)
    if not isinstance(value, datetime):
        return str(value)
    return format_minute(localise(value, node.facts.get("utc_offset")))


def _format_node(
    node: "Node",
    level: int,
    *,
    whole: bool = False,
) -> str:
    dated = node.dated_text
    text = escape_line(dated) if whole else truncate_line(dated, 160)
    status = node.facts.get("status", Status.ACTIVE)
    doubts = [] if status == Status.ACTIVE else [status]
    doubts += [doubt for name, doubt in DOUBTS.items() if node.facts.get(name)]
    stale = ""
    if doubts:
        stale = f" ({', '.join(doubts)})"
    tier = f" tier {node.facts['tier']}" if "tier" in node.facts else ""
    return f"{'  ' * level}{node.kind}{tier} {shorten_id(node.id)}{stale}  {text}"


NEAR = 0.7
"""Similarity from which on a word is taken for a misspelt kind."""
NAMES = {
    "files": "--file",
    "name": "second word",
    "min_confidence": "--min-confidence",
    "workspace": "--project",
}
"""Options whose name differs from their parameter's."""
KINDS: dict[str, tuple[Callable[..., tuple[object, list[str]]], set[str]]] = {
    "claims": (
        _list_claims,
        {"limit", "keywords", "outliers", *get_type_hints(ClaimFilters)},
    ),
    "topics": (_list_topics, set()),
    "habits": (_list_habits, {"workspace", "files", "all"}),
    "dead-ends": (_list_dead_ends, {"workspace", "limit", "all"}),
    "intentions": (_list_intentions, {"workspace", "limit", "all"}),
    "related": (_list_related, {"name", "limit", "depth"}),
}
"""The function that lists the rows of a kind, and its options."""
