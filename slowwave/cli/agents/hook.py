"""`slowwave hook EVENT`: agents' clients call it at the start and end of a session, and with each prompt.

The client writes its event to standard input as JSON (Claude Code and Codex alike, Cursor with names of its own) and
shows the answer to its model. A memory must never stop a prompt: after any error, the answer is empty and the exit
status 0. (Claude Code reads status 2, which a misspelt option would give, as "block this prompt".)

It runs with each prompt: only the standard library is imported until this process itself has to read the memory.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from slowwave.cli.opening import build_overrides, start_small_night
from slowwave.resident.client import ask
from slowwave.schemas.vocabulary import BEFORE_TOOL, HOOK_BUDGET, HOOK_OPENING

EVENTS = {
    "session-start": "SessionStart",
    "user-prompt": "UserPromptSubmit",
    BEFORE_TOOL: "PreToolUse",
}
"""Events with an answer: name of the argument -> name in the answer."""
COPILOT = "COPILOT_HOOK_DIR"
"""Variable that Copilot CLI sets for its hooks alone. It sends Claude Code's events, and takes a plainer answer."""
OWN_IDS = ("session_id", "conversation_id")
"""Fields with the id of the running session: its own messages, read by an earlier night, are not recalled in it."""
MOST_CHARS = 4_000
"""Characters of a prompt that are used as the query: a longer prompt has pasted text below the question."""
MOST_ARGUMENTS = 200_000
"""Characters of a tool call's arguments; a longer call is not looked up."""
SECONDS_BEFORE_TOOL = 1.0
"""Seconds that a tool call waits for the resident reader. After that its hook has no text."""
SECONDS = 6.0
"""Seconds that a hook waits for the resident reader. Then it reads the memory itself, within the client's 15."""


class HookParser(argparse.ArgumentParser):
    """Reads the arguments of a hook."""

    def error(self, message: str) -> NoReturn:
        """Raise an error instead of exiting with a status that blocks the prompt.

        Raises:
            ValueError: always.
        """
        raise ValueError(message)


def make_parser() -> HookParser:
    """Return the parser of a hook's arguments."""
    about = (
        "Answer a hook of Claude Code, Codex, Copilot CLI, Cursor or Gemini CLI: briefing, context, what a tool "
        "call would try again in vain, or nothing. What it tells is of the project; a folder without git is of the "
        "known project above it; in a folder of none it says nothing. A session that ends is distilled in the "
        "background."
    )
    parser = HookParser("slowwave hook", description=about, allow_abbrev=False)
    events = "before-tool, session-end, session-start or user-prompt; JSON on standard input."
    parser.add_argument("event", help=events)
    parser.add_argument(
        *("--budget",),
        type=int,
        default=HOOK_BUDGET,
        help="Most tokens of the block.",
    )
    parser.add_argument(
        *("--everywhere",),
        action="store_true",
        help="Use the memory of all projects, not of this one alone.",
    )
    parser.add_argument("--store", help="Folder of the store.")
    parser.add_argument("--space", help="Space (user or tenant) to use.")
    return parser


def hook(words: Sequence[str]) -> None:
    """Answer a hook on standard output, or start a night in the background for a session that has ended.

    All errors are ignored, and there is no output after one. Only `--help` raises, to exit.
    """
    with suppress(Exception):
        options = vars(make_parser().parse_args(words))
        given = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
        if options["event"] == "session-end":
            store = Path(options["store"]) if options["store"] else None
            overrides = build_overrides(store, options["space"])
            start_small_night(Path(given["transcript_path"]), overrides)
        elif is_answered(options["event"], given, options["everywhere"]) and (
            memory_text := _find_memory_text(options, given)
        ):
            _write_answer(options["event"], given, memory_text)


def is_answered(
    event: str,
    given: dict[str, Any],
    everywhere: bool,
) -> bool:
    """Return False if the event has no answer, whatever the memory holds."""
    if given.get("source") == "resume":
        return False  # a resumed session has its briefing in its transcript
    if event == "user-prompt" and (not read_prompt(given) or given.get("agent_id")):
        return False  # Codex 0.171: a model wrote this prompt for its sub-agent
    if event == BEFORE_TOOL and not (find_folder(given) and read_arguments(given)):
        return False
    return event in EVENTS and bool(find_folder(given) or everywhere)


def read_prompt(given: dict[str, Any]) -> str:
    """Return the first MOST_CHARS characters of the prompt on one line, as the query; "" if there is no prompt."""
    typed = given.get("prompt")
    return " ".join(typed[:MOST_CHARS].split()) if isinstance(typed, str) else ""


def read_arguments(given: dict[str, Any]) -> str:
    """Return a tool call's arguments as JSON, or as they are if they are a text; "" if there are none or too many."""
    arguments = given.get("tool_input")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return (
        text
        if isinstance(arguments, str | dict) and len(text) <= MOST_ARGUMENTS
        else ""
    )


def find_folder(given: dict[str, Any]) -> str | None:
    """Return the folder that the client works in; None if the event does not say."""
    folder = given.get("cwd") or next(iter(given.get("workspace_roots") or ()), None)
    return str(folder) if folder else None


def find_transcript(given: dict[str, Any]) -> str | None:
    """Return the file of the running session; None if the event does not say. Copilot CLI says it only at the end."""
    if COPILOT in os.environ and "session_id" in given:
        home = os.environ.get("COPILOT_HOME") or Path.home() / ".copilot"
        return str(
            Path(home, "session-state", str(given["session_id"]), "events.jsonl")
        )
    return given.get("transcript_path")


def list_own_sessions(given: dict[str, Any]) -> list[str]:
    """Return the possible ids of the running session: its fields OWN_IDS, and the name of its transcript's file."""
    own = [str(given[name]) for name in OWN_IDS if given.get(name)]
    transcript = given.get("transcript_path")
    return [*own, Path(str(transcript)).stem] if transcript else own


def _find_memory_text(options: dict[str, Any], given: dict[str, Any]) -> str:
    """Return the memory's text for the event, from the resident reader or else from this process.

    Before a tool call, return "" if the reader does not answer.
    """
    asked = {
        **options,
        "prompt": read_prompt(given),
        "folder": find_folder(given),
        "own_sessions": list_own_sessions(given),
        "transcript": find_transcript(given),
    }
    is_call = options["event"] == BEFORE_TOOL
    if is_call:
        asked["tool"] = str(given.get("tool_name") or "")
        asked["arguments"] = read_arguments(given)
    request = {"do": "hook", "asked": asked}
    seconds = SECONDS_BEFORE_TOOL if is_call else SECONDS
    answer = ask(
        request=request, store=options["store"], space=options["space"], seconds=seconds
    )
    if answer is not None and isinstance(text := answer.get("text"), str):
        return text
    if is_call:  # a process of its own for each tool call would cost a second
        return ""
    from slowwave.cli.agents.hook_text import build_hook_text

    return build_hook_text(**asked)


def _write_answer(
    event: str,
    given: dict[str, Any],
    memory_text: str,
) -> None:
    """Write the answer to standard output in the client's form."""
    memory_text = f"{HOOK_OPENING}\n\n{memory_text}"
    output: dict[str, Any] = {"additional_context": memory_text}
    if COPILOT in os.environ:
        output = {"additionalContext": memory_text}
    elif "cursor_version" not in given:
        output = {
            "hookSpecificOutput": {
                # Gemini CLI has other names for the events.
                "hookEventName": given.get("hook_event_name") or EVENTS[event],
                "additionalContext": memory_text,
            }
        }
    answer = json.dumps(output, ensure_ascii=False) + "\n"
    # written without a buffer, whose flush could fail when the process ends
    os.write(sys.stdout.fileno(), answer.encode("utf-8", "replace"))
