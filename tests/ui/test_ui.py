"""The pages in a real browser, over the samples' store and over none; and who is refused."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.store import Store
from slowwave.text.fence import fence_block
from slowwave.ui.rendering import show_day
from tests.many_claims import build_store
from tests.talk_files import session
from tests.waiting import PATIENCE, wait_until

uvicorn = pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
from slowwave.ui.app import Explorer, make_app, render_report  # noqa: E402
from slowwave.ui.pages import LISTED, mark_words  # noqa: E402
from slowwave.ui.rendering import drop_backticks, show_code, show_pieces  # noqa: E402

CHROMIUM = shutil.which("chromium")
TEMPLATES = Path(__file__).parents[2] / "slowwave/ui/templates"


@dataclass
class Served:
    """An app that listens."""

    address: str
    explorer: Explorer

    @property
    def token(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.explorer.token}"}

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(
            self.address + path, headers=self.token | headers, timeout=PATIENCE
        )


def serve(store: Path, **options: bool) -> Iterator[Served]:
    app = make_app(Settings(store=store, encoder="hash-384"), **options)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, every=0.02)
    yield Served(f"http://127.0.0.1:{port}", app.state.explorer)
    server.should_exit = True
    thread.join(PATIENCE)


@pytest.fixture(scope="module")
def site(
    samples_night: tuple[Path, RunReport], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    store = tmp_path_factory.mktemp("ui") / "store"
    shutil.copytree(samples_night[0], store)
    yield from serve(store)


def test_only_the_pages_of_this_machine_with_the_token_are_answered(
    site: Served,
) -> None:
    assert httpx.get(f"{site.address}/search").status_code == 401
    assert site.get("/search", authorization="Bearer wrong").status_code == 401
    assert site.get("/search", host="evil.example").status_code == 400
    entered = httpx.get(f"{site.address}/search?q=tide&token={site.explorer.token}")
    assert entered.status_code == 303
    assert entered.headers["location"] == "/search?q=tide"
    assert all(
        word in entered.headers["set-cookie"].lower()
        for word in ("httponly", "samesite=strict")
    )
    answer = site.get("/search")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers


HOSTILE = "<script>alert(1)</script></pre>\"'><img src=x onerror=alert(2)>\x1b[31m\u202egnihton\u202c {{ 7654*4321 }}"
PAGES = (
    "/",
    "/api",
    "/topics",
    "/injected",
    "/injected?q=tide&setting=context.budget=200",
    "/compare",
    "/search",
    "/search?q=tide",
    "/coverage",
    "/ledger/changes",
    "/did",
    "/forget",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    )
    if not CHROMIUM:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@dataclass
class Tab:
    """A page of the browser that keeps what the console said."""

    page: Any
    site: Served
    said: list[str]

    def go(self, path: str) -> Any:
        answer = self.page.goto(self.site.address + path)
        assert answer.status == 200, path
        assert self.said == [], path
        return self.page


def enter(browser: Any, site: Served, **options: Any) -> Tab:
    """A tab that came by the printed address."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE * 1_000)
    tab = Tab(page, site, [])
    page.on("console", lambda message: tab.said.append(message.text))
    page.on("pageerror", lambda error: tab.said.append(str(error)))
    page.on("dialog", lambda dialog: tab.said.append(dialog.message))
    page.goto(f"{site.address}/?token={site.explorer.token}")
    assert "token" not in page.url
    return tab


def test_a_form_from_elsewhere_or_over_long_is_refused(site: Served) -> None:
    def post(data: dict[str, str], **headers: str) -> int:
        return httpx.post(
            f"{site.address}/do/rate.json", data=data, headers=site.token | headers
        ).status_code

    assert post({"id": "x"}, origin="https://evil.example") == 403
    assert post({"id": "x"}, origin="null") == 403
    assert post({"id": "x" * 70_000}) == 413
    assert post({"id": "x"}, authorization="") == 401
    assert post({"id": "x", "verdict": "good"}, origin=site.address) == 400
    assert httpx.get(f"{site.address}/do/rate", headers=site.token).status_code == 405


def list_addresses(site: Served) -> list[str]:
    """A claim, its message, session and summary, besides the pages without an id."""
    claims = site.get("/search.json").json()["hits"]
    claim = site.get(f"/claim/{claims[0]['id']}.json").json()
    session = claim["claim"]["session_id"]
    summary = site.get(f"/session/{session}.json").json()["summaries"][0]["summary_id"]
    message = claim["transcript"][0]["id"]
    topic = claim["topic"]["topic_id"]
    return [
        *PAGES,
        f"/topic/{topic}",
        f"/claim/{claims[0]['id']}",
        f"/session/{session}",
        f"/summary/{summary}",
        f"/message/{message}",
        f"/project/{quote(claim['claim']['workspace'])}",
    ]


def test_every_page_fits_a_phone_has_its_json_and_says_nothing_to_the_console(
    site: Served, browser: Any
) -> None:
    tab = enter(
        browser, site, viewport={"width": 390, "height": 800}, color_scheme="dark"
    )
    for path in list_addresses(site):
        page = tab.go(path)
        assert page.locator("h1").count() == 1, path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        link = page.get_by_text("this page as JSON").get_attribute("href")
        assert site.get(link).json(), path
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip", path


def list_all_addresses(site: Served) -> list[str]:
    """Addresses over the samples that show every template, with what is in them for a reader who asks."""
    run = site.get("/ledger/runs.json").json()["rows"][0]["run_id"]
    return [
        *list_addresses(site),
        *(f"/ledger/{name}" for name in LISTED),
        f"/night/{run}",
        "/search?q=which+port+does+tidepool+use",
        "/forget?match=tide",
        "/injected?workspace=/home/ada/tidepool&setting=context.briefing_budget=150",
        "/nowhere",
        "/claim/abcdef",
    ]


def find_faults(page: Any) -> list[tuple[str, str, str]]:
    """What axe finds, of whatever weight, with all details open; its rule of 24 pixels a target is off by default."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-playwright-python is not installed",
    )
    page.evaluate(
        "document.querySelectorAll('details').forEach(one => { one.open = true })"
    )
    options = {
        "resultTypes": ["violations"],
        "rules": {"target-size": {"enabled": True}},
    }
    found = axe.Axe().run(page, options=options).response["violations"]
    return [(one["impact"], one["id"], one["nodes"][0]["html"]) for one in found]


VIEWS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 800}},
)


def test_axe_finds_nothing_on_any_template(
    site: Served, browser: Any, tmp_path: Path
) -> None:
    paths = list_all_addresses(site)
    for page in site.explorer.pages:
        route = re.compile(re.sub("{[^}]*}", ".+", page.path) + r"(\?.*)?")
        assert any(map(route.fullmatch, paths)), page.path
    # besides those of pages: what they are made of, an error, and the report of one file
    shown = {page.template for page in site.explorer.pages}
    shown |= {"base.html", "link.html", "parts.html", "error.html", "alone.html"}
    assert shown == {one.name for one in TEMPLATES.iterdir()}
    report = tmp_path / "report.html"
    report.write_text(render_report(site.explorer.settings))
    for view in VIEWS:
        tab = enter(browser, site, bypass_csp=True, **view)
        for path in [*(site.address + path for path in paths), report.as_uri()]:
            tab.page.goto(path)
            assert find_faults(tab.page) == [], path


def act(site: Served, name: str, **data: str) -> str:
    """Do an action, and return what the page says of it."""
    answer = httpx.post(
        f"{site.address}/do/{name}.json",
        data=data,
        headers=site.token,
        timeout=PATIENCE,
    )
    return str(answer.raise_for_status().json()["did"])


def write_note(site: Served, words: str) -> str:
    """Note something as an agent does, and return the note's id."""
    settings = site.explorer.settings
    note = Memory.open(settings.store).remember(words, of_person=False)
    site.explorer.close()
    return note


def test_axe_finds_nothing_where_something_was_changed_or_left_out(
    changed: Served, browser: Any
) -> None:
    rows = changed.get("/ledger/changes.json").json()["rows"]
    rows += changed.get("/ledger/merges.json").json()["rows"]
    hits = changed.get("/search.json").json()["hits"]
    claim = next(hit["id"] for hit in hits if "lamp" in hit["text"])
    note = write_note(changed, "The keeper keeps two hens.")
    act(changed, "correct", id=claim, text="Nina keeps `the lens` of it.")
    act(changed, "exclude", id=note, why="not so")
    correction = changed.get("/did.json").json()["outcomes"][1]["undo"]["fields"]["id"]
    paths = [f"/claim/{row['from_id']}" for row in rows]
    paths += [
        f"/claim/{claim}",
        "/did",
        "/compare?old=r1&new=r2",
        "/ledger/notes?old=yes",
    ]
    for view in VIEWS:
        tab = enter(browser, changed, bypass_csp=True, **view)
        for path in paths:
            tab.page.goto(changed.address + path)
            assert find_faults(tab.page) == [], path
    act(changed, "exclude", id=correction, why="the correction was taken back")


def walk_to(page: Any, name: str) -> None:
    """Press Tab until the focus is on what has this name, or begins with it; each stop on the way must be seen."""
    for _ in range(150):
        page.keyboard.press("Tab")
        told, outlined = page.evaluate(
            """() => {
                const at = document.activeElement;
                const name = at.getAttribute("aria-label") || at.textContent || "";
                return [name.trim(), getComputedStyle(at).outlineStyle != "none"];
            }"""
        )
        assert outlined, told
        if told.startswith(name):
            return
    pytest.fail(f"no stop of the Tab key is {name!r}")


def test_a_claim_is_found_corrected_and_that_taken_back_by_keys_alone(
    changed: Served, browser: Any
) -> None:
    page = enter(browser, changed).go("/")
    keys = page.keyboard
    walk_to(page, "Search the memory")
    keys.type("When does the crew meet?")
    keys.press("Enter")
    page.wait_for_url("**/search?q=*")
    walk_to(page, "The crew meets on Mondays")
    keys.press("Enter")
    page.wait_for_url(re.compile("/(message|claim)/"))
    if "/message/" in page.url:
        walk_to(page, "The crew meets on Mondays")
        keys.press("Enter")
        page.wait_for_url("**/claim/*")
    walk_to(page, "Correct it")
    keys.press("Enter")
    walk_to(page, "What is right")
    keys.type("it meets on Tuesdays at the mole")
    walk_to(page, "Correct it")
    keys.press("Enter")
    page.wait_for_url("**/did")
    assert "it meets on Tuesdays at the mole" in page.locator("h2").first.inner_text()
    asked = "/search.json?q=When+does+the+crew+meet"
    assert "Tuesdays" in changed.get(asked).text
    walk_to(page, "Take it back")
    keys.press("Enter")
    page.locator("h2", has_text="Excluded").first.wait_for()
    assert "Tuesdays" not in changed.get(asked).text


def test_a_claim_of_a_project_is_left_out_and_taken_in_by_keys_alone(
    site: Served, browser: Any
) -> None:
    page = enter(browser, site).go(f"/project/{quote('/home/ada/tidepool', safe='')}")
    keys = page.keyboard
    held = site.get("/project/tidepool.json").json()["holds"][0]
    walk_to(page, drop_backticks(held["summary"])[:30])
    keys.press("Enter")
    page.wait_for_url("**/claim/*")
    walk_to(page, "Exclude it")
    keys.press("Enter")
    walk_to(page, "Why it is excluded")
    keys.type("by keys alone")
    walk_to(page, "Exclude it")
    keys.press("Enter")
    page.wait_for_url("**/did")
    assert held["claim_id"] not in site.get("/project/tidepool.json").text
    walk_to(page, "Include it again")
    keys.press("Enter")
    page.locator("h2", has_text="Included").first.wait_for()
    assert held["claim_id"] in site.get("/project/tidepool.json").text


def test_a_space_without_a_release_says_what_makes_one(
    tmp_path: Path, browser: Any
) -> None:
    for site in serve(tmp_path / "none"):
        tab = enter(browser, site)
        for path in PAGES:
            tab.go(path)
        assert "slowwave run" in tab.go("/search").inner_text("main")
        assert site.get("/search.json").status_code == 404


def test_a_wrong_claim_is_found_left_out_and_taken_in_again(
    site: Served, browser: Any
) -> None:
    tab = enter(browser, site)
    page = tab.go("/")
    page.get_by_role("searchbox").fill("port of tidepool")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=*")
    hit = next(
        one
        for one in site.get("/search.json").json()["hits"]
        if one["status"] == "active"
    )
    page = tab.go(f"/claim/{hit['id']}")
    assert " ".join(hit["quote"].split()) in " ".join(
        page.locator("mark").all_inner_texts()
    )
    page.get_by_text("Exclude it").first.click()
    page.get_by_label("Why it is excluded").fill("not so")
    page.get_by_role("button", name="Exclude it").click()
    page.wait_for_url("**/did")
    assert "not so" in page.inner_text("main")
    assert hit["id"] not in site.get("/search.json").text
    page.get_by_role("button", name="Include it again").first.click()
    page.locator("h2", has_text="Included").first.wait_for()
    assert hit["id"] in site.get("/search.json").text
    page = tab.go(f"/claim/{hit['id']}")
    page.get_by_text("Rate it").click()
    page.get_by_role("button", name="Bad").click()
    page.wait_for_url("**/did")
    assert "Rated bad" in tab.go(f"/claim/{hit['id']}").inner_text("main")


def test_a_claim_is_corrected_on_its_page_and_that_is_taken_back(
    changed: Served, browser: Any
) -> None:
    tab = enter(browser, changed)
    hits = changed.get("/search.json").json()["hits"]
    claim = next(one for one in hits if one["status"] == "active")
    page = tab.go(f"/claim/{claim['id']}")
    page.get_by_text("Correct it", exact=True).first.click()
    page.get_by_label("What is right").fill("it is the other one")
    page.get_by_role("button", name="Correct it").click()
    assert "Corrected: it is the other one" in page.locator("h2").first.inner_text()
    asked = urlencode({"q": claim["text"]})
    found = changed.get(f"/search.json?{asked}").json()["hits"]
    assert "it is the other one" in [one["text"] for one in found]
    page.get_by_role("button", name="Take it back").first.click()
    found = changed.get(f"/search.json?{asked}").json()["hits"]
    assert "it is the other one" not in [one["text"] for one in found]


def test_a_project_has_a_page_a_click_from_the_run_page_and_an_unknown_id_leads_on(
    site: Served, browser: Any
) -> None:
    page = enter(browser, site).go("/")
    page.get_by_role("link", name="tidepool", exact=True).first.click()
    assert page.locator("h1").inner_text() == "tidepool"
    assert "/home/ada/tidepool" in page.locator("main").inner_text()
    told = page.locator("h2").all_inner_texts()
    assert [one.split("\n")[0].rstrip(" 0123456789") for one in told[:6]] == [
        "Rules",
        "What holds",
        "What is open",
        "Intentions",
        "Last night",
        "Sessions",
    ]
    # "they move to the system's keychain on 19 October"; "the old file gets imported once"
    waits = page.locator("section:nth-of-type(4) .later").all_inner_texts()
    assert waits == ["Due on 19 Oct 2026.", "Not tied to a time or an event."]
    # every line says whether a person or an agent said it
    rows = page.locator("section:nth-of-type(2) .row .facts").all_inner_texts()
    assert rows
    assert all("person" in row or "agent" in row for row in rows)
    # no line stands twice, but as the name of a topic
    lines = page.locator('.row a.text:not([href^="/topic/"])').all_inner_texts()
    assert len(lines) == len(set(lines)) > 5
    page.goto(f"{site.address}/claim/abcdef")
    page.get_by_role("link", name="search for it").click()
    assert page.locator("h1").inner_text() == "abcdef"


def test_words_of_the_question_are_marked_and_few_hits_shown_where_none_is_sure(
    site: Served,
) -> None:
    pieces = mark_words("The gauges listen on Ports 1 and 2.", "which port, gauge?")
    assert [piece for piece, marked in pieces if marked] == ["gauges", "Ports"]
    assert (
        "".join(piece for piece, _ in pieces) == "The gauges listen on Ports 1 and 2."
    )
    unsure = site.get("/search.json?q=zebra+giraffe+quagga").json()
    assert (unsure["caveat"] is None, len(unsure["hits"]) <= 5) == (False, True)


def test_a_search_stops_where_recall_stops_and_shows_all_on_request(
    site: Served, browser: Any
) -> None:
    asked = "which port does tidepool use"
    hits = site.explorer.memory.recall(asked, 50)
    assert hits.stopped
    most = 25 if hits.confident else 5
    page = enter(browser, site).go(f"/search?{urlencode({'q': asked})}")
    shown = page.locator("ol.rows > li").count()
    assert shown == min(len(hits), most)
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url("**everything=yes*")
    assert page.locator("ol.rows > li").count() > shown
    assert page.get_by_role("link", name="Show all").count() == 0


def test_code_spans_are_rendered_also_across_a_mark_and_are_still_text() -> None:
    marked = show_pieces([("Set `new ", None), ("Date", True), ("`, not `<b>`", None)])
    # its parts stand beside one another as one
    assert marked == [
        ('Set <code class="on-right">new </code>', None),
        ('<code class="on-left">Date</code>', True),
        (", not <code>&lt;b&gt;</code>", None),
    ]
    # the language of a fenced block is not shown, and a lone backtick is no code
    assert show_code("Run\n```sh\nmake\n```\nit's `5") == (
        "Run\n<code>make\n</code>\nit&#39;s `5"
    )
    assert drop_backticks("Use `a < b` & c") == "Use a < b & c"


def test_hostile_text_is_text(tmp_path: Path, browser: Any) -> None:
    long = "We decided that the lighthouse keeps its lamp. " + f"{HOSTILE}\n" * 104_000
    assert len(long.encode()) > 10_000_000
    texts = [f"We decided to use {HOSTILE} for the lighthouse from now on.", long]
    lines = [
        {
            "session_id": f"s{HOSTILE}",
            "message_id": f"m{n}",
            "role": "user",
            "content": text,
            "title": HOSTILE,
        }
        | {
            "speaker": f"Ada {HOSTILE}",
            "workspace": f"/home/{HOSTILE}",
            "ts": "2026-11-01T10:00:00Z",
        }
        for n, text in enumerate(texts)
    ]
    (tmp_path / "chat.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    run_night(
        [tmp_path / "chat.jsonl"],
        Settings(store=tmp_path / "store", encoder="hash-384"),
    )
    Memory.open(tmp_path / "store").remember(
        f"The keeper is {HOSTILE}.", of_person=False, speaker=HOSTILE
    )
    for site in serve(tmp_path / "store"):
        tab = enter(browser, site)
        rate = {
            "id": site.get("/search.json").json()["hits"][0]["id"],
            "verdict": "bad",
            "why": HOSTILE,
        }
        assert (
            httpx.post(
                f"{site.address}/do/rate.json", data=rate, headers=site.token
            ).status_code
            == 200
        )
        more = [
            "/ledger/notes",
            f"/search?{urlencode({'q': HOSTILE})}",
            f"/forget?{urlencode({'match': HOSTILE})}",
        ]
        for path in [*list_addresses(site), *more]:
            page = tab.go(path)
            assert page.locator("script, main img").count() == 0, path
            assert len(page.content()) < 120_000, path
            assert str(7654 * 4321) not in page.locator("h1").inner_text(), path
        assert "<script>alert(1)</script></pre>" in page.inner_text("main")
        assert r"\u001b[31m\u202egnihton" in tab.go("/search").inner_text("main")


MESSAGES = {
    "one": [
        "The staging server listens on port 8080.",
        "We decided that Nina keeps the lamp of the lighthouse.",
    ],
    "two": ["The staging server listens on port 9090 from now on, not 8080."],
    "three": [
        "We decided that Nina keeps the lamp of the lighthouse.",
        "The crew meets on Mondays at the quay.",
    ],
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The pages over a store with a change, a merge, and two notes of an agent's."""
    folder = tmp_path_factory.mktemp("changed")
    for day, (name, said) in enumerate(MESSAGES.items(), 1):
        turns = [
            (role, text)
            for one in said
            for role, text in (("user", one), ("assistant", "Noted."))
        ]
        session(folder, name, day, turns)
    night = Settings(store=folder / "store", encoder="hash-384")
    first = [folder / "one.jsonl", folder / "two.jsonl"]
    run_night(first, night).check_complete()
    memory = Memory.open(folder / "store")
    for note in (
        "The keeper's dog is called Bosun.",
        "The keeper's cat is called Tiller.",
    ):
        memory.remember(note, of_person=False)
    run_night([folder / f"{name}.jsonl" for name in MESSAGES], night).check_complete()
    yield from serve(folder / "store")


def press(page: Any, name: str, why: str = "") -> str:
    """Fill in why where it is asked, press the button, and return what the page then says was done."""
    button = page.get_by_role("button", name=name, exact=True).first
    form = page.locator("form.act").filter(has=button).first
    if why:
        form.locator("input[name=why]").fill(why)
    button.click()
    page.wait_for_url("**/did")
    return str(page.locator("section.done").first.inner_text())


@pytest.mark.parametrize("kind", ["duplicate", "supersession"])
def test_a_merge_or_a_change_is_undone_and_made_again(
    changed: Served, browser: Any, kind: str
) -> None:
    tab = enter(browser, changed)
    rows = changed.get(
        f"/ledger/{'merges' if kind == 'duplicate' else 'changes'}.json"
    ).json()["rows"]
    row = next(row for row in rows if row["kind"] == kind)

    def read() -> tuple[str, bool]:
        claim = changed.get(f"/claim/{row['from_id']}.json").json()
        return claim["claim"]["status"], next(
            one for one in claim["changes"] if one["kind"] == kind
        )["undone"]

    before = read()
    assert before == (kind.replace("supersession", "superseded"), False)
    assert "they differ" in press(
        tab.go(f"/claim/{row['from_id']}"), "Undo this", "they differ"
    )
    assert read() == ("active", True)
    press(tab.go(f"/claim/{row['from_id']}"), "Include it again")
    assert read() == before
    assert tab.said == []


def test_a_line_of_compare_has_its_day_its_speaker_and_its_project(
    changed: Served, browser: Any
) -> None:
    page = enter(browser, changed).go("/compare?old=r1&new=r2")

    def read_facts(words: str) -> list[str]:
        row = page.locator("li.row", has_text=words)
        told: list[str] = row.locator(".facts bdi").all_inner_texts()
        return told

    facts = read_facts("crew meets on Mondays")
    assert facts[:3] == ["3 Mar 2026", "person", "ferry"]
    # a note of no project
    assert read_facts("Bosun")[1] == "agent"


def test_a_topic_without_a_name_is_called_by_the_words_of_a_claim(
    site: Served, browser: Any
) -> None:
    topics = site.get("/topics.json").json()["topics"]
    links = enter(browser, site).go("/topics").locator("td a").all_inner_texts()
    assert [bool(link.strip()) for link in links] == [True] * len(topics)
    for topic in topics:
        page = site.get(f"/topic/{topic['id']}.json").json()
        assert page["title"] == topic["title"]
        if not topic["name"]:
            assert topic["title"] in [claim["summary"] for claim in page["claims"]]


def test_the_figure_on_a_claim_is_the_chance_that_it_is_worth_remembering(
    site: Served, browser: Any
) -> None:
    claim = site.get("/search.json").json()["hits"][0]["id"]
    chance = site.get(f"/claim/{claim}.json").json()["claim"]["confidence"]
    page = enter(browser, site).go(f"/claim/{claim}")
    shown = page.locator("main > .facts bdi").all_inner_texts()
    assert [one for one in shown if "%" in one] == [
        f"{chance:.0%} likely worth remembering"
    ]


def test_what_was_done_is_told_by_the_words_of_what_it_was_done_to(
    changed: Served,
) -> None:
    def find(ledger: str, **wanted: str) -> dict[str, Any]:
        rows = changed.get(f"/ledger/{ledger}.json?old=yes").json()["rows"]
        return next(row for row in rows if wanted.items() <= row.items())

    hits = changed.get("/search.json").json()["hits"]
    claim = next(hit["id"] for hit in hits if "Mondays" in hit["text"])
    session_id = changed.get(f"/claim/{claim}.json").json()["claim"]["session_id"]
    note = write_note(changed, "The keeper's boat is called Skua.")
    change = find("changes", kind="supersession")["merge_id"]
    words = {
        claim: "“The crew meets on Mondays at the quay”",
        note: "“The keeper's boat is called Skua”",
        session_id: "“We decided that Nina keeps the lamp of the lighthouse”",
        change: "“The staging server listens on port 8080” and "
        "“The staging server listens on port 9090 from now on, not 8080”",
    }
    for key, said in words.items():
        assert act(changed, "exclude", id=key, why="not so") == f"Excluded: {said}"
        assert act(changed, "include", id=key) == f"Included: {said}"
    assert (
        act(changed, "rate", id=claim, verdict="good") == f"Rated good: {words[claim]}"
    )


def test_a_session_is_not_told_twice_and_a_day_has_one_form(
    site: Served, changed: Served, browser: Any
) -> None:
    path = next(one for one in list_addresses(site) if "/session/" in one)
    page = enter(browser, site).go(path)
    session = site.get(f"{path}.json").json()
    whole, *others = [one["text"] for one in session["summaries"]]
    assert any(one in whole for one in others[:2])
    told = page.locator("details p", has_text="summary").all_inner_texts()
    assert len(told) == 1 + sum(one not in whole for one in others[:2])
    cells = enter(browser, changed).go("/ledger/notes").locator("td").all_inner_texts()
    days = [cell for cell in cells if re.search(r"\b20\d\d\b", cell)]
    assert days
    assert all(re.match(r"\d+ [A-Z][a-z]+ 20\d\d, \d\d:\d\d$", day) for day in days)


def test_a_claim_as_json_lists_the_sessions_that_state_it(site: Served) -> None:
    hit = site.get("/search.json").json()["hits"][0]
    claim = site.get(f"/claim/{hit['id']}.json").json()["claim"]
    assert claim["session_id"] in claim["evidence_sessions"]
    assert isinstance(claim["evidence_sessions"], list)


def test_a_session_is_left_out_and_taken_in_again(
    changed: Served, browser: Any
) -> None:
    tab = enter(browser, changed)
    (hit,) = [
        hit
        for hit in changed.get("/search.json").json()["hits"]
        if "Mondays" in hit["text"]
    ]
    session_id = changed.get(f"/claim/{hit['id']}.json").json()["claim"]["session_id"]
    page = tab.go(f"/session/{session_id}")
    page.get_by_text("Exclude it").first.click()
    assert "not mine" in press(page, "Exclude it", "not mine")
    assert "Mondays" not in changed.get("/search.json?q=crew+Mondays").text.replace(
        "crew Mondays", ""
    )
    assert (
        changed.get(f"/session/{session_id}.json")
        .json()["left_out"]
        .endswith("not mine")
    )
    press(tab.go(f"/session/{session_id}"), "Include it again")
    assert hit["id"] in changed.get("/search.json").text
    assert tab.said == []


def test_a_note_is_rejected_and_confirmed(changed: Served, browser: Any) -> None:
    tab = enter(browser, changed)
    steps = (
        ("Confirm", "", "confirmed"),
        ("Reject", "not so", "rejected"),
        ("Confirm", "", "confirmed"),
    )
    for button, why, verdict in steps:
        press(tab.go("/ledger/notes?old=yes"), button, why)
        rows = changed.get("/ledger/notes.json?old=yes").json()["rows"]
        # A correction that another test undid may follow.
        assert [row["verdict"] for row in rows[:2]] == [verdict, "unconfirmed"]


def test_one_process_serves_agents_and_people(
    samples_night: tuple[Path, RunReport],
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [
        sys.executable,
        "-c",
        "from slowwave.cli.main import main; main()",
        "mcp",
        "--http",
        "--ui",
        "--port",
        port,
    ]
    with subprocess.Popen(
        [*command, "--store", samples_night[0]], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            entrance = process.stdout.readline().split()[-1] if process.stdout else ""
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}",
                follow_redirects=True,
                timeout=PATIENCE,
            ) as client:

                def answers() -> bool:
                    assert process.poll() is None
                    with contextlib.suppress(httpx.ConnectError):
                        return "Tonight" in client.get(entrance).text
                    return False

                wait_until(answers)
                assert client.get("/topics.json").json()["topics"]
                about = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "x", "version": "1"},
                }
                hello = {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "initialize",
                    "params": about,
                }
                headers = {"accept": "application/json, text/event-stream"}
                assert (
                    '"serverInfo":{"name":"slowwave"'
                    in client.post("/mcp", json=hello, headers=headers).text
                )
        finally:
            process.terminate()


def test_pages_over_100_000_claims_are_as_short_as_over_few(
    tmp_path: Path, browser: Any
) -> None:
    build_store(tmp_path / "store", 100_000)
    for site in serve(tmp_path / "store"):
        tab = enter(browser, site)
        topic = site.get("/topics.json").json()["topics"][0]["id"]
        claim = site.get("/search.json").json()["hits"][0]["id"]
        session_id = site.get(f"/claim/{claim}.json").json()["claim"]["session_id"]
        summary = next(
            one["href"]
            for one in site.get(f"/topic/{topic}.json").json()["icicle"]
            if one["level"] == 1
        )
        spent = list[float]()
        more = [
            f"/topic/{topic}",
            f"/claim/{claim}",
            f"/session/{session_id}",
            summary,
            "/ledger/merges",
        ]
        more += [
            "/search?after=50000",
            "/compare?old=r1&new=r2",
            "/injected?q=tide&release=r1",
            "/forget?match=tide+gauge",
        ]
        more += ["/forget?match=is+nowhere", f"/forget?session={session_id}"]
        for path in [*PAGES, *more]:
            page = tab.go(path)
            assert len(page.content()) < 250_000, path
            assert page.locator("li.row, tbody tr, .change").count() <= 250, path
            # The server's own: the browser is another process.
            before = time.process_time()
            site.get(path)
            spent.append(time.process_time() - before)
        before = time.process_time()
        Store.open(tmp_path / "store").read(CLAIMS).to_pylist()
        # Than to read all claims.
        assert (
            sorted(spent)[len(spent) * 95 // 100] < (time.process_time() - before) / 2
        )
        assert (
            site.get("/compare.json").json()["count"]
            == site.get("/index.json").json()["learnt_count"]
            == 300
        )


def test_the_pyramid_leads_from_the_whole_to_a_message_and_back(
    site: Served, browser: Any
) -> None:
    tab = enter(browser, site)
    page = tab.go("/topics")
    whole = site.get("/topics.json").json()
    assert sum(
        one["w"] for one in whole["icicle"] if one["level"] == 1
    ) == pytest.approx(100, abs=1)
    assert page.locator(".icicle a").count() == len(whole["icicle"])
    while "/claim/" not in page.url:  # the last rectangle lies deepest
        before = page.url
        page.locator(".icicle a").last.click()
        page.wait_for_url(lambda url, before=before: url != before)
    page.locator(".turn a", has_text="message").first.click()
    page.wait_for_url("**/message/*")
    page.go_back()
    page.go_back()
    assert page.locator(".icicle rect").count() > 0
    assert tab.said == []


def test_what_would_be_injected_is_what_an_agent_gets_and_says_why(
    site: Served, browser: Any
) -> None:
    asked = {"q": "Which database does tidepool use?", "budget": "300"}
    (hook,) = site.get(f"/injected.json?{urlencode({'q': asked['q']})}").json()[
        "blocks"
    ]
    quiet = site.explorer.memory.context(asked["q"], 800, automatic=True)
    assert (hook["budget"], hook["tokens"]) == (800, quiet.tokens)
    assert hook["lines"] or hook["reason"]
    asked["asked"] = "yes"  # as an agent asks
    (block,) = site.get(f"/injected.json?{urlencode(asked)}").json()["blocks"]
    told = site.explorer.memory.context(asked["q"], 300)
    assert block["text"] == fence_block(told.text)
    assert sum(block["parts"].values()) == told.tokens == block["tokens"]
    best_first = sorted(told.parts[0].lines, key=lambda line: -line.relevance)
    assert [line["text"] for line in block["lines"]] == [
        line.text for line in best_first
    ]
    found = [
        *(line["why"] for line in block["lines"] if line["why"]),
        *(one["why"] for one in block["missed"]),
    ]
    found.sort(key=lambda why: why["places"]["by signals"])
    sums = [sum(why["signals"].values()) for why in found]
    assert len(sums) > 5
    assert sums == sorted(sums, reverse=True)
    page = enter(browser, site).go(f"/injected?{urlencode(asked)}")
    page.get_by_text("As the agent gets it").click()
    assert " ".join(page.locator("pre").inner_text().split()) == " ".join(
        block["text"].split()
    )
    page.get_by_role("link", name="source").first.click()
    assert page.locator("article.turn").count() == 1


def test_a_briefing_is_told_line_by_line_and_a_setting_stands_beside_it(
    site: Served, browser: Any
) -> None:
    asked = {
        "workspace": "/home/ada/tidepool",
        "setting": "context.briefing_budget = 150",
    }
    block, other = site.get(f"/injected.json?{urlencode(asked)}").json()["blocks"]
    memory = site.explorer.memory
    assert block["text"] == fence_block(
        memory.briefing(workspace="/home/ada/tidepool").text
    )
    assert other["text"] == fence_block(
        memory.briefing(150, workspace="/home/ada/tidepool").text
    )
    orders = [one["why"]["order"] for one in (*block["lines"], *block["missed"])]
    assert len(orders) == len(set(orders)) > 3
    assert {order.split()[0] for order in orders} == {"holds", "session"}
    assert other["missed"]
    page = enter(browser, site).go(f"/injected?{urlencode(asked)}")
    page.get_by_role("link", name="session", exact=True).first.click()
    assert page.locator("article.turn").count() > 0
    for wrong in ("context.nothing=1", "context.hits=many", "store.path=/"):
        assert (
            site.get(f"/injected.json?{urlencode({'setting': wrong})}").status_code
            == 400
        )


def test_the_page_of_a_briefing_begins_with_the_last_project_and_names_all_of_them(
    site: Served,
) -> None:
    first = site.get("/injected.json").json()
    place = first["asked"]["workspace"]
    assert place in first["workspaces"]
    told = site.explorer.memory.briefing(workspace=place)
    assert first["blocks"][0]["text"] == fence_block(told.text)
    (mixed,) = site.get("/injected.json?workspace=*").json()["blocks"]
    projects = {line["source"].get("project") for line in mixed["lines"]}
    assert len(projects - {None}) > 1


def test_counts_narrow_a_search_and_a_hit_says_why(site: Served, browser: Any) -> None:
    found = site.get("/search.json?q=which+port+does+tidepool+use").json()
    assert {
        "workspace",
        "speaker",
        "category",
        "topic",
        "status",
        "date",
        "files",
    } <= found["facets"].keys()
    assert sum(found["hits"][0]["why"]["signals"].values()) > 0
    page = enter(browser, site).go("/search?q=which+port+does+tidepool+use")
    for name in ("date", "files"):
        value, count = found["facets"][name][0]
        shown = show_day(value) if name == "date" else value
        page.get_by_role("link", name=shown, exact=True).click()
        page.wait_for_url("**?*since=*" if name == "date" else "**?*files=*")
        narrowed = site.get(
            page.url.removeprefix(site.address).replace("/search?", "/search.json?")
        ).json()
        assert (
            dict(map(tuple, narrowed["facets"][name]))[value] >= count
            or name == "files"
        )
        page.go_back()
    page.get_by_text("Why it is here").first.click()
    assert "lexical" in page.locator("li.row").first.inner_text()


def test_every_address_of_the_api_answers_as_it_is_described(site: Served) -> None:
    api = site.get("/api.json").json()
    assert {
        "/search.json",
        "/claim/{id}.json",
        "/do/exclude.json",
        "/do/forget.json",
    } <= api["paths"].keys()
    for path, methods in api["paths"].items():
        if "get" not in methods:
            assert (
                httpx.post(site.address + path, headers=site.token)
                .json()["error"]
                .endswith("Field required")
            ), path
        elif "{" in path:
            assert site.get(re.sub("{.*}", "abcdefabcdef", path)).status_code in (
                400,
                404,
            ), path
        else:
            assert site.get(path).status_code == 200, path
        assert all(one["summary"] for one in methods.values())
    assert site.get("/compare?old=r99").status_code == 400
    assert (
        site.get("/search.json?nope=1").json()["error"]
        == "nope: Extra inputs are not permitted"
    )
    assert "after: " in site.get("/search.json?after=-1").json()["error"]


def test_forgetting_shows_first_what_would_go(site: Served, browser: Any) -> None:
    page = enter(browser, site).go("/forget")
    page.get_by_label("Text in it").fill("accordion")
    page.get_by_role("button", name="Show what would go").click()
    assert "messages" in page.inner_text("main")
    assert site.get("/search.json?q=accordion").text.count("accordion") > 1
    assert (
        site.get("/forget.json?match=accordion").json()["preview"]["rows"]["messages"]
        > 0
    )
    page.get_by_role("button", name="Forget this for good").click()
    page.wait_for_url("**/did")
    assert "Certificate" in page.inner_text("main")
    hits = site.get("/search.json?q=accordion").json()["hits"]
    assert "accordion" not in json.dumps(hits)


def test_read_only_pages_offer_and_take_no_action(
    samples_night: tuple[Path, RunReport], browser: Any
) -> None:
    for site in serve(samples_night[0], read_only=True):
        claim = site.get("/search.json").json()["hits"][0]["id"]
        page = enter(browser, site).go(f"/claim/{claim}")
        assert page.locator("main form").count() == 0
        data = {"id": claim, "verdict": "bad"}
        answer = httpx.post(f"{site.address}/do/rate", data=data, headers=site.token)
        assert answer.status_code in (404, 405)
