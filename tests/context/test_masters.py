"""What memories leave of a block's budget tells what their sessions were about, and takes nothing from them."""

from pathlib import Path

import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.context.build import Context
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.store import Store
from slowwave.store.releases import publish
from tests.talk_files import session

TALK = {
    2: [("user", "The quay gets a new crane by the firm Holm."), ("assistant", "The crane of Holm is ordered.")],
    5: [("user", "The ferry to Hoy leaves at 7:40 from pier 3."), ("assistant", "Pier 3 is painted white.")],
}
ASKED = "When does the ferry to Hoy leave from the pier?"
TOLD = "What it is about. An account of the whole conversation."


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("masters")
    made = Settings(store=folder / "store", encoder="hash-384", llm="scripted:tests.llm_scripts:faithful")
    run_night([session(folder, f"day-{day}", day, said) for day, said in TALK.items()], made)
    return made


def ask(settings: Settings, budget: int = 600, share: float = 0.15, query: str = ASKED, **filters: str) -> Context:
    memory = Memory.open(settings.store, encoder=HashEncoder())
    context = memory.settings.context.model_copy(update={"summary_share": share})
    memory.settings = memory.settings.model_copy(update={"context": context})
    return memory.context(query, budget, **filters)  # type: ignore[arg-type]


def test_the_sessions_of_the_memories_are_told_before_them_and_the_memories_are_the_same(settings: Settings) -> None:
    block, without = ask(settings), ask(settings, share=0)
    assert [part.name for part in block.parts] == ["summaries", "memories"]
    assert block.parts[1:] == without.parts
    assert {line.text for line in block.parts[0].lines} == {TOLD}
    assert block.text.startswith("# Sessions\n")
    for budget in range(20, 200, 10):
        block, without = ask(settings, budget), ask(settings, budget, share=0)
        assert block.tokens <= min(budget, without.tokens + 0.15 * budget)
        assert block.parts[-1:] == without.parts


def test_nothing_of_a_session_that_goes_on_after_the_time_asked_for_or_began_before(settings: Settings) -> None:
    def name_told(**span: str) -> set[str | None]:
        parts = {part.name: part for part in ask(settings, **span).parts}
        assert any(line.source.session == "day-5" for line in parts["memories"].lines)
        return {line.source.session for line in parts["summaries"].lines} if "summaries" in parts else set()

    assert "day-5" in name_told(since="2026-03-05", until="2026-03-05")
    assert "day-5" not in name_told(until="2026-03-05T10:00:30")  # its second message is of 10:01
    assert "day-5" not in name_told(query="How is pier 3 painted?", since="2026-03-05T10:00:30")


def test_a_session_of_which_a_claim_was_superseded_is_not_summed_up(settings: Settings, tmp_path: Path) -> None:
    store = Store.open(settings.store)
    rows = store.read(OBSERVATIONS).to_pylist()
    changed = [{**row, "status": "superseded"} for row in rows]
    store.merge(OBSERVATIONS, pa.Table.from_pylist(changed, schema=OBSERVATIONS.schema))
    publish(store, "by hand", "hash-384")
    assert [part.name for part in ask(settings).parts] == ["memories"]
