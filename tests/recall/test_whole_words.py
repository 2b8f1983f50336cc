"""Words that the full-text index once left out, and those that it does: none of these is looked up."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import SETTLED, run_night
from slowwave.recall.query import build_query
from slowwave.recall.retrieve.rows import find_passages
from slowwave.schemas.settings import Settings
from slowwave.text.full_text import FULL_TEXT, is_left_out
from slowwave.text.words import ENGLISH_STOP, STOP, TERM
from tests.talk_files import session

COMMIT = "7b52009b64fd0a2a49e6d8a939753077792b0554"
# 40, 48 and 51 bytes.
LONG = (
    COMMIT,
    "высокопревосходительство",
    "東京都千代田区丸の内一丁目駅前広場",
)
WORDS = sorted(
    {
        *ENGLISH_STOP,
        *TERM.findall(" ".join(STOP)),
        "mostly",
        "now",
        "tide",
        "owned",
        "downs",
    }
)


def count_commits(root: Path) -> int:
    """Return how many passages of the live release the index finds for the commit's id."""
    view = Memory.open(root, encoder=HashEncoder()).get_view()
    return (
        find_passages(view, build_query(COMMIT, 1, "message"))
        .search_text([COMMIT], 5)
        .num_rows
    )


def make_settings(root: Path) -> Settings:
    return Settings(store=root, encoder="hash-384", keywords={"top": 0})


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages that each have one long word, one with every stop word, and others about as long."""
    folder = tmp_path_factory.mktemp("words")
    turns = [
        ("user", f"The fix for the gauge shipped with {word} at last.") for word in LONG
    ]
    turns += [
        ("user", f"We moved gauge {n} to the pier and it works.") for n in range(20)
    ]
    session(folder, "long", 1, turns)
    return session(folder, "stop", 2, [("user", " ".join(WORDS))]).parent


@pytest.fixture(scope="module")
def memory(talk: Path) -> Memory:
    run_night([talk], make_settings(talk.with_name("store"))).check_complete()
    return Memory.open(talk.with_name("store"), encoder=HashEncoder())


@pytest.mark.parametrize("word", LONG)
@pytest.mark.parametrize("query", ["{}", "what shipped with {} last week?"])
def test_a_long_word_finds_its_message_first(
    memory: Memory, word: str, query: str
) -> None:
    assert word in memory.recall(query.format(word), 1, "message")[0].text


def test_the_first_digits_of_an_id_find_it(memory: Memory) -> None:
    assert (
        COMMIT
        in memory.recall(f"what shipped with {COMMIT[:12]}?", 1, "message")[0].text
    )
    assert memory.get_view().find_completion(COMMIT[:7]) == COMMIT
    assert memory.get_view().find_completion("gaug") == "gauge"
    assert memory.get_view().find_completion("g") is None  # several words begin so


def test_every_word_that_is_looked_up_is_in_the_index_and_what_is_left_out_is_known(
    memory: Memory,
) -> None:
    query = build_query(" ".join(WORDS), 1, "message")
    rows = find_passages(memory.get_view(), query)
    found = {word for word in WORDS if rows.search_text([word], 1).num_rows}
    assert found == {word for word in WORDS if not is_left_out(word)}
    assert query.index_terms == sorted(found)
    assert "tide" in found
    # Lance leaves these out by its own list of stop words, or by a stem that is on it.
    assert not {"who", "how", "own", "owned", "now", "mostly"} & found


def test_a_store_made_before_gets_the_new_index_in_the_next_night(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path)
    with monkeypatch.context() as before:
        before.setitem(FULL_TEXT, "max_token_length", 40)
        run_night([talk], settings).check_complete()
    assert count_commits(tmp_path) == 0
    (tmp_path / "default" / SETTLED).unlink()  # as a new version of the code makes it
    assert run_night([talk], settings).check_complete().release
    assert count_commits(tmp_path) == 1
    (tmp_path / "default" / SETTLED).unlink()
    assert run_night([talk], settings).release is None  # once is enough
