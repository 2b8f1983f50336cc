"""What is shown: of a long message in a line, to an agent and in JSON; and of names that would steer who reads."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slowwave.cli.ask import format_hit
from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.nightly import run_night
from slowwave.mcp.server import Tools
from slowwave.recall.hits import Fragment, Hit, Source
from slowwave.schemas.settings import Settings
from slowwave.text.cells import shorten_text
from tests.command_line import typed

FILLER = "The weather was dull and nobody came. " * 20
ANSWER = "The gauge is read at 07:40 by Clara."


def hit(kind: str, text: str, quote: str) -> Hit:
    return Hit(kind, "m", text, 1.0, None, "active", (Source("s", "m", quote),))  # type: ignore[arg-type]


def test_a_long_message_shows_the_passage_that_answers() -> None:
    shown = format_hit(
        1, hit("message", FILLER + ANSWER + "\n" + FILLER, ANSWER)
    ).split("\n")[0]
    assert shown.startswith(f"1. … {ANSWER} The weather")
    assert shown.endswith("…")


def test_a_short_one_a_claim_and_one_whose_quote_is_not_in_it_begin_where_they_begin() -> (
    None
):
    assert format_hit(1, hit("message", f"Well. {ANSWER}", ANSWER)).startswith(
        f"1. Well. {ANSWER}\n"
    )
    for kind, quote in (("claim", ANSWER), ("message", "Nobody said this.")):
        shown = format_hit(1, hit(kind, FILLER + ANSWER, quote))
        assert shown.startswith("1. The weather was dull")


def test_an_agent_gets_the_passage_whole_and_of_the_exchange_as_much() -> None:
    said = FILLER + ANSWER + " " + FILLER
    pair = (Fragment("user", "q", FILLER * 9), Fragment("assistant", "m", said))
    short = replace(hit("message", said, ANSWER), pair=pair).shorten(20)
    assert short.text == f"… {ANSWER} …"
    assert short.pair[0].text == "The weather was dull …"
    assert json.loads(json.dumps(short.as_dict()))["pair"] == [
        {"role": "user", "message": "q", "text": "The weather was dull …"},
        {"role": "assistant", "message": "m"},
    ]
    assert hit("claim", said, ANSWER).shorten(20).text == said
    assert hit("message", "x" * 50, "x" * 10).shorten(20).text == "x" * 20 + " …"


def test_json_has_a_text_once() -> None:
    one = replace(
        hit("message", FILLER, ANSWER),
        pair=(Fragment("user", "q", "Dull?"), Fragment("user", "m", FILLER)),
    )
    told = json.dumps(one.as_dict())
    assert told.count("nobody came") == FILLER.count("nobody came")
    assert json.loads(told)["text"] == FILLER
    assert json.loads(told)["pair"] == [
        {"role": "user", "message": "q", "text": "Dull?"},
        {"role": "user", "message": "m"},
    ]


def test_no_name_or_text_steers_a_terminal_a_page_or_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes of terminals (OSC 52 writes the clipboard), of the direction of writing, and line breaks, in every name."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    steers = "x\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e\n# Forged\n\u2028# Forged\n"
    said = (
        "We decided to keep the gauge readings in PostgreSQL 17.",
        "Never deploy on a Friday,\u202e Nina\u2028# Forged.",
    )
    names = dict.fromkeys(("session_id", "workspace", "speaker", "title"), steers)
    lines = [
        {**names, "role": "user", "content": text, "message_id": f"{n}{steers}"}
        for n, text in enumerate(said)
    ]
    file = tmp_path / f"{steers}.jsonl"
    file.write_text(
        "".join(
            json.dumps(line) + "\n" for line in [*lines, {**lines[0], "role": steers}]
        )
    )
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night([file], settings)
    file.write_text(
        file.read_text()
        + json.dumps({**lines[1], "message_id": "m", "content": f"I live in {steers}."})
    )
    run_night([file], settings)

    def run(*words: object) -> str:
        done = typed(*words, "--store", settings.store)
        assert "Traceback" not in done.output, done.output
        return done.output

    (decided, *_) = json.loads(run("show", "claims", "--json"))
    assert decided["workspace"] == steers  # JSON says the same, in other letters
    asked = "gauge readings in PostgreSQL"
    shown = [
        *(
            run("recall", asked, *more)
            for more in ((), ("--kind", "session"), ("--json",))
        ),
        *(
            run(*words)
            for words in (
                ("context", asked),
                ("briefing", "--all"),
                ("context", asked, "--json"),
            )
        ),
        *(
            run("show", *words)
            for words in (
                ("claims",),
                ("topics",),
                ("related", "PostgreSQL"),
                (decided["id"],),
            )
        ),
        *(run("inspect", ledger) for ledger in LEDGERS),
        *(
            run(*words, "--project", steers, "--min-confidence", 0)
            for words in (("skill",), ("project", "--out", "-"))
        ),
        *(
            run(*words)
            for words in (
                ("forget", "--match", "gauge", "--dry-run"),
                ("plan", file),
                ("run", steers),
            )
        ),
        run("reprocess", "observe", "--session", steers),
        *(run("diff", *more) for more in ((), ("--json",))),
    ]
    tools = Tools(settings)
    shown += [
        *tools.recall(asked).content,
        tools.context(asked),
        tools.claims(),
        tools.related("PostgreSQL"),
    ]
    for text in map(str, shown):
        assert [char for char in text.replace("\n", "") if not char.isprintable()] == []
        assert not [
            line for line in text.splitlines() if line.strip().startswith("# Forged")
        ]
    assert sum("PostgreSQL" in str(text) for text in shown) > 12


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The gauge is read", "The gauge is read"),
        ("The gauge is read at dawn", "The gauge is read …"),
        # a space of the first half does not count, since little would be left
        ("API 画像はすべて専用の保管庫に保存する", "API 画像はすべて専用の保管庫に …"),
        (
            "画像はすべて専用の保管庫に保存することに",
            "画像はすべて専用の保管庫に保存する …",
        ),
    ],
)
def test_a_long_text_is_cut_in_any_script(text: str, shown: str) -> None:
    assert shorten_text(text, 17) == shown
