"""`slowwave talk`: a chat in the terminal with a language model that has a memory."""

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import ERR, OUT, PROJECT, command
from slowwave.cli.opening import load_settings, start_small_night
from slowwave.text.cells import shorten_text

if TYPE_CHECKING:
    from slowwave.context.conversation import Recalled, Turns
    from slowwave.context.rendering import Line
    from slowwave.engines.encoders.protocol import Encoder
    from slowwave.engines.llm.protocol import LLM
    from slowwave.memory import Memory
    from slowwave.plugins.talk.talk import Conversation
    from slowwave.plugins.talk.web.search import WebSearch
    from slowwave.schemas.settings import Settings

HELP = """/why     what the last answer was given: web results, memories, earlier turns, and what was left out
/memory  what is in mind: summaries of this conversation, level by level, and its turns, the strongest first
/rate    how much a turn matters, 0 to 1: /rate 0.9 is of your last message, /rate 12 0 of turn 12
/help    this
/quit    leave; so does the end of input (Ctrl-D). Ctrl-C stops an answer."""
LISTED = 20
"""Most turns that /memory and /why list."""


@command
def talk(
    given: dict[str, Any],
    llm: Annotated[
        str | None,
        typer.Option(help="The language model, written as in the setting llm."),
    ] = None,
    web: Annotated[
        bool | None, typer.Option("--web/--no-web", help="Search the web where needed.")
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            *PROJECT,
            help="Use only memories of this project, which the talk then belongs to.",
        ),
    ] = None,
) -> None:
    """Chat with a language model that can use the memory.

    When it ends, the conversation is distilled in the background, or by the next night if `same_day` is off.
    """
    from slowwave.engines.llm.select import OFFERED, select_llm
    from slowwave.memory import settle_project
    from slowwave.plugins.talk.talk import Conversation
    from slowwave.schemas.errors import UsageError
    from slowwave.store.notes import TalkLog
    from slowwave.store.place import check_writable

    given |= {"web": {"enabled": web}} if web is not None else {}
    given |= {"llm": llm, "models": {"talk": ""}} if llm else {}
    settings = load_settings(**given)
    check_writable(settings)
    spec = settings.get_llm("talk")
    model = select_llm(spec, settings.model)
    if model is None:
        raise UsageError(
            f"no language model is set ({spec!r}): SLOWWAVE_LLM or --llm names one of {OFFERED}"
        )
    folder = settings.store / settings.space
    memory = _try_open_memory(settings)
    # Stored as an absolute path, since "." changes.
    workspace = settle_project(settings, workspace)
    conversation = Conversation(
        model,
        memory,
        settings,
        log=TalkLog(folder, workspace, redact=settings.redact),
        web=_build_web_search(settings, model, memory.list_people() if memory else []),
        workspace=workspace,
        space_dir=folder,
        encoder=_load_encoder(settings),
    )
    OUT.print(_greet(conversation.llm, settings))
    try:
        for typed in takewhile(
            lambda line: line not in ("/quit", "/exit"), _read_input_lines()
        ):
            _print_answer(conversation, typed)
    finally:
        if conversation.log and conversation.log.count:
            start_small_night(conversation.log.path, given)


def _greet(llm: "LLM", settings: "Settings") -> str:
    """Return a greeting: the model, and whether turns that no longer fit its window are summarised."""
    share = settings.context.active.recap_share
    summaries = (
        f"Summaries are on: up to {share:.0%} of the conversation's room tell of turns that no longer fit."
        if share
        else "Summaries are off (context.active.recap_share is 0): turns that no longer fit are left out."
    )
    return f"Talking with {llm.model}. {summaries} /help lists what else there is."


def _try_open_memory(settings: "Settings") -> "Memory | None":
    """Return the memory; None, with a message, before the first night or if it can't be read."""
    from slowwave.memory import Memory
    from slowwave.schemas.errors import StoreError

    try:
        return Memory.open(settings.store, settings.space)
    except StoreError as missing:
        ERR.print(f"slowwave: talking without a memory: {missing}")
        return None


def _load_encoder(settings: "Settings") -> "Encoder | None":
    """Return the encoder that finds earlier turns; None if it is switched off or can't be loaded."""
    from slowwave.engines.encoders.load import load_query_encoder
    from slowwave.schemas.errors import EncoderNotFound

    try:
        return load_query_encoder(settings.encoder) if settings.embeddings else None
    except EncoderNotFound:
        return None


def _build_web_search(
    settings: "Settings", llm: "LLM", names: list[str]
) -> "WebSearch | None":
    if not settings.web.enabled:
        return None
    from slowwave.engines.llm.select import select_llm
    from slowwave.plugins.talk.web.search import WebSearch, make_llm_judge

    judge = (
        select_llm(settings.web.judge, settings.model) if settings.web.judge else None
    ) or llm
    return WebSearch(settings.web, make_llm_judge(judge), names=names)


def _read_input_lines() -> Iterator[str]:
    """Yield the typed lines until the input ends."""
    with suppress(ImportError):
        import_module("readline")  # arrow keys and history
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            OUT.print()
            return
        if line:
            yield line


def _print_answer(conversation: "Conversation", typed: str) -> None:
    """Run a slash command, or print an answer as it arrives; after an error the conversation continues."""
    from slowwave.engines.llm.protocol import ModelNotServed
    from slowwave.schemas.errors import SlowwaveError

    if typed.startswith("/"):
        name, *given = typed.split()
        if name == "/rate":
            OUT.print(_rate_turn(conversation, given))
        elif name == "/memory":
            OUT.print(_list_traces(conversation))
        else:
            OUT.print(_explain_last_answer(conversation) if name == "/why" else HELP)
        return
    try:
        with closing(conversation.say(typed)) as pieces:
            for piece in pieces:
                OUT.print(piece, end="")
    except KeyboardInterrupt:
        OUT.print(" … stopped", end="")
    except ModelNotServed:
        raise  # later turns would fail too
    except SlowwaveError as trouble:
        ERR.print(f"slowwave: {trouble}", style="red")
    # the number of memories and web results in its context
    block = conversation.recalled.block if conversation.recalled else None
    names = {"memories": "from memory", "web": "from the web"}
    counts = (
        [
            f"{len(part.lines)} {names[part.name]}"
            for part in block.parts
            if part.name in names
        ]
        if block
        else []
    )
    OUT.print(f"\n[{', '.join(counts)}: /why]" if counts else "\n", style="dim")


def _rate_turn(conversation: "Conversation", given: list[str]) -> str:
    """Set the strength of a turn (default: the person's last message), and return a message."""
    turns = conversation.turns.messages
    latest = max(
        (n for n, (role, _) in enumerate(turns, 1) if role == "user"), default=0
    )
    try:
        number = int(given[0]) if len(given) == 2 else latest
        strength = float(given[-1])
        is_rated = conversation.turns.active.set_strength(number - 1, strength)
    except (ValueError, IndexError):
        return "A rating is 0 to 1, of a turn by its number: /rate 0.9, or /rate 12 0."
    return (
        f"Turn {number} now has strength {strength:.2f}."
        if is_rated
        else f"Turn {number} is not in mind."
    )


def _list_traces(conversation: "Conversation") -> str:
    """Return the state of active memory, the strongest turns first."""
    mind = conversation.turns.active
    strongest = sorted(
        mind.traces, key=lambda trace: (-mind.compute_strength(trace), -trace.number)
    )
    head = f"{len(mind.traces):,} of {mind.heard:,} turns in mind, {mind.settings.capacity:,} at most"
    turns = conversation.turns
    lines = [
        f"{mind.compute_strength(trace):.2f}  {_list_turn(turns, trace.number)}"
        for trace in strongest[:LISTED]
    ]
    summaries = list(filter(None, [turns.render_summary()]))
    return "\n".join(
        [*summaries, f"{head}; the strongest:" if lines else f"{head}.", *lines]
    )


def _list_turn(turns: "Turns", number: int) -> str:
    """Return the beginning of a turn, with its number from 1 and its speaker's role."""
    role, text = turns.messages[number]
    return f"{number + 1} {role}: {shorten_text(' '.join(text.split()), 100)}"


def _explain_turns(turns: "Turns", recalled: "Recalled") -> list[str]:
    """Return lines on the turns in the prompt, the activation of older ones, and the turns left out."""

    def list_turns(lines: "Iterable[Line]") -> list[str]:
        ranked = sorted(lines, key=lambda line: -line.relevance)[:LISTED]
        return [
            f"  {line.relevance:.2f} {_list_turn(turns, line.source.seq or 0)}"
            for line in ranked
        ]

    shown = recalled.shown
    left_out = recalled.left_out
    lines = (
        [f"{len(recalled.recent)} latest turns went along as they are."]
        if recalled.recent
        else []
    )
    lines += (
        [f"{len(shown)} earlier turns were called up, the most activated first:"]
        if shown
        else []
    )
    lines += list_turns(shown)
    lines += (
        [f"{len(recalled.recap)} summaries tell of turns that did not go along."]
        if recalled.recap
        else []
    )
    lines += (
        [f"{len(left_out)} turns were left out, the most activated first:"]
        if left_out
        else []
    )
    return lines + list_turns(left_out)


def _explain_last_answer(conversation: "Conversation") -> str:
    """Return a description of the input to the last answer."""
    recalled = conversation.recalled
    if recalled is None:
        return "Nothing was asked yet."
    tokens = (
        f"{recalled.block.tokens:,} tokens\n"
        if recalled.block and recalled.text
        else ""
    )
    lines = [tokens + recalled.text] if recalled.text else []
    if recalled.reason:
        lines.append(f"No memory was recalled: {recalled.reason.rstrip('.')}.")
    if recalled.web.query:
        lines.append(
            f"The web was asked for {recalled.web.query!r} ({recalled.web.why})."
        )
    elif recalled.web.why:
        lines.append(f"The web was not asked: {recalled.web.why}.")
    lines += _explain_turns(conversation.turns, recalled.turns)
    return "\n".join([*lines, *(f"Note: {note}" for note in recalled.warnings)])
