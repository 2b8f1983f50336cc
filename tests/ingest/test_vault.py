"""The vault's chain: what breaks it, and what an id is made of."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.schemas.tables import MESSAGES
from slowwave.store import Store
from slowwave.tasks.ingest.parsing.records import Block, Message
from slowwave.tasks.ingest.vault import (
    GENESIS,
    build_message_row,
    build_message_table,
    chain_row,
    compute_message_id,
    compute_message_identity,
    estimate_block_tokens,
    find_broken_chains,
    find_first_break,
)


def said(
    text: str, native: str = "m1", session: str = "s1", identity_: str | None = None
) -> Message:
    return Message(
        session, native, "user", "human", [Block("text", text)], text,
        ts=datetime(2026, 11, 1, 3, 0, 0, 123456, tzinfo=UTC), identity=identity_,
    )  # fmt: skip


def chain(*texts: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    prev = GENESIS
    for seq, text in enumerate(texts):
        message = said(text, f"m{seq}")
        iid = compute_message_identity("generic", message)
        row = chain_row(
            build_message_row(
                "generic", message, None, compute_message_id(iid, message), iid
            ),
            seq,
            prev,
        )
        prev = str(row["hash"])
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    "column", ["text", "role", "origin", "ts", "native_id", "workspace", "blocks"]
)
def test_any_changed_column_breaks_the_chain_at_its_row(column: str) -> None:
    rows = chain("one", "two", "three")
    rows[1][column] = (
        datetime(2020, 1, 1, tzinfo=UTC)
        if column == "ts"
        else []
        if column == "blocks"
        else "changed"
    )
    found = find_first_break(rows, None)
    assert found is not None
    assert found[0] == 1
    assert "content differs" in found[1]


def test_a_removed_a_swapped_and_a_cut_row_are_found() -> None:
    rows = chain("one", "two", "three")
    head = str(rows[-1]["hash"])
    assert find_first_break(rows, head) is None
    assert find_first_break([rows[0], rows[2]], head) == (
        2,
        "expected message 1, found 2: a row is missing or doubled",
    )
    assert find_first_break(rows[:2], head) is not None
    forged = chain("one", "2", "three")
    assert find_first_break([rows[0], forged[1], rows[2]], head) == (
        2,
        "its prev_hash is not the hash of the message before it",
    )


def test_verify_names_the_first_broken_row(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    store.append(MESSAGES, build_message_table(chain("one", "two", "three")))
    assert find_broken_chains(store)[1] == []
    store.open_dataset(MESSAGES).update({"text": "'forged'"}, "native_id = 'm1'")
    checked, broken = find_broken_chains(store)
    assert checked["messages"] == 3
    assert len(broken) == 1
    assert "message 1: its content differs" in broken[0]


def test_a_copy_is_the_same_message_and_other_words_are_another_version() -> None:
    original, copy = (
        said("hi", identity_="uuid-1"),
        said("hi", session="resumed", identity_="uuid-1"),
    )
    edited = said("hello", identity_="uuid-1")
    ids = [
        (
            compute_message_identity("x", m),
            compute_message_id(compute_message_identity("x", m), m),
        )
        for m in (original, copy, edited)
    ]
    assert ids[0] == ids[1]
    assert ids[2][0] == ids[0][0]
    assert ids[2][1] != ids[0][1]
    assert compute_message_identity("x", said("a", "1")) != compute_message_identity(
        "x", said("a", "2")
    )


def test_tokens_are_bytes_over_four() -> None:
    assert estimate_block_tokens([Block("text", "a" * 40), Block("image")]) == 10
    assert estimate_block_tokens([]) == 1
    assert estimate_block_tokens([Block("text", "日本語です")]) == 3  # 15 bytes
