"""Passages: only what was said, cut where a reader would cut, nothing lost."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from slowwave.engines.encoders.onnx import OnnxEncoder
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.tasks.passages.cut import (
    MAX_TOKENS,
    build_passages,
    estimate_tokens,
    split_into_parts,
)


def messages(*rows: tuple[str, str]) -> pa.Table:
    """(origin, text) as rows of one session."""
    blank = {
        "session_id": "s",
        "native_id": "n",
        "role": "user",
        "blocks": [],
        "source": "test",
        "tokens": 0,
    }
    chain = {"identity": "", "prev_hash": "", "hash": ""}
    made = [
        {
            **blank,
            **chain,
            "message_id": f"m{seq}",
            "seq": seq,
            "origin": origin,
            "text": text,
        }
        for seq, (origin, text) in enumerate(rows)
    ]
    return pa.Table.from_pylist(made, schema=MESSAGES.schema)


def test_only_what_was_said_becomes_a_passage() -> None:
    table = build_passages(
        messages(
            ("human", "Which port?"),
            ("tool", "5433"),
            ("model", " 5433. "),
            ("synthetic", "Recap"),
            ("human", " "),
        ),
        "key",
    )
    assert table.select(["message_id", "seq", "part", "text"]).to_pylist() == [
        {"message_id": "m0", "seq": 0, "part": 0, "text": "Which port?"},
        {"message_id": "m2", "seq": 2, "part": 0, "text": "5433."},
    ]
    assert table["passage_id"][0].as_py() == compute_content_id("m0", "0")
    assert table.schema == PASSAGES.schema
    assert table["vector"].null_count == 2


def test_no_message_no_passage() -> None:
    assert (
        build_passages(MESSAGES.make_empty_table(), "key")
        == PASSAGES.make_empty_table()
    )


def test_cut_at_paragraphs_and_around_code() -> None:
    prose = "The night replays the day. " * 30
    code = "```python\n" + "keep(gist)\n\n" * 20 + "```"
    assert split_into_parts(f"{prose}\n\n{code}\n\n{prose}") == [
        prose.strip(),
        code,
        prose.strip(),
    ]


def test_cut_at_sentences_into_even_parts() -> None:
    sentence = "It keeps what matters and lets the rest go. "
    assert [part.count("keeps") for part in split_into_parts(sentence * 40)] == [20, 20]


@pytest.mark.parametrize(
    "text",
    ["x" * 5_000, "東京" * 500, "3.14" * 300, "a " * 900, "```\n" + "x = [1]\n" * 300],
)
def test_what_has_no_border_is_cut_all_the_same(text: str) -> None:
    assert max(map(estimate_tokens, split_into_parts(text))) <= MAX_TOKENS


def test_an_estimate_is_near_the_tokenizers_count(encoder: OnnxEncoder) -> None:
    text = "Run `uv sync`, then open src/app/main.py: the retry limit of 3 stays until v2.4.1 ships on Friday."
    tokenizer = Tokenizer.from_file(str(encoder.folder / "tokenizer.json"))
    tokenizer.no_padding()
    count = len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert abs(estimate_tokens(text) - count) <= 0.15 * count


@given(st.text(alphabet="ab1. \n`#é東!", max_size=400), st.integers(1, 40))
def test_nothing_is_lost_and_every_part_fits(text: str, limit: int) -> None:
    cut = split_into_parts(text, limit)
    assert "".join("".join(cut).split()) == "".join(text.split())
    assert all(
        part and part == part.strip() and estimate_tokens(part) <= limit for part in cut
    )
