"""Another encoder: a killed night goes on, another reader is named, and what a person said is kept."""

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.flows.status import collect_status
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES, PASSAGES
from slowwave.schemas.vocabulary import Status
from slowwave.store import Store
from slowwave.tasks.dedupe.task import read_undone_pairs
from slowwave.tasks.passages import task
from tests.claim_rows import claim_row
from tests.killed_nights import FORKS
from tests.talk_files import session

SAID = [f"The depot in berth {n} opens at {n % 12 + 1} o'clock." for n in range(40)]
BATCH = 8
"""Messages that are encoded and written at once."""


def encode_until_killed(folder: Path, batches: int) -> None:
    """Run a night with another encoder, and die after some batches."""
    done = 0
    append = Store.append

    def count(store: Store, table: Any, rows: Any) -> int:
        nonlocal done
        written = append(store, table, rows)
        done += table == PASSAGES
        if done == batches:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    pytest.MonkeyPatch().setattr(Store, "append", count)
    task.BATCH = BATCH
    run_night([folder / "talk"], Settings(store=folder / "store", encoder="hash-768"))


def test_a_night_killed_while_it_encodes_again_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    session(tmp_path / "talk", "berths", 2, [("user", text) for text in SAID])
    settings = Settings(store=tmp_path / "store", encoder="hash-384")
    run_night([tmp_path / "talk"], settings).check_complete()
    process = FORKS.Process(target=encode_until_killed, args=(tmp_path, 2))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    # The release of before answers with its own vectors.
    found = Memory.open(tmp_path / "store", encoder=HashEncoder(384)).recall(SAID[7])
    assert (found[0].text, found.warnings) == (SAID[7], ())
    changed = Settings(store=tmp_path / "store", encoder="hash-768")
    report = run_night([tmp_path / "talk"], changed).check_complete()
    passages = next(step for step in report.steps if step.step == "passages")
    assert passages.rows_in == len(SAID) - 2 * BATCH  # two batches were written
    vectors = Store.open(tmp_path / "store").read(PASSAGES, ["vector"])["vector"]
    assert (len(vectors), vectors.null_count) == (len(SAID), 0)
    assert len(vectors[0].as_py()) == 768
    found = Memory.open(tmp_path / "store", encoder=HashEncoder(768)).recall(SAID[7])
    assert (found[0].text, found.warnings) == (SAID[7], ())


TOLD = [
    ("user", "the git part is mine, commits come after i read the diff"),
    ("assistant", "Understood, I commit nothing."),
    ("user", "the spare key is in the drawer under the scanner"),
    ("assistant", "Noted."),
    ("user", "we decided that reports go out on Mondays"),
    ("assistant", "Fine."),
]
"""With the default encoder the first has no category, with another one it is a fact."""


def test_another_reader_is_named_and_keeps_what_a_person_said(tmp_path: Path) -> None:
    session(tmp_path / "talk", "clinic", 2, TOLD)
    settings = Settings(store=tmp_path / "store", keywords={"top": 0})
    run_night([tmp_path / "talk"], settings).check_complete()
    memory = Memory.open(settings.store)
    claims = {claim.summary: claim.id for claim in memory.claims(limit=None)}
    rule = next(key for text, key in claims.items() if "git" in text)
    left_out = next(key for text, key in claims.items() if "Mondays" in text)
    (category,) = {claim.category for claim in memory.claims() if claim.id == rule}
    memory.correct(rule, "ana commits, not me")
    memory.remember("The cello is rented until spring.")
    run_exclude([left_out], "not for here", settings)
    changed = settings.model_copy(update={"encoder": "hash-384"})
    report = run_night([tmp_path / "talk"], changed)
    assert report.collect_notes() == [
        "the encoder was all-MiniLM-L6-v2 and is hash-384: people's messages are read by another reader, "
        "which makes other claims (earlier ones withdrawn: 0); notes, corrections and exclusions are kept"
    ]
    memory = Memory.open(settings.store, encoder=HashEncoder())
    corrected = {claim.id: claim for claim in memory.claims(superseded=True)}[rule]
    assert (category, corrected.category) == ("", "context")
    assert corrected.status == Status.SUPERSEDED
    assert {claim.summary for claim in memory.claims(limit=None)} == {
        "The cello is rented until spring",
        "ana commits, not me (corrects: the git part is mine, commits come after i read the diff)",
        "the spare key is in the drawer under the scanner",
    }
    lines = {line.heading: line.text for line in collect_status(changed)}
    assert lines["encoder"] == (
        "hash-384; its reader of people's messages makes other claims than that of all-MiniLM-L6-v2"
    )
    # Once is enough: the next night changes nothing.
    assert run_night([tmp_path / "talk"], changed).collect_notes() == []


def test_what_was_taken_back_counts_for_a_claim_that_got_another_id(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path, create=True)
    said = {"rule-a": "Ana commits.", "fact-a": "Ana commits.", "b": "Bo commits."}
    claims = [
        claim_row(0, summary, claim_id=key, session_id="s")
        for key, summary in said.items()
    ]
    store.merge(CLAIMS, pa.Table.from_pylist(claims, schema=CLAIMS.schema))
    undone = dict.fromkeys(MERGES.schema.names) | {
        "merge_id": "one",
        "kind": "duplicate",
        "rule": "likeness",
        "from_id": "rule-a",
        "into_id": "b",
        "undone": True,
        "step_key": "key",
    }
    store.merge(MERGES, pa.Table.from_pylist([undone], schema=MERGES.schema))
    assert read_undone_pairs(store) == {("rule-a", "b"), ("fact-a", "b")}
