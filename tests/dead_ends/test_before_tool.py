"""The hook before a tool call as clients run it: by the resident reader, in their form, and never in the way."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.vocabulary import HOOK_OPENING
from tests.resident_home import Home
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
SESSIONS = ROOT / "data" / "labelled" / "ends"
EXAMPLES = ROOT / "deployments" / "hooks"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no reader there")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    store = tmp_path / "store"
    run_night(
        [SESSIONS / "1-lockfile.jsonl"], Settings(store=store, encoder="hash-384")
    )
    made = Home(tmp_path, store)
    yield made
    made.close()


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_the_documented_event_gets_the_clients_answer(home: Home, client: str) -> None:
    given = json.loads((EXAMPLES / f"event-{client}-before-tool.json").read_text())
    answers: list[bytes] = []

    def is_told() -> bool:
        """A call that comes while the reader starts is told nothing."""
        status, out, err = home.call("hook", "before-tool", given=given)
        assert (status, err) == (0, b"")
        answers.append(out)
        return bool(out)

    wait_until(is_told)
    output = json.loads(answers[-1])["hookSpecificOutput"]
    # no decision: the call goes its way
    assert output.keys() == {"hookEventName", "additionalContext"}
    assert output["hookEventName"] == "PreToolUse"
    assert output["additionalContext"].startswith(HOOK_OPENING)
    assert "Tried on 4 May 2026: pnpm dedupe; failed" in output["additionalContext"]
    other = {**given, "tool_input": {"command": "pnpm install"}}
    assert home.call("hook", "before-tool", given=other) == (0, b"", b"")


def test_without_a_reader_nothing_is_told(home: Home) -> None:
    given = json.loads((EXAMPLES / "event-claude-code-before-tool.json").read_text())
    told = home.call("hook", "before-tool", given=given, SLOWWAVE_RESIDENT="0")
    assert told == (0, b"", b"")
