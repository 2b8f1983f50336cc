"""The web without a model: words of the settings send a question there; and the judge of what a person asks for."""

import pytest

from slowwave.plugins.talk.web.engines import WebResult
from slowwave.plugins.talk.web.search import WebSearch, WebVerdict, begin_search
from slowwave.schemas.settings import WebSettings
from slowwave.text.words import find_phrase


class Recorder:
    """An engine that keeps what it is asked."""

    name = "recorder"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def search(self, query: str, count: int) -> list[WebResult]:
        """Return one result."""
        self.asked.append(query)
        return [WebResult("https://example.org/", "A page", "Its text.", self.name)]


SETTINGS = WebSettings(enabled=True, pages=False, keywords=("latest", "price of"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is the LATEST release?", "latest"),
        ("The price of copper?", "price of"),
        ("The price, of course, fell.", "price of"),
        ("He is a latest-comer.", "latest"),
        ("The greatest and latests.", None),
        ("Which database do we use?", None),
    ],
)
def test_a_phrase_is_found_as_whole_words(text: str, found: str | None) -> None:
    assert find_phrase(SETTINGS.keywords, text) == found


def test_without_a_model_a_keyword_sends_a_question_and_nothing_else_does() -> None:
    engine = Recorder()
    web = WebSearch(SETTINGS, engines=[engine], names=["Nina Berg"])
    assert web.answer("Which database do we use?").query is None
    sent = web.answer("What is the latest release Nina Berg spoke of?")
    assert sent.cause == "it has the word 'latest' of web.keywords"
    assert len(engine.asked) == 1
    assert "Nina" not in engine.asked[0]
    off = SETTINGS.model_copy(update={"enabled": False})
    assert WebSearch(off, engines=[engine]).answer("the latest?").query is None
    assert len(engine.asked) == 1


def test_a_judge_of_what_a_person_asks_for_names_what_is_private() -> None:
    engine = Recorder()

    def judge(message: str) -> WebVerdict:
        return WebVerdict(search=False, private=["Olaf"])

    def fail(message: str) -> WebVerdict:
        raise OSError("gone")

    web = WebSearch(SETTINGS, judge, [engine])
    assert web.search_asked("The birthday of Olaf and the ferry times").results
    assert "Olaf" not in engine.asked[0]
    refused = WebSearch(SETTINGS, fail, [engine]).search_asked("ferry times")
    assert refused.query is None
    assert refused.notes[0].startswith("nothing was sent: the model that judges")
    assert len(engine.asked) == 1


def test_a_command_asks_the_judge_that_the_settings_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = "openai:none@http://127.0.0.1:9/v1"
    for name in ("web.judge", "llm"):
        given = SETTINGS.model_copy(update={"judge": gone if "judge" in name else ""})
        if name == "llm":
            monkeypatch.setenv("SLOWWAVE_LLM", gone)
        answer = begin_search(given, [], "ferry times").answer
        assert answer.query is None
        assert answer.notes[0].startswith("nothing was sent: ")
