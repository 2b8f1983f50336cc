"""`slowwave talk`: a chat in the terminal with a language model that remembers."""

from collections.abc import Iterator
from contextlib import closing, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import ERR, OUT, SpaceOption, StoreOption, load_settings, report_errors

if TYPE_CHECKING:
    from slowwave.chat.talk import Conversation
    from slowwave.engines.encoders.protocol import Encoder
    from slowwave.engines.llm.streaming import Speaker
    from slowwave.memory import Memory
    from slowwave.schemas.settings import Settings
    from slowwave.web.search import WebSearch

HELP = """/why    what the last answer was given: web results, memories, recap
/help   this
/quit   leave; so does the end of input (Ctrl-D). Ctrl-C stops an answer."""


def talk(
    llm: Annotated[
        str | None, typer.Option(help="The language model, as in the setting llm.", show_default=False)
    ] = None,
    web: Annotated[
        bool | None, typer.Option("--web/--no-web", help="Ask the web where needed.", show_default=False)
    ] = None,
    workspace: Annotated[
        str | None, typer.Option(help="Only memories of this workspace; it becomes the talk's.", show_default=False)
    ] = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Chat with a language model that has the memory at hand.

    The next night reads what was said.
    """
    with report_errors():
        more: dict[str, dict[str, object]] = {"web": {"enabled": web}} if web is not None else {}
        if llm:
            more["models"] = {"talk": ""}
        settings = load_settings(store, space, llm=llm, **more)
        conversation = _build_conversation(settings, workspace)
        OUT.print(f"Talking with {conversation.speaker.llm.model}. /help lists what else there is.", highlight=False)
        for said in _read_input_lines():
            if said in ("/quit", "/exit"):
                return
            _print_answer(conversation, said)


def _build_conversation(settings: "Settings", workspace: str | None) -> "Conversation":
    from slowwave.chat.talk import Conversation
    from slowwave.engines.llm.streaming import select_speaker
    from slowwave.store.journal import Journal
    from slowwave.store.workspaces import anchor_workspace

    workspace = anchor_workspace(workspace) if workspace else None  # it is stored: "." would be another place tomorrow
    speaker = select_speaker(settings.get_llm("talk"), settings.model)
    folder = settings.store / settings.space
    return Conversation(
        speaker,
        _try_open_memory(settings),
        settings,
        journal=Journal(folder, workspace, redact=settings.redact),
        web=_build_web_search(settings, speaker),
        workspace=workspace,
        space_dir=folder,
        encoder=_load_encoder(settings),
    )


def _try_open_memory(settings: "Settings") -> "Memory | None":
    """Return the memory; none, with a word about it, before the first night or where it can't be read."""
    from slowwave.memory import Memory
    from slowwave.schemas.errors import StoreError

    try:
        return Memory.open(settings.store, settings.space)
    except StoreError as missing:
        ERR.print(f"slowwave: talking without a memory: {missing}", highlight=False, soft_wrap=True)
        return None


def _load_encoder(settings: "Settings") -> "Encoder | None":
    """Return what tells which turns are in mind; none where it is switched off or can't be had."""
    from slowwave.engines.encoders.load import load_query_encoder
    from slowwave.engines.errors import EncoderNotFound

    try:
        return load_query_encoder(settings.encoder) if settings.embeddings else None
    except EncoderNotFound:
        return None


def _build_web_search(settings: "Settings", speaker: "Speaker") -> "WebSearch | None":
    if not settings.web.enabled:
        return None
    from slowwave.engines.llm.checked import CheckedLLM
    from slowwave.web.search import WebSearch, make_llm_judge

    return WebSearch(settings.web, make_llm_judge(CheckedLLM(speaker.llm)))


def _read_input_lines() -> Iterator[str]:
    """Yield what is typed, line by line, until the input ends."""
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


def _print_answer(conversation: "Conversation", said: str) -> None:
    """Print the answer as it comes; a turn that fails costs that turn alone."""
    from slowwave.schemas.errors import SlowwaveError

    if said.startswith("/"):
        OUT.print(
            _explain_last_answer(conversation) if said == "/why" else HELP,
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return
    try:
        with closing(conversation.say(said)) as pieces:
            for piece in pieces:
                OUT.print(piece, end="", highlight=False, markup=False, soft_wrap=True)
    except KeyboardInterrupt:
        OUT.print(" … stopped", end="")
    except SlowwaveError as trouble:
        ERR.print(f"slowwave: {trouble}", style="red", highlight=False, markup=False, soft_wrap=True)
    OUT.print(_format_block_counts(conversation), style="dim", highlight=False, markup=False)


def _format_block_counts(conversation: "Conversation") -> str:
    """Return what the answer was given, in a line of its own; an empty one where it was given nothing."""
    block = conversation.recalled.block if conversation.recalled else None
    names = {"memories": "from memory", "web": "from the web"}
    counts = [f"{len(part.lines)} {names[part.name]}" for part in block.parts if part.name in names] if block else []
    return f"\n[{', '.join(counts)}: /why]" if counts else "\n"


def _explain_last_answer(conversation: "Conversation") -> str:
    """Return what the last answer was given."""
    recalled = conversation.recalled
    if recalled is None:
        return "Nothing was asked yet."
    tokens = f"{recalled.block.tokens:,} tokens\n" if recalled.block and recalled.text else ""
    lines = [tokens + recalled.text] if recalled.text else []
    if recalled.reason:
        lines.append(f"No memory was recalled: {recalled.reason.rstrip('.')}.")
    if recalled.web.query:
        lines.append(f"The web was asked for {recalled.web.query!r} ({recalled.web.why}).")
    elif recalled.web.why:
        lines.append(f"The web was not asked: {recalled.web.why}.")
    return "\n".join([*lines, *(f"Note: {note}" for note in recalled.notes)])
