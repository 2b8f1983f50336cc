"""A person says what is right instead of a claim: nights before and after, undone, corrected again and forgotten."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.cli.ask import format_change, format_hit
from slowwave.context.projects.briefing import collect_due
from slowwave.context.projects.intentions import Intention, list_intentions
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.exclude import run_exclude, run_include
from slowwave.flows.forget import run_forget
from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.store import Store
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.llm.fence import has_injection
from slowwave.text.times.days import format_day
from slowwave.ui.page import Explorer
from slowwave.ui.pages import show_claim
from tests.command_line import typed
from tests.kept_folders import restore
from tests.talk_files import session
from tests.words_in_store import find_word

OLD = "We decided that the staging gateway listens on port 9443."
SAID = [
    ("user", OLD),
    ("assistant", "Understood, the staging gateway it is."),
    ("user", "The nightly backup goes to the bucket in Frankfurt, I decided."),
    ("assistant", "Noted."),
]
RIGHT = "it is 9555, not 9443"
WHOLE = f"{RIGHT} (corrects: {OLD.removesuffix('.')})"
"""The correction alone names no gateway, so its claim is followed by what it corrects."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A talk with two decisions, and the store of a night over it; and their copy beside it."""
    here = tmp_path_factory.mktemp("correct") / "used"
    talk = session(here, "gw-1", 2, SAID, workspace="/gate")
    run_night([talk], make_settings(here))
    shutil.copytree(here, here.with_name("kept"))
    return here


def make_settings(folder: Path) -> Settings:
    return Settings(store=folder / "store", encoder="hash-384", keywords={"top": 0})


@pytest.fixture
def settings(folder: Path) -> Settings:
    """The store as it was after the night, in its place."""
    return make_settings(restore(folder, "kept"))


def open_memory(settings: Settings) -> Memory:
    return Memory.open(settings.store, encoder=HashEncoder())


def read_claims(settings: Settings) -> dict[str, str]:
    """Return the status of each claim by its words, of those about the port."""
    rows = Store.open(settings.store).read(CLAIMS).to_pylist()
    return {
        row["summary"]: row["status"]
        for row in rows
        if "9" in row["summary"] and row["status"] != "duplicate"
    }


def find_id(settings: Settings, word: str) -> str:
    claims = open_memory(settings).claims(limit=None)
    return next(one.id for one in claims if word in one.summary)


def run_next(settings: Settings, tmp_path: Path, day: int = 3) -> None:
    talk = [
        ("user", f"I bought a red bicycle for {day}40 euros."),
        ("assistant", "Ok."),
    ]
    run_night([session(tmp_path, f"other-{day}", day, talk)], settings).check_complete()


def test_a_correction_is_recalled_at_once_and_replaces_the_claim_in_the_night(
    settings: Settings, tmp_path: Path
) -> None:
    memory, wrong = open_memory(settings), find_id(settings, "9443")
    note = memory.correct(wrong[:8], RIGHT)
    hits = memory.recall("which port does the staging gateway listen on")
    assert hits[0].text == RIGHT
    told = [hit.status for hit in hits if hit.kind == "message" and hit.text == OLD]
    assert told == ["superseded"]
    (hit,) = memory.recall("staging gateway port", 1, kinds=("claim",))
    assert (hit.text, hit.status, hit.successor.text) == (OLD[:-1], "superseded", RIGHT)
    run_next(settings, tmp_path)
    assert read_claims(settings) == {OLD[:-1]: "superseded", WHOLE: "active"}
    (right,) = [
        row
        for row in Store.open(settings.store).read(CLAIMS).to_pylist()
        if row["summary"] == WHOLE
    ]
    # the person's words, word for word, in the project of the claim
    assert (right["quote"], right["workspace"]) == (RIGHT, "/gate")
    (change,) = LEDGERS["changes"](settings, False).rows
    assert (change["by"], change["rule"], change["into"]) == (
        "person",
        "corrected",
        WHOLE,
    )
    hits = open_memory(settings).recall("which port does the staging gateway listen on")
    assert RIGHT in hits[0].text
    assert note.startswith("note-")


def test_a_correction_goes_before_an_answer_to_what_it_corrects(
    settings: Settings, tmp_path: Path
) -> None:
    memory, wrong = open_memory(settings), find_id(settings, "9443")
    query = "understood, the staging gateway it is"
    before = memory.recall(query, kinds=("message",))
    answer = next(hit for hit in before if hit.text == SAID[1][1])
    assert any(fragment.text == OLD for fragment in answer.pair)  # it shows the claim
    memory.correct(wrong, RIGHT)
    hits = memory.recall(query, kinds=("message",))
    texts = [hit.text for hit in hits]
    told = hits[texts.index(answer.text)]
    assert texts.index(RIGHT) < texts.index(answer.text)
    assert (told.status, told.successor.text) == ("active", RIGHT)
    day = format_day(told.successor.observed_at)
    assert format_change(told) == f"corrected by you on {day}: “{RIGHT}”"
    # after the night the correction is printed once
    run_next(settings, tmp_path)
    after = open_memory(settings).recall(RIGHT)
    (note,) = [hit for hit in after if hit.text == RIGHT]
    assert note.claim == WHOLE
    assert format_hit(1, note).count(RIGHT) == 1
    assert f"\n   (corrects: {OLD.removesuffix('.')})\n" in format_hit(1, note)


@pytest.mark.parametrize("what", ["note", "change"])
def test_it_is_taken_back_and_made_again(
    settings: Settings, tmp_path: Path, what: str
) -> None:
    note = open_memory(settings).correct(find_id(settings, "9443"), RIGHT)
    run_next(settings, tmp_path)
    (change,) = LEDGERS["changes"](settings, False).rows
    name = note if what == "note" else change["merge_id"]
    run_exclude([name], "I was wrong", settings).check_complete()
    assert read_claims(settings)[OLD[:-1]] == "active"
    run_include([name], settings).check_complete()
    run_next(settings, tmp_path, 4)
    assert read_claims(settings) == {OLD[:-1]: "superseded", WHOLE: "active"}


def test_it_is_taken_back_before_a_night_read_it(settings: Settings) -> None:
    memory = open_memory(settings)
    note = memory.correct(find_id(settings, "9443"), RIGHT)
    run_exclude([note], "I was wrong", settings).check_complete()
    assert read_claims(settings) == {OLD[:-1]: "active"}
    hits = open_memory(settings).recall("which port does the staging gateway listen on")
    assert not any(RIGHT in hit.text for hit in hits)


def test_a_correction_is_corrected_before_and_after_a_night(
    settings: Settings, tmp_path: Path
) -> None:
    memory, wrong = open_memory(settings), find_id(settings, "9443")
    note = memory.correct(wrong, RIGHT)
    memory.correct(note, "it is 9666, not 9443")  # no night has read the first one
    hits = memory.recall("which port does the staging gateway listen on")
    assert hits[0].text == "it is 9666, not 9443"
    run_next(settings, tmp_path)
    assert [
        words[:10] for words, is_ in read_claims(settings).items() if is_ == "active"
    ] == ["it is 9666"]
    memory = open_memory(settings)
    memory.correct(
        find_id(settings, "9666"), "The staging gateway listens on port 9777"
    )
    run_next(settings, tmp_path, 4)
    holds = [words for words, is_ in read_claims(settings).items() if is_ == "active"]
    assert holds == ["The staging gateway listens on port 9777"]
    with pytest.raises(UsageError, match="holds in its place: The staging gateway"):
        open_memory(settings).correct(wrong, "it is 9888")


def test_what_can_not_be_corrected_is_refused(settings: Settings) -> None:
    memory, wrong = open_memory(settings), find_id(settings, "9443")
    plain = memory.remember("The lift is out of order.")
    for name, text, why in (
        ("ffffffffff", RIGHT, "nothing in release r1 has the id 'ffffffffff'"),
        ("gw-1", RIGHT, "gw-1 is a session: only a claim can be corrected"),
        (wrong, OLD[:-1].upper(), "the claim says that already"),
        (wrong, "  ", "nothing was noted"),
        (plain, RIGHT, "is not yet distilled"),
    ):
        with pytest.raises(UsageError, match=why):
            memory.correct(name, text)
    refused = typed("correct", "ffffffffff", "x", "--store", settings.store)
    assert (refused.exit_code, "has the id" in refused.stderr) == (1, True)


def test_an_agent_s_correction_links_until_a_person_confirms_it(
    settings: Settings, tmp_path: Path
) -> None:
    wrong = find_id(settings, "9443")
    done = typed("correct", wrong, RIGHT, "--agent", "--store", settings.store)
    note = done.stdout.split()[2].rstrip(",")
    assert f"`slowwave include {note}` confirms it" in " ".join(done.stdout.split())
    hits = open_memory(settings).recall("which port does the staging gateway listen on")
    assert {hit.status for hit in hits if "port 9443" in hit.text} == {"active"}
    run_next(settings, tmp_path)
    assert read_claims(settings) == {OLD[:-1]: "active", WHOLE: "active"}
    (change,) = LEDGERS["changes"](settings, False).rows
    assert (change["kind"], change["rule"]) == ("doubt", "perhaps")
    run_include([note], settings)
    run_night([], settings)
    assert read_claims(settings) == {OLD[:-1]: "superseded", WHOLE: "active"}


def test_an_agent_that_repeats_the_claim_does_not_bring_it_back_and_a_person_does(
    settings: Settings, tmp_path: Path
) -> None:
    at = datetime(2026, 3, 3, 9, tzinfo=UTC)
    open_memory(settings).correct(find_id(settings, "9443"), RIGHT, at=at)
    run_next(settings, tmp_path)
    again = [("user", "Good morning, what did we decide?"), ("assistant", OLD)]
    run_night([session(tmp_path, "gw-2", 5, again, workspace="/gate")], settings)
    held = {words for words, is_ in read_claims(settings).items() if is_ == "active"}
    assert held == {WHOLE}
    run_night(
        [session(tmp_path, "gw-3", 6, SAID, workspace="/gate")], settings
    ).check_complete()
    held = {words for words, is_ in read_claims(settings).items() if is_ == "active"}
    assert held == {OLD[:-1]}


def test_a_forgotten_correction_and_a_roll_back_leave_the_claim_as_it_was(
    settings: Settings, tmp_path: Path
) -> None:
    note = open_memory(settings).correct(find_id(settings, "9443"), RIGHT)
    run_next(settings, tmp_path)
    typed("rollback", "r1", "--why", "x", "--store", settings.store)
    hits = open_memory(settings).recall("which port does the staging gateway listen on")
    assert hits[0].text == RIGHT  # as before the night: a note that the release lacks
    run_next(settings, tmp_path, 4)
    assert read_claims(settings) == {OLD[:-1]: "superseded", WHOLE: "active"}
    run_forget(Wanted(notes=(note,)), settings)
    assert read_claims(settings) == {OLD[:-1]: "active"}


def test_a_forgotten_claim_takes_its_words_out_of_the_correction(
    settings: Settings, tmp_path: Path
) -> None:
    open_memory(settings).correct(find_id(settings, "9443"), RIGHT)
    run_next(settings, tmp_path)
    run_forget(Wanted(matches=("staging gateway",)), settings)
    assert find_word(settings.store, "gateway") == []
    assert read_claims(settings) == {RIGHT: "active"}


@pytest.mark.parametrize("by", ["claim", "note"])
@pytest.mark.parametrize("nights", [0, 1])
def test_one_command_takes_it_back_before_and_after_a_night(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    nights: int,
) -> None:
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    wrong = find_id(settings, "9443")
    first = open_memory(settings).correct(wrong, "it is 9111")
    last = open_memory(settings).correct(wrong, RIGHT)
    if nights:
        run_next(settings, tmp_path)
    name = {"claim": wrong[:12], "note": last}[by]
    done = typed("correct", name, "--undo", "--store", settings.store)
    assert done.exit_code == 0, done.stderr
    # the first correction is still there, and goes by the same words
    done = typed("correct", wrong, "--undo", "--store", settings.store)
    assert (done.exit_code, first in done.stdout) == (0, True), done.stderr
    holds = [words for words, is_ in read_claims(settings).items() if is_ == "active"]
    assert holds == [OLD[:-1]]
    hits = open_memory(settings).recall("which port does the staging gateway listen on")
    assert (hits[0].text, hits[0].status) == (OLD, "active")
    refused = typed("correct", wrong, "--undo", "--store", settings.store)
    assert (refused.exit_code, "neither a correction" in refused.stderr) == (1, True)


def test_the_claim_s_page_takes_a_correction_back(settings: Settings) -> None:
    wrong = find_id(settings, "9443")
    note = open_memory(settings).correct(wrong, RIGHT)
    shown = show_claim(Explorer(settings), wrong)["corrected"]
    assert shown == {"text": RIGHT, "note": note}
    run_exclude([note], "I was wrong", settings)
    assert show_claim(Explorer(settings), wrong)["corrected"] is None


def test_what_was_corrected_is_not_told_with_what_stands_beside_it(
    tmp_path: Path,
) -> None:
    weeks = Path(__file__).parents[2] / "data" / "labelled" / "newcomers" / "odile"
    talk = next(
        path for path in weeks.glob("*.jsonl") if "cyrillic neither" in path.read_text()
    )
    settings = Settings(store=tmp_path / "store", keywords={"top": 0})
    run_night([talk], settings)

    def list_told() -> list[str]:
        view = Memory.open(settings.store).get_view()
        lines = collect_skill_lines(view, [*view.workspaces], has_injection)
        return [line.text for line in lines if line.text.startswith("cyrillic")]

    (before,) = list_told()
    assert "delivery is on 30 november" in before
    memory = Memory.open(settings.store)
    wrong = next(one for one in memory.claims(limit=None) if "delivery" in one.summary)
    memory.correct(wrong.id, "Delivery is on 12 December.")
    run_night([talk], settings)
    (after,) = list_told()
    assert after.startswith("cyrillic neither btw, not in the budget (")


LONG = (
    "Stripe comes in March, but only for the invoices of the Swiss customers: the German and the Austrian ones stay "
    "with Paddle until their contracts end, and the sandbox account is closed by the end of the year"
)
PLANS = [
    ("user", "In December we switch the billing of the county to Stripe."),
    ("assistant", "I will keep it in mind."),
    ("user", "Next week we move the calendar sync to CalDAV."),
    ("assistant", "Fine."),
]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a night over two plans."""
    here = tmp_path_factory.mktemp("plans")
    talk = session(here, "plans-1", 2, PLANS, workspace="/gate")
    run_night([talk], Settings(store=here / "store")).check_complete()
    return here


def test_a_corrected_plan_is_told_where_the_plan_was(
    plans: Path, tmp_path: Path
) -> None:
    settings = Settings(store=plans / "store")
    memory = Memory.open(settings.store)
    billing, sync = (
        next(one for one in memory.claims() if word in one.summary)
        for word in ("Stripe", "CalDAV")
    )
    assert {billing.category, sync.category} == {"plan"}
    memory.correct(billing.id, f"{LONG}, as Ada has it in her letter to the county")
    memory.correct(sync.id, "not before the freeze")
    run_next(settings, tmp_path)
    memory = Memory.open(settings.store)
    by_words = {one.summary: one for one in memory.claims()}
    words = next(text for text in by_words if text.startswith(LONG))
    later = next(text for text in by_words if text.startswith("not before"))
    assert {by_words[text].category for text in (words, later)} == {"plan"}
    # "next week" is that of the day on which it was said
    assert later == (
        "not before the freeze (corrects: Next week (9 to 15 Mar 2026) we move the calendar sync to CalDAV)"
    )
    meant = {one.id: one.due for one in memory.intentions("/gate")}
    assert {by_words[words].id, by_words[later].id} <= meant.keys()
    assert meant[by_words[later].id] is None
    told = memory.briefing(4_000, workspace="/gate").text
    assert LONG in told
    assert later in told


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_more_hits_are_given_than_asked_for_right_after_a_correction(
    settings: Settings, k: int
) -> None:
    memory = open_memory(settings)
    memory.correct(find_id(settings, "9443"), RIGHT)
    hits = memory.recall("which port does the staging gateway listen on", k)
    assert len(hits) <= k
    assert hits[0].text == RIGHT


def test_a_due_plan_that_was_corrected_is_not_open_any_more(
    plans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Memory.open(plans / "store").get_view()
    monkeypatch.setattr(Intention, "is_open", lambda one, today: True)
    ids = {one.id for one in list_intentions(view, ("/gate",))}
    assert len(collect_due(view, ("/gate",))) > 0
    assert collect_due(view, ("/gate",), ids) == []
