"""Commands that query the memory or add a note. They start without importing the pipeline."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from rich.text import Text

from slowwave.cli.common import (
    OUT,
    PROJECT,
    SpacesOption,
    command,
    echo,
    print_warnings,
    show_loading,
    truncate_line,
)
from slowwave.cli.opening import find_project
from slowwave.schemas.filters import ABOUT, ContextOptions, RecallOptions
from slowwave.schemas.ids import shorten_id
from slowwave.schemas.vocabulary import Role, Status
from slowwave.text.fence import FENCE_TOKENS, escape_control, escape_line, fence_block
from slowwave.text.times.days import format_day, format_minute
from slowwave.text.times.relative_days import add_days

if TYPE_CHECKING:
    from slowwave.context.build import Context
    from slowwave.flows.parts.report import RunReport
    from slowwave.memory import Memory
    from slowwave.recall.hits import Hit, Hits
    from slowwave.recall.sessions import SessionHit, SessionHits
    from slowwave.schemas.settings import Settings

SHOWN_CHARS = 300
"""Characters of a hit's text shown on a terminal."""
MOST_PROJECTS = 5
"""Projects that a message lists."""
Budget = Annotated[
    int | None, typer.Option(help=f"{ABOUT['budget']} Default: from the settings.")
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", help="minilm, bytes/4, tiktoken:ENCODING or a tokenizer.json."
    ),
]


@command
def recall(
    memory: "Memory",
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    k: Annotated[int, typer.Option("-k", "--k", "--limit", help=ABOUT["k"])] = 10,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help=f"{ABOUT['kinds']} May be repeated.",
        ),
    ] = None,
    space: SpacesOption = None,
    as_json: bool = False,
    **filters: Unpack[RecallOptions],
) -> dict[str, object] | None:
    """Print claims and messages that answer a query, with sources.

    It stops where the next hit is of another matter.
    Several spaces are searched only if each is named; each hit then names its space.
    """
    from slowwave.context.recall_log import note_hits

    # search one space or several
    if len(space or ()) > 1:
        hits: Hits | SessionHits = _recall_spaces(
            first=memory,
            spaces=space or [],
            query=query,
            k=k,
            kind=kind,
            options=filters,
        )
    else:
        memory.refuse_unknown_workspace(filters.get("workspace"))
        hits = memory.recall_kinds(query, k, kind or (), **filters)
        note_hits(memory.root / memory.space, hits)
    print_warnings(hits.warnings)
    if as_json:
        return hits.as_dict()
    _print_hits(memory, hits)
    return None


def _print_hits(
    memory: "Memory",
    hits: "Hits | SessionHits",
) -> None:
    """Print the hits with the caveat above them, and below them that hits of other matters were left out."""
    from slowwave.recall.sessions import SessionHits

    if isinstance(hits, SessionHits):
        lines = [_format_session(n, session) for n, session in enumerate(hits, 1)]
    else:
        lines = [
            format_hit(
                n,
                hit,
                sure=hits.confident,
                project=memory.name_project(hit.workspace),
            )
            for n, hit in enumerate(hits, 1)
        ]
    if not lines:
        OUT.say(f"Nothing found: {hits.reason}.")
    stopped = f"{hits.stopped}; --all prints it too" if hits.stopped else None
    paragraphs = filter(None, [hits.caveat, *lines, stopped])
    for line in "\n\n".join(paragraphs).splitlines():
        OUT.print(Text(escape_control(line), "dim" if line.startswith("   ") else ""))


def _recall_spaces(
    first: "Memory",
    spaces: list[str],
    query: str,
    k: int,
    kind: list[str] | None,
    options: RecallOptions,
) -> "Hits":
    """Return the hits of several spaces, and log each hit in its own space.

    Raises:
        UsageError: sessions or a release are requested, which belong to one space.
    """
    from slowwave.context.recall_log import note_hits
    from slowwave.memory import SESSION, Memory, recall_spaces
    from slowwave.recall.hits import KINDS, Hits
    from slowwave.schemas.errors import UsageError

    if first.named_release or SESSION in (kind or ()):
        raise UsageError(
            "--kind session and --release search one space at a time: name one --space"
        )
    memories = [
        first,
        *(
            Memory.open(first.root, name)
            for name in dict.fromkeys(spaces)
            if name != first.space
        ),
    ]
    hits = recall_spaces(
        memories=memories, query=query, k=k, kinds=kind or KINDS, **options
    )
    for memory in memories:
        note_hits(
            memory.root / memory.space,
            Hits((hit for hit in hits if hit.space == memory.space), hits.reason),
        )
    return hits


def format_hit(
    number: int,
    hit: "Hit",
    *,
    sure: bool = True,
    project: str | None = None,
) -> str:
    """Return a hit's text, then a line with its date, speaker, project and the id that `slowwave show` takes.

    The claim that was made of it follows in its own words, unless the lines above have them.
    """
    shortened = truncate_line(hit.shorten(SHOWN_CHARS).text, SHOWN_CHARS)
    text = add_days(hit.mark_changes(shortened), hit.said_at)
    facts = [
        format_day(hit.observed_at) if hit.observed_at else "undated",
        hit.speaker if hit.kind == "message" else hit.kind,
        project,
        hit.trust_note,
        f"space {hit.space}" if hit.space else None,
        escape_line(shorten_id(hit.id)),
        None if sure or hit.relevance is None else f"relevance {hit.relevance:.2f}",
        format_change(hit),
        *(check.note for check in hit.not_in_code),
    ]
    reply = hit.get_reply()
    turn = _format_turn(hit, text)
    below = _word_claim(hit, turn)
    if reply:
        dated = add_days(reply, hit.said_at)
        below.append(f"user, next: {truncate_line(dated, SHOWN_CHARS)}")
    lines = [*below, escape_line(" · ".join(filter(None, facts)))]
    first, *rest = [*turn, *lines]
    return "\n   ".join([f"{number}. {first}", *rest])


def _word_claim(hit: "Hit", turn: list[str]) -> list[str]:
    """Return the line of the claim that was made of a hit, if the lines of its turn do not have it."""
    from slowwave.recall.hits import has_words

    claim = add_days(hit.get_claim_in_other_words() or "", hit.said_at)
    if has_words(" ".join(turn), claim):
        return []
    return [truncate_line(claim, SHOWN_CHARS)]


def _format_turn(hit: "Hit", text: str) -> list[str]:
    """Return the lines of a hit's turn, in the order in which they were said: its text, and the passage of the other
    message if that is cited too.
    """
    from slowwave.recall.hits import mark_sentences

    other = hit.get_beside()
    if other is None:
        return [text]
    quote = truncate_line(hit.sources[1].quote, SHOWN_CHARS)
    marked = mark_sentences(quote, other.changes)
    said = f"{other.role}: {marked}"
    return [said, text] if other.role == Role.USER else [text, said]


@command
def recent(
    memory: "Memory",
    n: Annotated[int, typer.Argument(min=1, help="Most turns to list.")] = 10,
    workspace: Annotated[
        str | None, typer.Option(*PROJECT, help="Only what was said in this project.")
    ] = None,
    keyword: Annotated[
        str | None, typer.Option(help="Only turns with this keyword.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only turns with this tag.")] = None,
    as_json: bool = False,
) -> list[dict[str, object]] | None:
    """List the last turns, with their gists and keywords."""
    turns = memory.recent(n=n, workspace=workspace, keyword=keyword, tag=tag)
    if as_json:
        return [turn.as_dict() for turn in turns]
    if not turns:
        echo("No turn matches.")
    for turn in turns:
        project = memory.name_project(turn.workspace)
        words = ", ".join([*turn.keywords, *(f"#{tag}" for tag in turn.tags)])
        facts = [
            format_minute(turn.said_at),
            turn.speaker,
            project,
            shorten_id(turn.id),
            words,
        ]
        text = add_days(turn.gist or turn.text, turn.said_at)
        OUT.print(Text(truncate_line(text, SHOWN_CHARS)))
        OUT.print(Text(f"   {escape_line(' · '.join(filter(None, facts)))}", "dim"))
    return None


def _format_session(number: int, session: "SessionHit") -> str:
    days = dict.fromkeys(
        format_day(at) for at in (session.started_at, session.ended_at) if at
    )
    facts = [
        f"session {session.session}",
        " to ".join(days),
        session.workspace,
        f"likely {session.probability:.0%}",
    ]
    first = f"{number}. {escape_line(' · '.join(filter(None, facts)))}"
    lines = [
        f"   {truncate_line(text, SHOWN_CHARS)}"
        for text in (session.title, session.summary)
        if text
    ]
    sources = [
        f"   message {escape_line(s.message)}: “{truncate_line(s.quote, 160)}”"
        for s in session.sources
    ]
    return "\n".join([first, *lines, *sources])


def format_change(hit: "Hit") -> str:
    """Return a note on a certain or possible change of a hit; empty if no change is known, or its sentence is marked.

    The note on a message of one sentence includes what was said since.
    """
    if hit.perhaps_superseded_by and hit.is_partly_changed_by(
        hit.perhaps_superseded_by
    ):
        return ""
    if not hit.successor and hit.status == Status.ACTIVE:
        whole = [one for one in hit.changes if not hit.is_partly_changed_by(one.by)]
        return " ".join(change.note for change in whole)
    if hit.successor and hit.successor.takes_back:
        perhaps = "perhaps " if hit.perhaps_superseded_by else ""
        return f"{perhaps}taken back by {_format_successor(hit)}"
    if hit.successor and hit.successor.restores:
        perhaps = "perhaps " if hit.perhaps_superseded_by else ""
        return f"{perhaps}reverted by {_format_successor(hit)}"
    if hit.successor and hit.successor.corrects:
        at = hit.successor.observed_at
        day = f" on {format_day(at)}" if at else ""
        return f"corrected by you{day}: “{truncate_line(hit.successor.text, 100)}”"
    if hit.perhaps_superseded_by:
        return f"perhaps changed since by {_format_successor(hit)}"
    changed = (
        "" if hit.status == Status.NOT_DISTILLED else f" by {_format_successor(hit)}"
    )
    return "" if hit.status == Status.ACTIVE else f"{hit.status}{changed}"


def _format_successor(hit: "Hit") -> str:
    """Return the text and date of the claim that replaced a hit. Another project's has no text."""
    if hit.successor is None:
        return "what came later"
    at = hit.successor.observed_at
    text = truncate_line(add_days(hit.successor.text, at), 100)
    said = f"“{text}”" if text else "what came later"
    return f"{said}{f', {format_day(at)}' if at else ''}"


@command
def context(
    memory: "Memory",
    query: Annotated[
        str,
        typer.Argument(help="What the model will be asked, or a report of a problem."),
    ],
    budget: Budget = None,
    automatic: Annotated[
        bool,
        typer.Option(
            "--automatic",
            help="For a hook: print nothing unless something is relevant.",
        ),
    ] = False,
    web: Annotated[bool, typer.Option("--web", help=ABOUT["web"])] = False,
    tokenizer: TokenizerOption = None,
    as_json: bool = False,
    **filters: Unpack[ContextOptions],
) -> None:
    """Print a block for a prompt: what past sessions say on a query.

    It is packed into a budget of tokens, each line with its source.
    """
    from slowwave.text.words import find_phrase

    memory.refuse_unknown_workspace(filters.get("workspace"))
    # begin to search the web
    results = None
    chosen = memory.settings.web
    if web or (chosen.enabled and find_phrase(chosen.keywords, query)):
        from slowwave.schemas.plugins import load_plugin

        settings = chosen.model_copy(update={"enabled": True})
        results = load_plugin("slowwave.web", "search", "web")(
            settings, memory.list_people(), query
        )
    # pack the block, with the web's answer
    block = memory.context(
        query,
        budget and max(0, budget - FENCE_TOKENS),
        web=results or (),
        tokenizer=tokenizer,
        format="json" if as_json else "markdown",
        automatic=automatic,
        **filters,
    )
    print_warnings(results.answer.warnings if results else ())
    _print_block(
        memory=memory,
        block=block,
        nothing="Nothing found.",
        as_json=as_json,
        web=results.answer.cause if results else "",
    )


@command
def briefing(
    memory: "Memory",
    budget: Budget = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            *PROJECT, help="The project; default: that of this folder, if known."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Include every project, whatever the folder.")
    ] = False,
    tokenizer: TokenizerOption = None,
    as_json: bool = False,
) -> None:
    """Print what is known, to start a conversation with.

    In the folder of a known project it is about that project, elsewhere about all, each named. The output stays the
    same until the next release, apart from a first line where transcripts have waited for more than a day.
    """
    from slowwave.flows.status import describe_backlog

    project = None if everything else workspace or find_project(memory)
    if project is None and not everything:
        print_warnings(describe_unknown_folder(memory))
    room = budget and max(0, budget - FENCE_TOKENS)
    block = memory.briefing(
        room,
        tokenizer=tokenizer,
        format="json" if as_json else "markdown",
        workspace=project,
    )
    echo("" if as_json else describe_backlog(memory.settings), nl=False)
    _print_block(
        memory=memory, block=block, nothing="Nothing known yet.", as_json=as_json
    )


def describe_unknown_folder(memory: "Memory") -> list[str]:
    """Return a warning that this folder is not a known project, with those that are; none if no project is known.

    If files of a known project that is gone are here, it was probably moved: the warning then says how to join the two.
    """
    from slowwave.context.projects.moved import describe_moved
    from slowwave.store.store import Store

    projects = memory.list_projects()
    if not projects:
        return []
    unknown = "the memory knows no project in this folder, so this covers all projects"
    store = Store.open(
        memory.root,
        memory.space,
    )
    if moved := describe_moved(store, memory.list_workspaces(), [str(Path.cwd())]):
        return [f"{unknown}. {moved}"]
    shown = ", ".join(projects[:MOST_PROJECTS])
    if len(projects) > MOST_PROJECTS:
        shown = f"{shown}, …"
    return [f"{unknown}; --project takes one: {shown}"]


def _print_block(
    memory: "Memory",
    block: "Context",
    nothing: str,
    as_json: bool,
    web: str = "",
) -> None:
    """Print the block (fenced, or as JSON), print warnings on stderr, and log the block as returned.

    Args:
        nothing: text printed in place of an empty block, unless as JSON.
        web: why the web was queried; empty if it was not.
    """
    from slowwave.context.recall_log import note_block

    note_block(memory.root / memory.space, block, web)
    print_warnings(block.warnings)
    if as_json:
        echo(block.text or "{}")
    else:
        echo(fence_block(block.text) if block.text else nothing)


@command
def remember(
    settings: "Settings",
    text: Annotated[
        str,
        typer.Argument(
            help="What to remember, understandable without context; - reads standard input."
        ),
    ],
    workspace: Annotated[
        str | None,
        typer.Option(
            *PROJECT,
            help="The project that it belongs to; default: that of this folder.",
        ),
    ] = None,
    of_none: Annotated[
        bool,
        typer.Option(
            "--no-project", help="It belongs to no project, whatever the folder."
        ),
    ] = False,
    of_agent: Annotated[
        bool,
        typer.Option(
            "--agent",
            help="Mark it as an agent's note (the default without a terminal).",
        ),
    ] = False,
    speaker: Annotated[str | None, typer.Option(help="The person who says it.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A tag to keep with it; may be repeated.")
    ] = None,
) -> None:
    """Write down a note.

    Recall finds it at once, marked as not yet distilled; the next night distils it like any message. Secrets become
    placeholders. Without a terminal it counts as an agent's note, until `slowwave include` confirms it.
    """
    from slowwave.schemas.errors import UsageError
    from slowwave.store.notes import is_unfinished, write_note
    from slowwave.store.place import check_writable

    # the note, as a person's or an agent's
    check_writable(settings)
    if is_unfinished(settings.store / settings.space):
        finish_before_noting(settings)
    if workspace and of_none:
        raise UsageError(
            "--project and --no-project exclude each other: give one of them"
        )
    project = None if of_none else _find_noted_project(settings, workspace)
    of_person = is_of_person(of_agent)
    options: dict[str, Any] = {
        "of_person": of_person,
        "speaker": speaker,
        "tags": tag or (),
        "redact": settings.redact,
    }
    words = sys.stdin.read() if text == "-" else text
    try:
        session = write_note(
            settings.store / settings.space, words, workspace=project, **options
        )
    except OSError as refused:
        raise UsageError(f"not noted: {refused}") from None
    whose = f", of {escape_line(project)}" if project else ", of no project"
    OUT.print(
        f"Noted as {session}{whose}. Recall finds it now; the next night distils it."
    )
    if not of_person:
        OUT.print(
            f"It counts as an agent's note: no briefing shows it until `slowwave include {session}` confirms it."
        )


def _find_noted_project(settings: "Settings", workspace: str | None) -> str | None:
    """Return the project of a note: the named one, else that of this folder."""
    from slowwave.memory import find_folder_project, settle_project

    if workspace:
        return settle_project(settings, workspace)
    return find_folder_project(settings)


def is_of_person(of_agent: bool) -> bool:
    """Return True if a note is a person's: it is not marked as an agent's, and a terminal is there."""
    return not of_agent and any(
        stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


@command
def correct(
    settings: "Settings",
    claim: Annotated[
        str, typer.Argument(help="The claim's id, or its first characters.")
    ],
    text: Annotated[
        str | None, typer.Argument(help="What is right; - reads standard input.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the claim's last correction back.")
    ] = False,
    of_agent: Annotated[
        bool,
        typer.Option(
            "--agent",
            help="Mark it as an agent's note (the default without a terminal).",
        ),
    ] = False,
    speaker: Annotated[str | None, typer.Option(help="The person who says it.")] = None,
) -> "RunReport | None":
    """Correct a claim, or take the correction back.

    The words are kept as a note. Recall shows it at once, and in the next night it replaces the claim, which is
    marked as superseded. `slowwave correct ID --undo` takes it back: the claim holds as before. Without a terminal it
    counts as an agent's note, and changes nothing until `slowwave include` confirms it.
    """
    from slowwave.memory import Memory
    from slowwave.schemas.errors import UsageError
    from slowwave.store.notes import is_unfinished

    if undo == (text is not None):
        raise UsageError("give either the right words or --undo")
    if text is None:
        return _undo_correction(settings, claim)
    if is_unfinished(settings.store / settings.space):
        finish_before_noting(settings)
    of_person = is_of_person(of_agent)
    words = sys.stdin.read() if text == "-" else text
    memory = Memory.open(settings.store, settings.space)
    try:
        note = memory.correct(claim, words, of_person=of_person, speaker=speaker)
    except OSError as refused:
        raise UsageError(f"not noted: {refused}") from None
    then = (
        f"Corrected by {note}; recall shows it now, and the next night replaces the claim."
        if of_person
        else f"Noted as {note}, an agent's correction: `slowwave include {note}` confirms it."
    )
    OUT.say(f"{then} `slowwave correct {claim} --undo` takes it back.")
    return None


def _undo_correction(settings: "Settings", name: str) -> "RunReport":
    """Leave the last correction of a claim out, so that the claim holds as before; return the report of the run."""
    with show_loading():
        from slowwave.flows.exclude import run_exclude
        from slowwave.memory import Memory
        from slowwave.recall.views.corrected import find_correction

    view = Memory.open(settings.store, settings.space).get_view()
    note = find_correction(view, name)
    return run_exclude([note], "the correction was taken back", settings)


def finish_before_noting(settings: "Settings") -> None:
    """Finish a forgetting that a killed run left; if a run is in progress, leave it to that run."""
    from slowwave.schemas.errors import StoreError

    try:
        from slowwave.flows.forget import finish_unfinished

        report = finish_unfinished(settings)
        print_warnings(report.notes if report else ())
    except (
        StoreError,
        ModuleNotFoundError,
    ) as trouble:
        # An install for reading alone has no flows.
        print_warnings(
            [f"a forgetting is not finished, and the next night finishes it: {trouble}"]
        )
