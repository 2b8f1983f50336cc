"""Questions whose names are misspelt: each is answered with the nearest there is, however sure that may be."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
QUESTIONS = (
    "Where does Maritt work?",
    "What did Teo do to his knee?",
    "Who is Henryk?",
    "What is Ilva learning?",
    "How strict is Sovleig?",
    "When does Maritt's grandfather come up?",
    "What did Jonnas take over?",
    "What does Amirah insist on?",
    "Which food is Linea allergic to?",
    "When is Petrell hauled out?",
    "Which day does Adda bake?",
    "What does Fhilip like?",
    "What happened in Sandvicken?",
    "Who was Muhhamed?",
    "When is the trip to Lisabon?",
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """Of the talk of two friends and of an assistant's."""
    settings = Settings(store=tmp_path_factory.mktemp("misspelt") / "store")
    run_night([SAMPLES / "generic", SAMPLES / "openclaw"], settings).check_complete()
    return Memory.open(settings.store)


@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_misspelt_name_does_not_silence_an_answer(memory: Memory, asked: str) -> None:
    hits = memory.recall(asked, k=5)
    assert len(hits) == 5
    assert all(hit.relevance is not None for hit in hits)
    for kind in ("observation", "message", "summary"):
        assert memory.recall(asked, k=5, kinds=kind)
    assert len(memory.sessions(asked, k=5)) == 5
    assert memory.context(asked, 300).parts
