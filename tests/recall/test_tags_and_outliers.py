"""A keyword or tag as a condition of recall, and claims that lie far off their topic."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.store import Store
from slowwave.store.notes import find_talk_logs
from slowwave.store.publishing import publish
from tests.claim_rows import claim_row
from tests.command_line import typed
from tests.talk_files import SAID, chat


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of one night over a chat."""
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    run_night([chat(tmp_path / "t", "c", 3, SAID)], Settings(store=tmp_path / "s"))
    return tmp_path / "s"


def test_a_tag_lets_through_what_has_it_as_keyword_or_tag(store: Path) -> None:
    memory = Memory.open(store)
    words = [word for claim in memory.claims() for word in claim.keywords]
    word = next(word for word in words if "museum" in word)
    hits = memory.recall("what did they say of Porto and Braga?", tag=word.upper())
    assert hits
    assert all("museum" in hit.text.casefold() for hit in hits)
    assert {hit.kind for hit in hits} <= {"claim", "message"}
    none = memory.recall("what did they say of Porto?", tag="no such word")
    assert list(none) == []
    assert (
        none.reason == "no claim and no message has the keyword or tag 'no such word'"
    )
    alone = memory.recall("what of Porto?", kinds="topic", tag=word)
    assert alone.reason == "summaries and topics have no keywords"


def test_a_note_is_found_by_its_tag_before_and_after_its_night(store: Path) -> None:
    memory = Memory.open(store)
    memory.remember("The museum's side door is green.", tags=["Errand"])
    memory.remember("The museum's back door is blue.")
    query = "what colour is the museum's door?"
    texts = ["The museum's side door is green."]
    assert [hit.text for hit in memory.recall(query, tag="errand")] == texts
    run_night(find_talk_logs(store / "default"), Settings(store=store))
    after = memory.recall(query, kinds="message", tag="errand")
    assert [hit.text for hit in after] == texts
    told = typed("recall", query, "--limit", 1, "--tag", "errand", "--store", store)
    assert "side door" in told.output


def test_outliers_are_the_claims_beyond_their_topics_fence(tmp_path: Path) -> None:
    axes, noise = np.eye(384), np.random.default_rng(7).normal(0, 0.005, (12, 384))
    vectors = [*(axes[0] + noise), axes[1]]  # the last points elsewhere
    rows = [
        claim_row(n, f"Claim {n}.", topic_id="t", vector=vector.tolist())
        for n, vector in enumerate(vectors)
    ]
    store = Store.open(tmp_path, create=True)
    store.append(CLAIMS, pa.Table.from_pylist(rows, CLAIMS.schema))
    publish(store, "run", None)
    memory = Memory.open(tmp_path)
    assert [claim.summary for claim in memory.claims(outliers=True)][:1] == [
        "Claim 12."
    ]
    assert len(memory.claims(outliers=True)) <= 2
    told = typed("show", "claims", "--outliers", "--store", tmp_path)
    assert "Claim 12." in told.output
    assert "Claim 3." not in told.output
