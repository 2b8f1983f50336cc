"""What is left out is told neither now nor later, and taken in again all is as before; a night that is held back
rejected; and what by hand makes nothing of it live.
"""

import re
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.exclude import promote_candidate, run_exclude, run_include
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import is_held
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, PASSAGES
from slowwave.store import Store
from slowwave.store.manifest import compute_table_digest
from slowwave.store.publishing import read_releases
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.publish import gates
from slowwave.tasks.publish.gates import Bounds
from tests.command_line import typed
from tests.flows.test_gates import lose
from tests.talk_files import session, write_talk


@pytest.fixture
def settings(fifteen: Path) -> Settings:
    """A store of two nights: twelve sessions, then a poisoned file of three."""
    return Settings(store=fifteen / "store")


def list_claims(settings: Settings) -> list[tuple[str, str]]:
    rows = Store.open(settings.store).read(CLAIMS, ["claim_id", "status"]).to_pylist()
    return sorted((row["claim_id"], row["status"]) for row in rows)


def compute_passages_digest(settings: Settings) -> str:
    return compute_table_digest(PASSAGES, Store.open(settings.store).read(PASSAGES))


def find_claims(settings: Settings, word: str) -> list[str]:
    rows = (
        Store.open(settings.store)
        .read(CLAIMS, ["claim_id", "summary", "status"])
        .to_pylist()
    )
    return [
        row["claim_id"]
        for row in rows
        if word in row["summary"] and row["status"] == "active"
    ]


@pytest.mark.parametrize("name", ["file", "r2"])
def test_nothing_of_it_is_told_and_a_later_night_does_not_bring_it_back(
    settings: Settings, fifteen: Path, name: str
) -> None:
    poison = fifteen / "poison.jsonl"
    assert find_claims(settings, "unit21x")
    run_exclude(
        [str(poison) if name == "file" else name], "it was made up", settings
    ).check_complete()
    write_talk(poison, 20, 4)  # it grows, by a session of its own
    run_night([poison], settings).check_complete()
    assert [find_claims(settings, f"unit{n}x") for n in (20, 21, 22)] == [[], [], []]
    assert find_claims(settings, "unit23x")
    assert find_claims(settings, "unit3x")
    memory = Memory.open(settings.store, encoder=HashEncoder())
    assert not any(
        "unit21x" in hit.text
        for hit in memory.recall(
            "which port does the unit21x service listen on", 20, everything=True
        )
    )


def test_taken_in_again_all_is_as_before(settings: Settings) -> None:
    claims, passages = list_claims(settings), compute_passages_digest(settings)
    run_exclude(["s20", "s21"], "they were made up", settings)
    assert list_claims(settings) != claims
    assert compute_passages_digest(settings) != passages
    run_include(["s20", "s21"], settings)
    assert list_claims(settings) == claims
    assert compute_passages_digest(settings) == passages


def test_the_commands_leave_out_list_and_take_in_and_refuse_what_is_no_name_or_was_done(
    settings: Settings,
) -> None:
    where = ("--store", settings.store)
    assert typed("inspect", "excluded", *where).stdout == "Nothing in excluded.\n"
    secret = "ghp_" + "a1B2c3D4e5" * 4  # a reason is kept as what is read is
    assert (
        typed(
            "exclude", "s20", "--why", f"made\x1b up with {secret[:40]}", *where
        ).exit_code
        == 0
    )
    listed = typed("inspect", "excluded", "--json", *where).stdout
    assert ('"s20"' in listed, "made up with [" in listed, secret[:40] in listed) == (
        True,
        True,
        False,
    )
    for words, why in (
        (("exclude", "s99", "--why", "x"), "nothing is called 's99'"),
        (("exclude", "abc", "--why", "x"), "6 characters"),
        (("exclude", "s21", "--why", " "), "reason is needed"),
        (("exclude", "s20", "--why", "x"), "left out already"),
        (("exclude", "candidate", "--why", "x"), "nothing is held back"),
        (("include", "s21"), "not excluded"),
    ):
        refused = typed(*words, *where)
        assert (refused.exit_code, why in refused.stderr) == (1, True), refused.output
    assert typed("include", "s20", *where).exit_code == 0
    assert typed("inspect", "excluded", *where).stdout == "Nothing in excluded.\n"


def test_all_that_there_is_may_be_left_out_and_the_next_night_goes_on(
    tmp_path: Path,
) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    run_night([write_talk(tmp_path / "a.jsonl", 0, 1)], settings).check_complete()
    run_exclude(
        [str(tmp_path / "a.jsonl")], "it was made up", settings
    ).check_complete()
    assert [row for row in list_claims(settings) if row[1] == "active"] == []
    assert not Memory.open(settings.store, encoder=HashEncoder()).recall(
        "which port does the unit0x service listen on"
    )
    report = run_night([write_talk(tmp_path / "b.jsonl", 5, 1)], settings)
    assert report.release is not None
    assert find_claims(settings, "unit5x")


def test_a_claim_taken_back_comes_back_neither_by_its_session_nor_by_anothers_words(
    gated: Settings, twelve: Path
) -> None:
    wanted = find_claims(gated, "unit3x service")[0]
    run_exclude([wanted[:10]], "it was made up", gated).check_complete()
    again = write_talk(twelve / "a.jsonl", 0, 12).read_text()
    (twelve / "b.jsonl").write_text(again.replace('"s3', '"other3'))
    # All pending.
    changed = gated.model_copy(
        update={"keywords": gated.keywords.model_copy(update={"top": 1})}
    )
    run_night([twelve / "b.jsonl"], changed).check_complete()
    assert find_claims(gated, "unit3x service") == []
    assert find_claims(gated, "unit4x service")
    where = ["--store", str(gated.store)]
    assert "it was made up" in typed("inspect", "excluded", *where).stdout
    with pytest.raises(UsageError, match="left out already"):
        run_exclude([wanted], "again", gated)
    run_include([wanted], gated).check_complete()
    assert len(find_claims(gated, "unit3x service")) == 1


def test_the_messages_of_a_claim_taken_back_do_not_tell_it(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    said = [
        ("user", "The admin console listens on port 9443."),
        ("assistant", "Set to port 9443 as you asked."),
        ("user", "We deploy on Fridays. The logs go to /var/log/kite.log."),
        ("assistant", "Noted."),
        ("user", "The cache lives in Valkey. The queue runs on Faktory."),
    ]
    run_night([session(tmp_path, "a", 2, said)], settings).check_complete()
    words = ("9443", "kite.log", "Valkey", "Faktory")
    wanted = [key for word in words for key in find_claims(settings, word)]
    run_exclude(wanted, "it was made up", settings).check_complete()

    def ask() -> str:
        memory = Memory.open(settings.store, encoder=HashEncoder())
        asked = "Which port has the admin console, where do logs go, what of cache and queue?"
        hits = memory.recall(asked, 10, everything=True)
        texts = [hit.text for hit in hits]
        return "\n".join([*texts, memory.context(asked, 400).text])

    told = ask()
    assert not [word for word in words if word in told]
    assert "We deploy on Fridays. …" in told  # what else the message says stays
    run_include(wanted, settings).check_complete()
    assert all(word in ask() for word in ("Set to port 9443", *words))


def hold(gated: Settings, twelve: Path) -> Path:
    """A night held back: it loses claims, and brings sessions of its own."""
    lose(gated, 0.5)
    poison = write_talk(twelve / "poison.jsonl", 20, 3)
    assert run_night([poison], gated).held
    return poison


def test_nothing_by_hand_makes_live_what_is_held_back(
    gated: Settings, twelve: Path
) -> None:
    hold(gated, twelve)
    run_exclude([find_claims(gated, "unit2")[0]], "wrong", gated)
    assert [one.name for one in read_releases(Store.open(gated.store))] == ["r1"]


def test_a_forgetting_waits_for_no_decision_and_sets_aside_what_came_with_the_night(
    gated: Settings, twelve: Path
) -> None:
    hold(gated, twelve)
    notes = run_forget(Wanted(matches=("unit5x",)), gated)[0].notes
    assert any(
        note.startswith("a night was held back: what it added is excluded")
        for note in notes
    )
    store = Store.open(gated.store)
    assert not is_held(store)
    assert find_claims(gated, "unit5x") == find_claims(gated, "unit21x") == []
    assert find_claims(gated, "unit9x") != []


def test_a_rejected_night_leaves_nothing_of_what_came_with_it(
    gated: Settings, twelve: Path
) -> None:
    store = Store.open(gated.store)
    probes = {"which port does the unit3x service listen on": "port 1021"}
    gated = gated.model_copy(
        update={"gates": gated.gates.model_copy(update={"probes": probes})}
    )
    poison = write_talk(twelve / "poison.jsonl", 20, 40)
    poison.write_text(re.sub(r"unit\d+x", "unit3x", poison.read_text()))
    assert run_night([poison], gated).held
    run_exclude(["candidate"], "it is no transcript", gated).check_complete()
    assert len(find_claims(gated, "unit3x")) == 3
    assert len(read_releases(store)) == 2
    assert run_night([poison], gated).held == []
    lose(gated, 0.5)  # no session comes with this
    assert run_night([poison], gated).held
    assert any(
        note.startswith("the held-back night added no session")
        for note in run_exclude(["candidate"], "x", gated).notes
    )


def test_what_a_roll_back_took_away_did_not_come_with_a_night_that_is_rejected_and_its_end_is_said(
    fifteen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=10))
    gated = Settings(store=fifteen / "store", gates={"max_lost": 0.2})
    assert typed("rollback", "r1", "--store", gated.store).exit_code == 0
    assert run_night([], gated).release is None
    lose(gated, 0.4)
    held = run_night([write_talk(fifteen / "c.jsonl", 30, 3)], gated)
    assert held.held
    report = run_exclude(["candidate"], "it was made up", gated)
    assert find_claims(gated, "unit31x") == []
    assert find_claims(gated, "unit21x")
    assert report.held  # what was lost is lost without it too
    promoted = promote_candidate("it was lost before", gated)
    assert any(
        "r4 ends the roll-back to r1" in note for note in promoted.collect_notes()
    )


def test_a_diff_says_why_a_person_took_a_claim_back_and_left_a_session_out(
    gated: Settings,
) -> None:
    run_exclude(
        [find_claims(gated, "unit3x service")[0]], "it was a joke", gated
    ).check_complete()
    run_exclude(["s5"], "a test of Ann's", gated).check_complete()
    told = typed("diff", "r1", "r3", "--store", gated.store).stdout
    assert told.startswith("r1 to r3: 4 withdrawn\n")
    assert told.count("\n    left out: it was a joke\n") == 1
    assert told.count("\n    its session was left out: a test of Ann's\n") == 3


ADMIN = "The admin is Bo."
DEPLOYS = "Everything else about deploys is decided by Bo and Ann in the weekly call."
SECRET = "The customer list is kept in the bucket **wren-secret**, never on disk."
PORTS = "The port is 80. The port is 8080 in the tests."


@pytest.fixture
def told(tmp_path: Path) -> Settings:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    said = [
        ("user", f"{ADMIN} {DEPLOYS}"),
        ("assistant", "Fine."),
        ("user", f"{PORTS} The timeout is 5 s."),
        ("assistant", "Sure."),
        ("user", f"{SECRET.replace(' in the', chr(10) + 'in the')} We lint with ruff."),
    ]
    run_night([session(tmp_path, "a", 2, said)], settings).check_complete()
    return settings


def show_messages(settings: Settings) -> str:
    memory = Memory.open(settings.store, encoder=HashEncoder())
    asked = "admin deploys weekly call port tests timeout customer list bucket ruff"
    hits = memory.recall(asked, 10, "message", everything=True)
    return "\n".join(hit.text for hit in hits)


def test_only_a_claims_own_words_are_hidden_and_not_its_neighbours(
    told: Settings,
) -> None:
    eighty = set(find_claims(told, "is 80")) - set(find_claims(told, "8080"))
    wanted = [find_claims(told, word)[0] for word in ("Everything", "wren")]
    wanted += eighty
    rows = Store.open(told.store).read(CLAIMS, ["claim_id", "quote"]).to_pylist()
    assert any(row["quote"] == f"{ADMIN} {DEPLOYS[:-1]}" for row in rows)  # it spans
    run_exclude(wanted, "not here", told).check_complete()
    shown = show_messages(told)
    assert f"{ADMIN} …" in shown
    assert "… The port is 8080 in the tests. The timeout is 5 s." in shown
    assert "wren" not in shown
    assert "We lint with ruff." in shown


@pytest.mark.parametrize("words", [("is Bo", "Everything"), ("Everything", "is Bo")])
def test_included_a_claims_message_is_back_whatever_the_order(
    told: Settings, words: tuple[str, str]
) -> None:
    first, second = (find_claims(told, word)[0] for word in words)
    run_exclude([first], "not here", told).check_complete()
    run_exclude([second], "not here", told).check_complete()
    assert "Bo" not in show_messages(told)
    run_include([first], told).check_complete()
    shown = show_messages(told)
    assert (words[0] in shown, words[1] in shown) == (True, False)
    assert find_claims(told, words[0]) == [first]
    run_include([second], told).check_complete()
    assert f"{ADMIN} {DEPLOYS}" in show_messages(told)


def test_a_claim_that_a_later_one_replaced_is_left_out_too(
    told: Settings, tmp_path: Path
) -> None:
    old = find_claims(told, "timeout")[0]
    said = [("user", "The timeout is 9 s from now on, no longer 5 s.")]
    run_night([session(tmp_path, "b", 9, said)], told).check_complete()
    Memory.open(told.store, encoder=HashEncoder()).correct(old, "it is 9 s")
    run_night([], told).check_complete()
    assert (old, "superseded") in list_claims(told)
    run_exclude([old], "not here", told).check_complete()
    assert "The timeout is 5 s" not in show_messages(told)
    run_include([old], told).check_complete()
    assert "The timeout is 5 s" in show_messages(told)


def test_a_summary_of_which_all_is_left_out_is_no_hit(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    asked = "Shall we use Terraform for all servers, with the state in ibex-tf?"
    said = [
        ("user", "How should we provision the servers?"),
        ("assistant", f"There are two ways, Terraform and Ansible. {asked}"),
        ("user", "yes please"),
        ("assistant", "Done."),
    ]
    run_night([session(tmp_path, "a", 2, said)], settings).check_complete()
    run_exclude(find_claims(settings, asked), "no", settings).check_complete()
    memory = Memory.open(settings.store, encoder=HashEncoder())
    hits = memory.recall("Terraform for all servers", 20, everything=True)
    assert hits
    assert not [hit for hit in hits if asked in hit.text or len(hit.text) < 2]
