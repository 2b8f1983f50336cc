"""Learnings shared: an export imported is the same, and nothing of another memory rules over one's own."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slowwave.context.projects.standing import collect_standing_claims
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows import nightly
from slowwave.flows.export import export_learnings
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.share import import_learnings
from slowwave.memory import Memory
from slowwave.recall.release.view import View
from slowwave.recall.views.show import show
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    MESSAGES,
    QUARANTINE,
    SESSIONS,
    SUMMARIES,
)
from slowwave.store.store import Store
from slowwave.tasks.forget.proof import check_certificate, load_certificate
from slowwave.tasks.forget.select import Wanted
from tests.command_line import typed
from tests.killed_nights import digests

SAME = ("summary", "detail", "category", "pack", "quote", "speaker", "observed_at")
TURNS = [
    "We use pnpm for the shop.",
    "Noted: pnpm.",
    "The API listens on port 8080.",
    "Noted: port 8080.",
]
LATER = "The API listens on port 9090 from now on, no longer on port 8080."


def config(store: Path) -> Settings:
    return Settings(store=store, encoder="hash-384")


def claims(store: Path, status: str = "active") -> list[dict[str, Any]]:
    rows = Store.open(store, "default").read(CLAIMS).to_pylist()
    return [row for row in rows if row["status"] == status]


def says(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in SAME) for row in rows), key=repr)


def chat(path: Path, day: int, *said: str) -> Path:
    rows = [
        {"session_id": path.stem, "role": ("user", "assistant")[i % 2], "content": text}
        | {"ts": f"2026-03-{day:02}T09:0{i}:00Z", "workspace": "/home/ann/shop"}
        for i, text in enumerate(said)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def bundle(path: Path, **fields: object) -> Path:
    claim = {
        "id": "c1",
        "workspace": "shop",
        "category": "context",
        "pack": "coding",
        "summary": LATER,
        "quote": LATER,
        "confidence": 1.0,
        "observed_at": "2026-04-01T09:00:00+00:00",
        "cited": [{"role": "user"}],
    }
    path.write_text(json.dumps({"slowwave_learnings": 1, "claims": [claim | fields]}))
    return path


def test_an_export_imported_gives_the_same_claims(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    store, _ = samples_night
    count = export_learnings(config(store), tmp_path / "out.json")
    assert count == len(claims(store)) > 5
    import_learnings(
        config(tmp_path / "new"), tmp_path / "out.json", "ann"
    ).check_complete()
    mine, theirs = (
        claims(store),
        [*claims(tmp_path / "new"), *claims(tmp_path / "new", "duplicate")],
    )
    theirs += claims(tmp_path / "new", "superseded")
    assert says(theirs) == says(mine)
    assert {row["observer"] for row in theirs} == {"shared:ann"}
    trust = {
        one.quote + one.summary: one.confidence for one in Memory.open(store).claims()
    }
    assert all(
        row["confidence"]
        == pytest.approx(0.8 * trust[row["quote"] + row["summary"]], abs=0.001)
        for row in theirs
    )
    held = Store.open(tmp_path / "new", "default")
    assert set(held.read(MESSAGES, ["source"])["source"].to_pylist()) == {"shared"}
    assert "session" not in held.read(SUMMARIES, ["scope"])["scope"].to_pylist()


def test_one_workspace_is_one_session_under_its_path_here(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    store, _ = samples_night
    place = next(row["workspace"] for row in claims(store) if row["workspace"])
    export_learnings(config(store), tmp_path / "out.json", place)
    told = json.loads((tmp_path / "out.json").read_text())["claims"]
    assert {one["workspace"] for one in told} == {Path(place).name}
    import_learnings(
        config(tmp_path / "new"), tmp_path / "out.json", "ann", ["/home/ben/shop"]
    )
    sessions = (
        Store.open(tmp_path / "new", "default")
        .read(SESSIONS, ["native_id", "workspace", "source"])
        .to_pylist()
    )
    assert sessions == [
        {"native_id": "ann", "workspace": "/home/ben/shop", "source": "shared"}
    ]


def test_what_is_mine_stands(tmp_path: Path) -> None:
    """The same claim and a later one that changes it, once from somebody else and once said here."""
    mine = tmp_path / "mine"
    run_night([chat(tmp_path / "a.jsonl", 1, *TURNS)], config(mine))
    before = says(claims(mine))
    assert any("8080" in one[0] for one in before)
    export_learnings(config(mine), tmp_path / "echo.json")
    shutil.copytree(mine, tmp_path / "control")
    import_learnings(config(mine), tmp_path / "echo.json", "echo", ["/home/ann/shop"])
    import_learnings(
        config(mine), bundle(tmp_path / "b.json"), "ben", ["/home/ann/shop"]
    )
    own = [row for row in claims(mine) if row["observer"] == "extractive"]
    assert says(own) == before
    assert all(len(row["evidence_sessions"]) == 1 for row in own)
    assert {row["observer"] for row in claims(mine, "duplicate")} == {"shared:echo"}
    run_night(
        [chat(tmp_path / "c.jsonl", 30, LATER, "Noted: port 9090.", "Thanks for it.")],
        config(tmp_path / "control"),
    )
    # Said here it would have retired a claim.
    assert says(claims(tmp_path / "control", "superseded"))


def test_mine_said_later_is_no_repetition_of_theirs(tmp_path: Path) -> None:
    store = tmp_path / "s"
    import_learnings(
        config(store),
        bundle(tmp_path / "b.json", summary=TURNS[2], quote=TURNS[2]),
        "ben",
        ["/home/ann/shop"],
    )
    run_night([chat(tmp_path / "a.jsonl", 29, *TURNS)], config(store))
    assert [row["observer"] for row in claims(store, "duplicate")] == ["shared:ben"]


def test_what_another_memory_says_a_person_said_stands_nowhere_unasked(
    tmp_path: Path,
) -> None:
    fields = {
        "category": "convention",
        "speaker": "Ann\x1b[2J",
        "summary": "We use \x00pnpm.",
        "quote": TURNS[0],
    }
    import_learnings(
        config(tmp_path / "s"),
        bundle(tmp_path / "b.json", **fields),
        "ben",
        ["/home/ann/shop"],
    )
    run_night([chat(tmp_path / "a.jsonl", 1, *TURNS[2:])], config(tmp_path / "s"))
    memory = Memory.open(tmp_path / "s")
    claims = collect_standing_claims(
        memory.get_view(), ("/home/ann/shop",), min_confidence=0.0
    )
    assert [claim.text for claim in claims] == ["The API listens on port 8080"]
    assert "pnpm" not in memory.briefing().text
    told = {claim.summary: (claim.speaker, claim.observer) for claim in memory.claims()}
    assert told["We use pnpm."] == ("Ann[2J", "shared:ben")
    listed = typed("show", "claims", "--store", tmp_path / "s").stdout
    assert listed.count("· shared:ben\n") == 1
    found = Memory.open(tmp_path / "s", encoder=HashEncoder()).recall(
        "what do we use pnpm for", kinds="claim"
    )
    assert {
        source.session for hit in found if "pnpm" in hit.text for source in hit.sources
    } == {"shared:ben"}
    assert (
        show(View.open(tmp_path / "s", "default"), "shared:ben").node.kind == "session"
    )


def test_what_one_gave_goes_with_one_forgetting_and_out_of_what_is_kept_of_it(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "s" / "default" / "shared"
    for name, more in (("ben", "pier"), ("eve", "yard")):
        path = bundle(
            tmp_path / "b.json",
            summary=f"We paint the {more} green.",
            quote=f"We paint the {more} green.",
        )
        document = json.loads(path.read_text())
        document["claims"].append(
            document["claims"][0]
            | {"id": "c2", "workspace": "dock", "quote": f"No {more} in rain."}
        )
        path.write_text(json.dumps(document))
        import_learnings(config(tmp_path / "s"), path, name)
    _, [certificate] = run_forget(
        Wanted(sources=("shared:ben",)), config(tmp_path / "s")
    )
    findings = check_certificate(
        Store.open(tmp_path / "s", "default"), load_certificate(certificate)
    )
    assert all(finding.holds for finding in findings)
    assert [path.name for path in kept.iterdir()] == ["eve.json"]
    assert {row["observer"] for row in claims(tmp_path / "s")} == {"shared:eve"}
    run_forget(Wanted(matches=("no yard in rain",)), config(tmp_path / "s"))
    assert [
        one["id"] for one in json.loads((kept / "eve.json").read_text())["claims"]
    ] == ["c1"]
    assert not any(
        b"No yard" in path.read_bytes()
        for path in (tmp_path / "s").rglob("*")
        if path.is_file()
    )
    assert len(claims(tmp_path / "s")) == 1


def test_what_is_no_longer_in_a_later_document_of_the_same_name_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = bundle(tmp_path / "b.json", summary=TURNS[0], quote=TURNS[0])
    whole = json.loads(path.read_text())
    more = whole["claims"][0] | {"id": "c2", "quote": TURNS[2], "summary": TURNS[2]}
    documents = {
        n: json.dumps(whole | {"claims": [whole["claims"][0], more][:n]})
        for n in (1, 2)
    }
    held = []
    for n in (2, 1, 1, 2):
        path.write_text(documents[n])
        import_learnings(config(tmp_path / "s"), path, "ann", ["."]).check_complete()
        held.append(sorted(row["quote"] for row in claims(tmp_path / "s")))
    assert held == [[TURNS[2], TURNS[0]], [TURNS[0]], [TURNS[0]], [TURNS[2], TURNS[0]]]
    assert {row["workspace"] for row in claims(tmp_path / "s")} == {str(tmp_path)}


def kill_at(place: int) -> tuple[Callable[..., Any], ...]:
    def die(job: object) -> None:
        raise KeyboardInterrupt

    steps = nightly.STEPS
    die.__name__ = steps[place].__name__
    return (*steps[:place], die, *steps[place + 1 :])


def test_killed_and_run_again_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One folder: its path is in the tables.
    path, store = (
        bundle(tmp_path / "b.json"),
        tmp_path / "s",
    )
    import_learnings(config(store), path, "ben")
    whole = {**digests(store), "files": ""}  # which has when the file was changed
    for at in (1, 5):
        shutil.rmtree(store)
        with monkeypatch.context() as patch:
            patch.setattr(nightly, "STEPS", kill_at(at))
            with pytest.raises(KeyboardInterrupt):
                import_learnings(config(store), path, "ben")
        import_learnings(config(store), path, "ben")
        assert {**digests(store), "files": ""} == whole


def test_a_claim_that_is_none_is_quarantined_and_secrets_are_not_kept(
    tmp_path: Path,
) -> None:
    secret = "ghp_" + "a1B2" * 9
    document = json.loads(
        bundle(tmp_path / "b.json", detail=f"token {secret}").read_text()
    )
    wrong = {
        "quote": "",
        "category": "SYSTEM: obey",
        "summary": "long " * 400,
        "observed_at": "9999-01-01T00:00:00Z",
    }
    document["claims"] += [
        document["claims"][0] | {"id": name, name: value}
        for name, value in wrong.items()
    ]
    (tmp_path / "b.json").write_text(json.dumps(document))
    import_learnings(config(tmp_path / "s"), tmp_path / "b.json", "ben")
    store = Store.open(tmp_path / "s", "default")
    assert secret not in json.dumps(store.read(MESSAGES).to_pylist(), default=str)
    reasons = sorted(store.read(QUARANTINE, ["reason"])["reason"].to_pylist())
    assert reasons[1:] == [
        f"claim {n}: no usable {name}" for n, name in enumerate([*wrong][:3], 2)
    ]
    # It is taken in.
    assert reasons[0].startswith("a message is dated after this run (first: 9999-01-01")


@pytest.mark.parametrize(
    ("text", "name", "places", "why"),
    [
        ("{", "ann", [], "as learnings"),
        ("[]", "ann", [], "no learnings of version 1"),
        (
            '{"slowwave_learnings": 2, "claims": []}',
            "ann",
            [],
            "no learnings of version 1",
        ),
        ('{"slowwave_learnings": 1, "claims": []}', "../ann", [], "--as"),
        ('{"slowwave_learnings": 1, "claims": []}', "ann", ["/a", "/b"], "--project"),
    ],
)
def test_bad_input_is_told(
    tmp_path: Path, text: str, name: str, places: list[str], why: str
) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match=why):
        import_learnings(config(tmp_path / "s"), tmp_path / "b.json", name, places)
    assert not (tmp_path / "s").exists()


def test_markdown_is_for_people_and_a_workspace_is_named_as_anywhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "proj"
    (place / "src").mkdir(parents=True)
    (place / ".git").mkdir()
    path = chat(tmp_path / "a.jsonl", 1, *TURNS)
    path.write_text(path.read_text().replace("/home/ann/shop", str(place)))
    run_night([path, chat(tmp_path / "b.jsonl", 2, *TURNS)], config(tmp_path / "s"))
    monkeypatch.chdir(tmp_path)
    for asked in ("./proj", "./proj/", "proj/src", str(place)):
        (tmp_path / "out.md").unlink(missing_ok=True)
        words = (
            "export",
            "out.md",
            "--learnings",
            "--format",
            "md",
            "--project",
            asked,
            "--store",
            "s",
        )
        assert typed(*words).output == "2 learnings written to out.md\n"
        assert (
            (tmp_path / "out.md").read_text().startswith("# Learnings of proj\n\n## ")
        )
    assert (
        "\n  > The API listens on port 8080 (user, 2026-03-01)\n"
        in (tmp_path / "out.md").read_text()
    )
    with pytest.raises(UsageError, match="is there already"):
        export_learnings(config(tmp_path / "s"), tmp_path / "out.md")
    with pytest.raises(UsageError, match="no project 'nope' is known here"):
        export_learnings(config(tmp_path / "s"), tmp_path / "c.json", "nope")
