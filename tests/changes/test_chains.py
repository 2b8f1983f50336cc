"""What a change means for each row: the chain of each claim and passage, as a table, and through whole nights."""

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CHAIN, CLAIMS, MARKS, MERGES, PASSAGES
from slowwave.store import Store
from slowwave.tasks.changes.chains import (
    CHAIN_COLUMNS,
    SAID,
    spread_over_claims,
    spread_over_passages,
)
from tests.claim_rows import DAY, claim_row
from tests.talk_files import session

OLD, NEW = "The API listens on port 7070", "The API moved to port 8200"


def on(day: int) -> datetime:
    return DAY + timedelta(days=day)


def gone(by: str, day: int) -> dict[str, object]:
    return {"status": "superseded", "superseded_by": by, "valid_to": on(day)}


CLAIMS_MADE = [
    (claim_row(1, OLD, **gone("o003", 3)), ("o004", 3, 1.0)),
    (
        claim_row(2, "Port 7070 it is", status="duplicate", canonical_id="o001"),
        ("o004", 3, 1.0),
    ),
    (claim_row(3, NEW), ("o004", 4, 0.5)),  # perhaps changed by the fourth
    (claim_row(4, "The API may move on to port 9090"), ("o004", None, None)),
    (claim_row(5, "Tea is served at five", message_ids=["m1"]), (None, None, None)),
    (
        claim_row(6, "Coffee is free", status="superseded", reason="withdrawn"),
        (None, None, None),
    ),
    (claim_row(7, "Backups run at two", **gone("lost", 8)), (None, None, None)),
]
# Another claim was made of it.
# Of the same message, without a claim's quote.
# The sentence, word for word.
SAID_THERE = [
    (
        "m1",
        1,
        f"{OLD}. Tea is served at five.",
        ("o004", 3, 0.5),
    ),
    (
        "m1",
        1,
        "Something else.",
        (None, None, None),
    ),
    ("m2", 2, "Port 7070 it is!", ("o004", 3, 1.0)),
    ("m3", 3, NEW, ("o004", 4, 0.5)),
    ("m4", 4, "The API may move on to port 9090", ("o004", None, None)),
    (
        "m20",
        2,
        f"As I said: yes.\n{OLD.upper()}!",
        ("o004", 3, 1.0),
    ),
    ("m21", 5, f"{OLD}.", (None, None, None)),  # said again since: not by that claim
    # in other words: the old value, most other words, and not the new value; a guess, .9 of the claim's
    ("m22", 2, f"{OLD} and 7071.", ("o004", 3, 0.9)),
    ("m23", 2, "7070 is the port that the API listens on", ("o004", 3, 0.9)),
    ("m24", 2, "Of the ports 7070 is taken", (None, None, None)),  # not the API's
    ("m25", 2, "The API listens on port 7070, soon 8200", (None, None, None)),
    ("m26", 5, "The API still listens on port 7070", (None, None, None)),  # later
]


def test_each_row_of_a_chain_has_its_end_and_since_when_it_no_longer_holds() -> None:
    claims = pa.Table.from_pylist(
        [row for row, _ in CLAIMS_MADE], schema=CLAIMS.schema
    ).select(CHAIN_COLUMNS)
    found = spread_over_claims(claims, {"o003": ("o004", 0.5), "o005": ("lost", 0.9)})
    for row, (_, (chain, since, likely)) in zip(found, CLAIMS_MADE, strict=True):
        assert [row[name] for name in CHAIN] == [chain, since and on(since), likely], (
            row["summary"]
        )

    rows = [
        {
            "passage_id": str(n),
            "workspace": "/w",
            "message_id": message,
            "ts": on(at),
            "text": text,
            "session_id": message,
            "seq": n,
            "role": "user",
        }
        for n, (message, at, text, _) in enumerate(SAID_THERE)
    ]
    passages = pa.Table.from_pylist(
        rows, schema=pa.schema([PASSAGES.schema.field(name) for name in SAID])
    )
    told = {
        row["passage_id"]: row
        for row in spread_over_passages(
            passages, pa.Table.from_pylist(found, claims.schema)
        )
    }
    for n, (_, _, text, (chain, since, likely)) in enumerate(SAID_THERE):
        row = told.get(str(n), dict.fromkeys(CHAIN))
        assert [row[name] for name in CHAIN] == [chain, since and on(since), likely], (
            text
        )


def read_chains(
    store: Path,
) -> dict[str, tuple[str | None, datetime | None, float | None]]:
    rows = Store.open(store).read(PASSAGES, ["text", *CHAIN]).to_pylist()
    return {
        row["text"]: (row["chain_id"], row["chain_at"], row["chain_likely"])
        for row in rows
    }


def test_a_night_writes_chains_and_what_is_taken_back_has_none(tmp_path: Path) -> None:
    nights = Settings(store=tmp_path / "store")
    first, later = (
        "The service listens on port 8080.",
        "The service listens on port 9443 now, TLS ends in the proxy.",
    )
    for name, number, text in (("a", 2, first), ("b", 9, later)):
        run_night(
            [
                session(
                    tmp_path, name, number, [("user", text), ("assistant", "Noted.")]
                )
            ],
            nights,
        )
    told = read_chains(nights.store)
    assert told[first][0] == told[later][0] is not None
    assert told[first][1] is not None
    assert told[later][1:] == (None, None)
    assert told["Noted."] == (None, None, None)

    store = Store.open(nights.store)
    before = store.read_versions([CLAIMS, PASSAGES, MARKS])
    run_night(
        [
            session(
                tmp_path,
                "c",
                12,
                [("user", "Tea is at five."), ("assistant", "Fine.")],
                "tea",
            )
        ],
        nights,
    )
    assert read_chains(nights.store) == told | {
        "Tea is at five.": (None,) * 3,
        "Fine.": (None,) * 3,
    }
    assert store.read_versions([PASSAGES])["passages"] > before["passages"]

    (change,) = (
        row["merge_id"]
        for row in store.read(MERGES).to_pylist()
        if row["kind"] != "duplicate"
    )
    run_exclude([change], "wrong", nights)
    assert set(read_chains(nights.store).values()) == {(None, None, None)}
