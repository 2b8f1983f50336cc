"""Claims are found through the message they were made in; what repeats a better hit comes last."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import Kind
from slowwave.recall.retrieve.candidates import Candidate, compute_length
from slowwave.recall.search import merge_kinds
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from tests.talk_files import session

SAID = {
    "a": [
        ("user", "Which format do the save files of the game get?"),
        (
            "assistant",
            "I measured JSON and MessagePack for the save files, the latter is a third of the size.",
        ),
        ("user", "Approved, go with MessagePack."),
    ],
    "b": [
        (
            "user",
            "The printer in the hall is out of toner again, I ordered black toner.",
        ),
        ("user", "We decided to lunch in the garden from now on."),
    ],
    "c": [
        ("user", "We always lint the sources before a commit."),
        ("user", "We decided to keep the nightly build on the old runner."),
    ],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("through")
    for month, (name, turns) in enumerate(SAID.items()):
        session(folder / "talks", name, 1 + 10 * month, turns, workspace=name)
    run_night(
        [folder / "talks"],
        Settings(store=folder / "s", encoder="hash-384", observe={"max_share": 1.0}),
    )
    return folder / "s"


def test_a_claim_without_a_word_of_the_query_is_found_through_what_was_said_before_it(
    root: Path,
) -> None:
    found = Memory.open(root).recall(
        "Which format do save files get?", kinds="claim", k=3
    )
    assert any(hit.text.startswith("Approved, go with MessagePack (") for hit in found)
    assert found[0].sources[0].session == "a"


def test_without_an_encoder_too(root: Path, tmp_path: Path) -> None:
    settings = Settings(
        store=tmp_path / "s",
        encoder="hash-384",
        embeddings=False,
        observe={"max_share": 1.0},
    )
    run_night([root.parent / "talks"], settings)
    found = Memory.open(tmp_path / "s").recall(
        "Which format do save files get?", kinds="claim", k=3
    )
    assert any(hit.text.startswith("Approved, go with MessagePack (") for hit in found)


def test_the_same_claims_where_vectors_are_too_many_to_hold(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = ["Which format do save files get?", "toner", "where do we lunch?"]
    held = Memory.open(root).recall_many(queries, kinds="claim")
    monkeypatch.setattr("slowwave.recall.release.tables.INDEXED_ROWS", 0)
    found = Memory.open(root).recall_many(queries, kinds="claim")
    assert [[hit.id for hit in hits][:2] for hits in found] == [
        [hit.id for hit in hits][:2] for hits in held
    ]


def test_filters_hold_for_claims_that_a_message_brings(root: Path) -> None:
    memory = Memory.open(root)
    asked = "We decided to lunch in the garden, the printer is out of toner"
    assert {
        h.sources[0].session for h in memory.recall(asked, kinds="claim", workspace="b")
    } == {"b"}
    later = memory.recall(asked, kinds="claim", since="2026-03-05", until="2026-03-15")
    assert {h.sources[0].session for h in later} == {"b"}
    with pytest.raises(
        UsageError, match=r"no category is called 'decisions': it is one of decision, "
    ):
        memory.recall(asked, kinds="claim", category="decisions")
    decided = memory.recall(asked, category="decision")
    assert decided
    rows = memory.snapshot.read(CLAIMS).to_pylist()
    assert {hit.id for hit in decided} <= {
        row["claim_id"] for row in rows if row["category"] == "decision"
    }


def test_a_question_counts_since_it_may_state_a_fact() -> None:
    texts = [
        "I moved to Porto.",
        "Now that I moved to Porto, is the tram worth 40 euros?",
        "word " * 50,
    ]
    assert compute_length(pa.chunked_array([texts])).tolist() == pytest.approx(
        [np.log(5), np.log(13), np.log(41)]
    )


def _found(
    kind: Kind, key: str, text: str, messages: list[str] | None = None
) -> Candidate:
    return Candidate(
        kind, key, {"text": text, "summary": text, "message_ids": messages}, 1.0
    )


def test_each_hit_is_another_piece_of_evidence() -> None:
    messages = [
        _found("message", "m1", "Well, the harbour  opens at six."),
        _found("message", "m2", "At seven then."),
    ]
    claims = [
        _found(
            "claim",
            "seven hours",
            "The harbour opens at seven, not at six",
            ["m1", "m2"],
        ),
        _found("claim", "in words", "the harbour opens at six", ["m1", "m9"]),
        _found("claim", "of one", "The harbour opens later", ["m2"]),
        _found("claim", "of one again", "It opens at seven", ["m2"]),
        _found("claim", "not found", "The crane is green", ["m7"]),
    ]
    summaries = [
        _found("summary", "of one message", "At seven then"),
        _found("summary", "s1", "A harbour"),
    ]
    merged = merge_kinds([claims, messages, summaries])
    assert [row.id for row in merged] == ["m1", "seven hours", "m2", "not found", "s1"]
    assert {row.id: row.claim.id for row in merged if row.claim} == {
        "m1": "in words",
        "m2": "of one",
    }
    assert [row.score for row in merged] == sorted(
        (row.score for row in merged), reverse=True
    )
    assert merge_kinds([claims, []]) == claims


def test_equal_messages_of_a_speaker_are_one_hit_and_those_of_two_are_two(
    tmp_path: Path,
) -> None:
    key = "The spare key lies under the flower pot on the terrace."
    said = [
        ("Ann", key),
        ("Ann", "We sail at noon."),
        ("Ann", key),
        ("Ben", key),
        ("Ann", f" {key}"),
    ]
    talks = [
        session(
            tmp_path,
            f"s{n}",
            n + 1,
            [("user", text), ("user", f"Goodbye for the time number {n}.")],
            None,
            [who],
        )
        for n, (who, text) in enumerate(said)
    ]
    run_night(talks, Settings(store=tmp_path / "s", encoder="hash-384"))
    hits = Memory.open(tmp_path / "s").recall(
        "Where does the spare key lie?", kinds=("claim", "message")
    )
    of_key = {hit.speaker: hit for hit in hits if "spare key" in hit.text}
    assert len([hit for hit in hits if "spare key" in hit.text]) == len(of_key) == 2
    assert "spare key" in (of_key["Ann"].claim or "")  # of whichever copy it was made
