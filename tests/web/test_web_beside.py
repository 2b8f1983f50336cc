"""The web beside memory, in a talk, on the command line and over MCP: asked at once, each does without the other."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.context.build import Context, assemble_context
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.protocol import Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.nightly import run_night
from slowwave.mcp.server import Tools
from slowwave.memory import Memory
from slowwave.plugins.talk.command import _build_web_search
from slowwave.plugins.talk.talk import Conversation
from slowwave.plugins.talk.web.engines import WebResult
from slowwave.plugins.talk.web.search import WebSearch, WebVerdict
from slowwave.schemas.settings import Settings
from tests.waiting import PATIENCE
from tests.web_server import Web, serving

SAID = "Ada Byron: the tide gauge readings are kept in PostgreSQL 17 on the harbour server."
PAGE = WebResult(
    "Tides", "https://example.org/tides", "High water today is at 14:20.", "known"
)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(Web()) as served:
        yield served


@pytest.fixture
def store(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory in which Ada Byron spoke; the web is set up in the environment, and off."""
    surroundings = {
        "ENCODER": "hash-384",
        "WEB__ENGINES": '["searxng"]',
        "WEB__SEARXNG_URL": web.url,
    }
    for name, value in (surroundings | {"WEB__PAGES": "false"}).items():
        monkeypatch.setenv(f"SLOWWAVE_{name}", value)
    for name in ("CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    line = {
        "session_id": "s",
        "role": "user",
        "speaker": "Ada Byron",
        "content": SAID,
        "ts": "2026-11-01T10:00:00Z",
    }
    (tmp_path / "a.jsonl").write_text(
        json.dumps(line) + "\n" + json.dumps({**line, "content": "Noted, thank you."})
    )
    run_night([tmp_path / "a.jsonl"], Settings(store=tmp_path / "store"))
    return tmp_path / "store"


class Slow:
    """A search engine that takes its time."""

    name = "known"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def search(self, query: str, limit: int) -> list[WebResult]:
        time.sleep(self.seconds)
        return [PAGE]


class Remembering:
    """A memory that raises, hangs, or says one thing, beside what the web says."""

    def __init__(self, trouble: Exception | None = None, seconds: float = 0.0) -> None:
        self.trouble, self.seconds = trouble, seconds

    def context(
        self,
        query: str,
        budget: int | None = None,
        *,
        web: Iterable[object] = (),
        **more: Any,
    ) -> Context:
        time.sleep(self.seconds)
        if self.trouble:
            raise self.trouble
        return assemble_context(
            query,
            (),
            budget or 500,
            len,
            Settings().context,
            web,
            [("Ada", "What memory told.")],
        )

    def briefing(self, budget: int | None = None, **more: Any) -> Context:
        return Context("", 0, ())


def needs_web(message: str) -> WebVerdict:
    """A judge that sends what asks to the web."""
    return WebVerdict(search="?" in message, private=[])


def ask(
    remembering: Remembering, engine: Slow, *, memory: float = 30, web: float = 30
) -> Conversation:
    settings = Settings(web={"enabled": True, "pages": False, "seconds": web})
    search, llm = (
        WebSearch(settings.web, needs_web, [engine]),
        ScriptedLLM(lambda _: "I see."),
    )
    talk = Conversation(llm, remembering, settings, web=search, memory_seconds=memory)
    for said in ("My boat is called Kittiwake.", "When is high water today?"):
        "".join(talk.say(said))
    return talk


def shown(talk: Conversation) -> tuple[bool, bool, bool]:
    """Whether memory, the web and the turn before were of use to the last answer."""
    assert talk.recalled
    asked = talk.recalled.text
    turns = any("Kittiwake" in turn["content"] for turn in talk.recalled.turns.recent)
    return "What memory told" in asked, "14:20" in asked, turns


def test_what_one_lacks_the_others_fill() -> None:
    assert shown(ask(Remembering(), Slow())) == (True, True, True)
    for trouble in (
        OSError("the disk is gone"),
        RuntimeError("lance: no such fragment"),
    ):
        talk = ask(Remembering(trouble), Slow())
        assert shown(talk) == (False, True, True)
        assert talk.recalled
        assert str(trouble) in str(talk.recalled.reason)


def test_who_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slowwave.plugins.talk.talk.PACKING_SECONDS", 0.5)
    talk = ask(Remembering(seconds=5), Slow(), memory=0.2)
    assert shown(talk) == (False, True, True)
    assert talk.recalled
    assert talk.recalled.reason == "memory took longer than 0.2 s"
    monkeypatch.setattr("slowwave.plugins.talk.talk.PACKING_SECONDS", PATIENCE)
    talk = ask(Remembering(), Slow(5), web=0.2)
    assert shown(talk) == (True, False, True)
    assert talk.recalled
    assert talk.recalled.warnings == (
        "the web took longer than 0.2 s: nothing of it is used",
    )


def test_both_are_asked_at_once() -> None:
    together = threading.Barrier(2, timeout=PATIENCE)

    class Meeting(Slow, Remembering):
        def search(self, query: str, limit: int) -> list[WebResult]:
            together.wait()
            return super().search(query, limit)

        def context(
            self, query: str, budget: int | None = None, **more: Any
        ) -> Context:
            together.wait()
            return super().context(query, budget, **more)

    both = Meeting()
    both.seconds, both.trouble = 0.0, None
    settings = Settings(web={"enabled": True, "pages": False})
    web = WebSearch(settings.web, needs_web, [both])
    talk = Conversation(ScriptedLLM(lambda _: "I see."), both, settings, web=web)
    "".join(talk.say("When is high water today?"))
    assert shown(talk)[:2] == (True, True)


def test_the_command_line_asks_the_web_where_it_is_told_to_without_the_names_it_knows(
    store: Path, web: Web
) -> None:
    words = [
        "context",
        "harbour fees for Ada Byron, Ada's boat and /srv/byron/boat.toml",
        "--store",
        str(store),
    ]
    plain = CliRunner().invoke(app, words)
    assert (plain.exit_code, web.asked) == (0, [])
    found = CliRunner().invoke(app, [*words, "--web"])
    assert f"({web.url}/fees)" in found.stdout
    assert "PostgreSQL 17" in found.stdout
    assert [asked["q"] for _, asked, _ in web.asked] == [
        ["harbour fees for , 's boat and"]
    ]
    assert "left out of the query: 2 name" in found.stderr


def test_an_agent_asks_the_web_only_where_a_person_has_switched_it_on(
    store: Path, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "tide gauge readings"
    with pytest.raises(
        Exception, match=r"web search is off here \(the setting web.enabled\)"
    ):
        Tools(Settings(store=store)).context(query, web=True)
    monkeypatch.setenv("SLOWWAVE_WEB__ENABLED", "true")
    tools = Tools(Settings(store=store))
    assert web.url not in tools.context(query)
    assert web.asked == []
    block = tools.context(query, web=True)
    assert f"{web.url}/fees" in block
    assert "PostgreSQL 17" in block


def test_settings_say_who_judges(store: Path) -> None:
    def is_sent(llm: ScriptedLLM, judge: str = "") -> bool:
        settings = Settings(
            store=store,
            web={"enabled": True, "judge": judge, "searxng_url": "http://127.0.0.1:9"},
        )
        search = _build_web_search(
            settings, CheckedLLM(llm), Memory.open(store).list_people()
        )
        assert search
        assert search.names == ("Ada Byron",)
        return search.answer("Is the heron growing rare?").query is not None

    assert is_sent(ScriptedLLM(accepts))
    assert not is_sent(
        ScriptedLLM(accepts), "scripted:tests.web.test_web_beside:declines"
    )
    assert is_sent(ScriptedLLM(declines), "scripted:tests.web.test_web_beside:accepts")


def declines(request: Request) -> Any:
    """A model that needs no web."""
    return {"search": False, "private": []}


def accepts(request: Request) -> Any:
    """A model that needs it always."""
    return {"search": True, "private": []}
