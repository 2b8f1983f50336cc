"""Web search against a real server on this machine that answers as SearXNG and Google do, and holds pages.

What needs trafilatura (the extra `web`) skips where it is not installed.
"""

from collections.abc import Iterator
from typing import Any
from unicodedata import normalize

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.plugins.talk.web.engines import WebEngine, WebTrouble, make_engines
from slowwave.plugins.talk.web.pages import fetch_page_text, shorten_text
from slowwave.plugins.talk.web.scrub import scrub_personal_data
from slowwave.plugins.talk.web.search import WebSearch, WebVerdict, make_llm_judge
from slowwave.schemas.settings import Settings, WebSettings
from tests.web_server import STORY, Web, serving


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(Web()) as served:
        yield served


def settings(web: Web, **more: Any) -> WebSettings:
    return WebSettings(
        enabled=True,
        engines=("searxng",),
        searxng_url=web.url,
        private_pages=True,
        **more,
    )


def searxng(url: str) -> WebEngine:
    return make_engines(WebSettings(engines=("searxng",), searxng_url=url))[0][0]


def test_off_by_default_and_then_nothing_is_sent(web: Web) -> None:
    off = WebSearch(WebSettings(searxng_url=web.url))
    assert not Settings().web.enabled
    assert off.answer("search the web for harbour fees").results == ()
    assert off.search("harbour fees").query is None
    assert web.asked == []


def test_three_results_with_the_main_text_of_their_pages(web: Web) -> None:
    pytest.importorskip("trafilatura", reason="the extra `web` is not installed")
    found = WebSearch(settings(web)).search("What are the latest harbour fees?")
    assert [one.url.rpartition("/")[2] for one in found.results] == [
        "fees",
        "gone",
        "image",
    ]
    assert STORY in found.results[0].text
    assert all(
        junk not in found.results[0].text for junk in ("track", "Sign in", "Cookie")
    )
    assert found.results[0].title == "fees"
    assert found.results[1].text == "snippet of gone & more"
    assert found.warnings == (
        f"{web.url}/gone: status 404: its snippet is used",
        f"{web.url}/image: image/png is not a page: its snippet is used",
    )


def test_snippets_alone_and_the_query_without_personal_data(web: Web) -> None:
    found = WebSearch(
        settings(web, pages=False, results=2, never_send=("Ann Lee",))
    ).search(
        "Search the web for ferry times, I am Ann Lee, ann@example.org, +49 170 1234567"
    )
    assert [one.text for one in found.results] == [
        "snippet of fees & more",
        "snippet of gone & more",
    ]
    assert found.query == "Search the web for ferry times, I am , ,"
    assert web.asked[0][1] == {"q": [found.query], "format": ["json"]}
    assert found.warnings[0] == "left out of the query: 1 email"


def test_google_gets_its_key_as_a_header(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_GOOGLE_KEY", "the-key")
    monkeypatch.setattr(
        "slowwave.plugins.talk.web.engines.GOOGLE_URL", f"{web.url}/customsearch/v1"
    )
    chosen = WebSettings(
        enabled=True, engines=("google",), google_cx="cx1", pages=False
    )
    found = WebSearch(chosen).search("latest harbour fees")
    assert [one.text for one in found.results] == [
        "snippet of fees",
        "snippet of gone",
        "snippet of image",
    ]
    path, parameters, headers = web.asked[0]
    assert (path, parameters["cx"], parameters["num"]) == (
        "/customsearch/v1",
        ["cx1"],
        ["3"],
    )
    assert {name.lower(): value for name, value in headers.items()}[
        "x-goog-api-key"
    ] == "the-key"


def test_an_engine_that_fails_falls_through_to_the_next(web: Web) -> None:
    with serving(Web()) as broken:
        broken.status = 500
        engines = [searxng(url) for url in (broken.url, "http://127.0.0.1:9", web.url)]
        found = WebSearch(settings(web, pages=False), engines=engines).search(
            "latest harbour fees"
        )
        assert len(found.results) == 3
        assert found.warnings[0] == "searxng: status 500"
        assert found.warnings[1].startswith("searxng: ConnectError")
        only = WebSearch(settings(web), engines=engines[:1]).search(
            "latest harbour fees"
        )
    assert only.results == ()
    assert only.warnings == ("searxng: status 500",)


class Clumsy:
    """An engine of somebody else's, which fails in a way of its own."""

    name = "clumsy"

    def __init__(self, gives: object) -> None:
        self.gives = gives

    def search(self, query: str, limit: int) -> Any:
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def test_anybodys_engine_and_judge_may_fail_in_any_way(web: Web) -> None:
    troubles = [
        RuntimeError("no quota"),
        KeyError("items"),
        None,
        ["https://a.example"],
    ]
    engines = [*(Clumsy(one) for one in troubles), searxng(web.url)]
    found = WebSearch(settings(web, pages=False), engines=engines).search(
        "latest harbour fees"
    )
    assert len(found.results) == 3
    assert found.warnings[:2] == (
        "clumsy: RuntimeError('no quota')",
        "clumsy: KeyError('items')",
    )
    assert found.warnings[2].startswith("clumsy: TypeError(")
    assert found.warnings[3].startswith("clumsy: the answer is not a list of results")

    def judge(message: str) -> WebVerdict:
        raise RuntimeError("out of memory")

    failures = (
        (judge, "(RuntimeError('out of memory'))"),
        (bool, "instance of WebVerdict"),
        (str, "WebVerdict"),
    )
    for anybodys, told in failures:
        lost = WebSearch(settings(web), anybodys, engines=engines).answer(
            "latest harbour fees"
        )
        assert (lost.query, lost.results) == (None, ())
        assert "could not be asked" in lost.warnings[0]
        assert told in lost.warnings[0]
    assert (
        WebSearch(settings(web)).answer("latest harbour fees").why
        == "no model judges what may go there"
    )


def test_a_model_says_what_goes_to_the_web_and_which_words_of_it_do_not(
    web: Web,
) -> None:
    private = ["Maria Sousa", "12 elm street", "3 May 1984", "diabetes", "Nobody", ""]
    says = ScriptedLLM(
        [
            {"search": True, "private": private},
            {"search": False, "private": []},
            "I would rather not say",
        ]
    )
    search = WebSearch(settings(web, pages=False), make_llm_judge(CheckedLLM(says)))
    message = "What is the latest diet for Maria Sousa of 12 Elm Street, born 3 May 1984, who has diabetes?"
    found = search.answer(message)
    assert found.query == "What is the latest diet for of , born , who has ?"
    assert message in says.asked[0].messages[0]["content"]
    for why in ("the model says that it needs none", ""):
        kept = search.answer(message)
        assert (kept.query, kept.results, kept.why) == (None, (), why)
    assert len(web.asked) == 1


def test_what_is_not_set_up_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLOWWAVE_GOOGLE_KEY", raising=False)
    engines, lacking = make_engines(WebSettings(engines=("searxng", "google")))
    assert engines == []
    assert lacking == [
        "searxng: set web.searxng_url",
        "google: set web.google_cx, and SLOWWAVE_GOOGLE_KEY in the environment",
    ]
    found = WebSearch(WebSettings(enabled=True, engines=("searxng",))).search(
        "today's news"
    )
    assert found.warnings == ("no engine can be asked: searxng: set web.searxng_url",)


@pytest.mark.parametrize("path", ["/big", "/blank", "/empty", "/gone", "/image"])
def test_a_page_that_cannot_be_had_is_a_trouble(web: Web, path: str) -> None:
    if path == "/empty":
        pytest.importorskip("trafilatura", reason="the extra `web` is not installed")
    with pytest.raises(WebTrouble):
        fetch_page_text(web.url + path, settings(web))


def test_pages_on_this_machine_are_not_fetched_unless_allowed(web: Web) -> None:
    with pytest.raises(WebTrouble, match="private network"):
        fetch_page_text(f"{web.url}/fees", WebSettings())
    assert web.asked == []


def test_personal_data_is_taken_out_and_dates_and_versions_stay() -> None:
    kept = "latest postgres 17.2 release 2026-11-01, RFC 7231 section 10.2.3, the 2018-2022 cup, pin 10115"
    assert scrub_personal_data(kept).text == kept
    said = scrub_personal_data(
        "my password is hunter2, card 4111 1111 1111 1111, DE89370400440532013000, 10.1.2.3:8080, (030) 901820-11, "
        "/home/ann/x.txt https://ann:pw@example.com/a?token=abc ghp_" + "a1" * 18
    )
    assert said.text == "my password card , , , , https://example.com/a"
    secrets = {"password": 1, "github-token": 1, "secret": 1, "card": 1, "iban": 1}
    assert said.removed == {**secrets, "ip": 1, "phone": 1, "path": 1, "url": 1}


def test_names_go_whole_in_any_case_and_in_part_as_they_are_written() -> None:
    said = scrub_personal_data(
        "Will Ann  LEE sail, will ann lee's or Ann's brother Tom, 李小龙的?",
        names=("Ann Lee", "Will", "tom", "李小龙"),
    )
    assert said.text == "sail, will 's or 's brother , 的?"
    assert said.removed == {"name": 6}


@pytest.mark.parametrize(
    ("said", "private"),
    [
        ("tax of Maria\n Sousa", ["Maria", "Maria Sousa"]),
        ("tax of O’Brien", ["O'Brien"]),
        ("tax of Jose\u0301", ["José"]),
    ],
)
def test_a_private_word_goes_however_it_is_written(
    said: str, private: list[str]
) -> None:
    assert scrub_personal_data(said, private).text == "tax of"


def test_absolute_paths_go_and_fractions_and_addresses_stay() -> None:
    kept = "TCP/IP on a 3/4 inch pipe, read/write, https://example.com/a/b and /tmp"
    assert scrub_personal_data(kept).text == kept
    said = scrub_personal_data(
        r"why does /srv/acme/plan.md, (/opt/byron/x) or D:\clients\acme.docx fail?"
    )
    assert said.text == "why does , ( ) or fail?"


@given(st.text(max_size=200))
def test_scrubbing_any_text_is_safe_and_settles(text: str) -> None:
    once = scrub_personal_data(text).text
    assert "\n" not in once
    assert len(once) <= len(normalize("NFC", text))


@given(st.emails())
@example("'@A.COM")
def test_no_email_leaves(address: str) -> None:
    assert address not in scrub_personal_data(f"when does {address} land").text


def test_a_page_is_shortened_at_a_sentence() -> None:
    assert shorten_text("One. Two three. Four five six.", 18) == "One. Two three."
    assert shorten_text("short", 100) == "short"


@pytest.mark.parametrize(
    "address",
    ["64:ff9b::7f00:1", "2002:7f00:1::", "fec0::1", "::ffff:127.0.0.1", "10.0.0.1"],
)
def test_an_address_that_leads_inward_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 0))]
    )
    with pytest.raises(WebTrouble, match="private network"):
        fetch_page_text("http://news.example/", WebSettings())


def test_the_address_that_was_checked_is_the_one_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    sent: list[httpx.Request] = []

    def send(_: object, request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(
            200, headers={"content-type": "text/plain"}, content=b"Low water at six."
        )

    monkeypatch.setattr(
        "socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("93.184.216.34", 0))]
    )
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", send)
    assert (
        fetch_page_text("https://tides.example/today", WebSettings())
        == "Low water at six."
    )
    assert [(one.url.host, one.headers["host"]) for one in sent] == [
        ("93.184.216.34", "tides.example")
    ]
    assert sent[0].extensions["sni_hostname"] == "tides.example"
