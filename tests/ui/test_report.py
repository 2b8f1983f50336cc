"""`slowwave report`: one file of HTML that says what a night brought, each thing once, and everything as text."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the extra `ui` is not installed")

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.run_page import describe_run
from slowwave.schemas.settings import Settings
from slowwave.ui.page import date_text
from tests.command_line import typed
from tests.talk_files import session

HOSTILE = "We always deploy <script>alert(1)</script></pre> from the \x1b[31mred\u202e branch `{{ 7654*4321 }}`"


class Page(HTMLParser):
    """The tags of a page, and its text in pieces."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.pieces.append(data.strip())


def squeeze(text: str) -> str:
    return re.sub(r"[`\s]", "", text)


def test_a_report_is_one_file_that_tells_each_thing_once(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    shutil.copytree(samples_night[0], tmp_path / "store")
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    out, run = tmp_path / "night.html", samples_night[1].run_id
    done = typed("report", run[:8], "--out", out, "--store", settings.store)
    assert done.exit_code == 0, done.output
    page, told = Page(out.read_text(encoding="utf-8")), describe_run(settings)
    assert out.stat().st_mode & 0o077 == 0
    assert not {"script", "link", "img", "iframe", "a"} & {tag for tag, _ in page.tags}
    assert told["learnt_count"] > len(told["learnt"]) == 50
    # Code spans are pieces of their own, and dates stand beside "yesterday".
    learnt = "".join(page.pieces[: page.pieces.index("Changed")])
    shown = [date_text(claim["summary"], claim) for claim in told["learnt"]]
    assert all(squeeze(learnt).count(squeeze(text)) == 1 for text in shown)
    assert all(step["step"] in page.pieces for step in told["steps"])
    unknown = typed("report", "nobody", "--store", settings.store)
    assert unknown.exit_code == 1
    assert "nobody" in unknown.output


def test_what_a_night_changed_and_how_near_a_gate_that_came_stands_in_the_report(
    tmp_path: Path,
) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    port = "The staging server listens on port"
    first = session(
        tmp_path,
        "one",
        1,
        [("user", f"{port} 8080."), ("assistant", "Noted."), ("user", HOSTILE)],
    )
    run_night([first], settings).check_complete()
    second = session(
        tmp_path,
        "two",
        9,
        [("user", f"{port} 9090 from now on, not 8080."), ("assistant", "Noted.")],
    )
    run_night([first, second], settings).check_complete()
    told = describe_run(settings)
    elsewhere = describe_run(settings, places=["another"])
    assert (elsewhere["learnt"], elsewhere["learnt_count"]) == ([], 0)
    assert elsewhere["changed_count"] == 0 < told["learnt_count"]
    assert [one["new"] for one in told["sessions"]] == [2]
    assert [night["new"] for night in told["nights"]] == [3, 2]
    assert [
        night["lag"] is not None and night["lag"] > 0 for night in told["nights"]
    ] == [True, False]
    assert {gate["setting"] for gate in told["gates"]} == {
        "gates.max_retired",
        "gates.max_lost",
    }
    assert "9090" in told["learnt"][0]["summary"]
    text = typed(
        "report", told["nights"][0]["run_id"], "--store", settings.store
    ).output
    assert "alert(1)" in text
    assert not any(
        mark in text for mark in ("<script>alert", "\x1b", "\u202e", str(7654 * 4321))
    )


def test_what_a_pasted_mail_decided_is_no_claim_and_answers_with_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    mail = (
        "Please look at this mail:\n\nFrom: Bob <bob@yard.example>\nSubject: crane\n\n"
        "We decided that the crane service listens on port 4410.\n\nRegards, Bob"
    )
    own = "We decided that the winch service listens on port 5520."
    told = [("user", "We decided to paint the sluice green."), ("assistant", "Noted.")]
    store = ("--store", tmp_path / "store")
    for day, said in enumerate((told, [("user", mail), *told[1:], ("user", own)]), 1):
        file = session(tmp_path, f"s{day}", day, said)
        ran = typed("run", file, "--plain", *store)
        assert ran.exit_code == 0, ran.output
    learnt = ran.output[ran.output.index("Learnt: ") :]
    for text in (learnt, typed("diff", *store).output):
        assert "We decided that the winch service" in text
        assert "crane" not in text
    news = describe_run(Settings(store=store[1]))["learnt"]
    assert {one["trust"] for one in news if "winch" in one["summary"]} == {"typed"}
    # nothing is lost: the message answers, marked
    asked = typed("recall", "which port does the crane service listen on?", *store)
    assert "port 4410" in asked.output
    assert "web or pasted text" in asked.output
