"""Gists: short, from the message itself, one for every message that says something, whatever fails."""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.engines.llm.protocol import Completion
from slowwave.schemas.tables import GISTS
from slowwave.tasks.gists.gists import Gist, build_gists
from slowwave.tasks.gists.summary import MOST
from slowwave.tasks.gists.task import _read_gists
from slowwave.tasks.summarize.narrate import GistAnswer

LONG = (
    "Sure! The nightly job failed because the lock file was left behind by a killed run. "
    "I looked at the logs of the last three nights to find out what they have in common. "
    "Each time the machine had been restarted by the hosting company during the night. "
    "The fix makes the lock file carry the process id, so that a new run can tell a dead owner from a living one. "
    "There is also a test now that kills the run at each step. "
    "Let me know if you want me to look into anything else today, I am happy to help."
)


def messages(*texts: str) -> pa.Table:
    """One session of these texts."""
    columns = {
        "message_id": [f"m{n}" for n in range(len(texts))],
        "session_id": ["s"] * len(texts),
        "text": pa.array(texts, pa.string()),
    }
    return pa.table(columns)


def test_a_long_message_is_summed_up_by_its_central_sentence() -> None:
    (gist,) = build_gists(messages(LONG), "extractive", "key").to_pylist()
    assert "lock file" in gist["summary"]
    assert len(gist["summary"].split()) <= 0.4 * len(LONG.split())
    assert "lock file" in gist["keywords"]
    assert gist["strategy"] == "extractive"


def test_a_short_message_is_its_own_summary_without_filler() -> None:
    (gist,) = build_gists(messages("Hey, thanks! We moved the meeting to Friday."), "extractive", "key").to_pylist()
    assert gist["summary"] == "We moved the meeting to Friday"


def test_what_has_no_sentence_is_truncated() -> None:
    table = build_gists(messages("```\n" + "x = 1\n" * 50 + "```", "Yes, on port 5433."), "extractive", "key")
    assert table["strategy"].to_pylist() == ["truncated", "extractive"]
    assert table["summary"][0].as_py().startswith("``` x = 1 x = 1")
    assert table["summary"][0].as_py().endswith("…")


def test_only_messages_that_say_nothing_have_no_gist() -> None:
    table = build_gists(messages("", " \n", "ok", "👍"), "extractive", "key")
    assert table["message_id"].to_pylist() == ["m2", "m3"]
    assert table.schema == GISTS.schema
    assert build_gists(messages(), "extractive", "key") == GISTS.make_empty_table()


def test_a_model_makes_what_it_can_and_the_rest_is_extractive() -> None:
    def llm(asked: pa.Table) -> Mapping[str, Gist]:
        assert asked.num_rows == 2
        return {"m0": Gist("Lock files survived restarts.", ("lock",), strategy="llm")}

    table = build_gists(messages(LONG, "I live in Lisbon."), "llm", "key", llm)
    assert table["strategy"].to_pylist() == ["llm", "extractive"]
    assert table["summary"].to_pylist() == ["Lock files survived restarts.", "I live in Lisbon"]


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ("Twelve backups are kept in Porto.", None),
        ("Backups are kept in Lisbon.", "Lisbon never comes up in the transcript"),
        ("14 backups are kept.", "the number 14 does not come up near the messages it cites"),
        (" ", "the answer is no gist"),
    ],
)
def test_a_models_gist_is_held_to_its_message(summary: str, reason: str | None) -> None:
    rows = {"m": {"message_id": "m", "text": "From now on we keep 12 backups in Porto.", "ts": None}}
    answer = Completion("m/gist", value=GistAnswer(summary=summary, keywords=[]))
    made, rejected = _read_gists({"m/gist": answer}, rows)
    assert [one.reason for one in rejected] == ([reason] if reason else [])
    assert list(made) == ([] if reason else ["m"])
    unpaid = Completion("m/gist", error="budget")
    assert _read_gists({"m/gist": unpaid}, rows) == ({}, [])


def test_a_strategy_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a model"):
        build_gists(messages("x"), "llm", "key")
    with pytest.raises(ValueError, match="extractive or truncated was expected"):
        build_gists(messages("x"), "off", "key")  # type: ignore[arg-type]


@given(st.lists(st.text(alphabet="aI my.,!?\n`#-é東'…(", max_size=600), min_size=1, max_size=4))
def test_every_message_has_one_short_gist_that_depends_on_it_alone(texts: list[str]) -> None:
    for strategy in ("extractive", "truncated"):
        table = build_gists(messages(*texts), strategy, "key")
        assert table.num_rows == sum(bool(text.strip()) for text in texts)
        assert all(summary and len(summary.split()) <= MOST + 1 for summary in table["summary"].to_pylist())
        alone = [row for text in texts for row in build_gists(messages(text), strategy, "key").to_pylist()]
        drop = {"message_id"}
        assert [{k: v for k, v in row.items() if k not in drop} for row in table.to_pylist()] == [
            {k: v for k, v in row.items() if k not in drop} for row in alone
        ]
