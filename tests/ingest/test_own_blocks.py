"""What slowwave's own hook told a client is not stored again, wherever the client's file has it.

The files of `hooked/` were written by the clients that their folders name, with the hooks of `slowwave install`.
"""

from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES, MESSAGES, QUARANTINE
from slowwave.schemas.vocabulary import HOOK_OPENING
from slowwave.store import Store
from slowwave.tasks.ingest.storable import OWN_BLOCKS
from slowwave.text.fence import FENCED, fence_block
from tests.transcript_rows import put

pytestmark = pytest.mark.usefixtures("only_read")

HOOKED = Path(__file__).parent / "hooked"
ASKED = "Where do we keep the tide readings?"
TOLD = "\n\n".join((HOOK_OPENING, fence_block("# Memories\nperson: a < b")))


def read_rows(path: Path, folder: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The stored messages, and what was left out of the file, by kind."""
    settings = Settings(store=folder / "store", encoder="hash-384")
    run_night([path], settings)
    store = Store.open(settings.store)
    assert store.count(QUARANTINE) == 0
    (left_out,) = store.read(FILES)["skipped"].to_pylist()
    return store.read(MESSAGES).to_pylist(), dict(left_out)


@pytest.mark.parametrize("client", sorted(path.name for path in HOOKED.iterdir()))
def test_what_the_hook_told_a_client_is_stored_nowhere(
    client: str, tmp_path: Path
) -> None:
    (path,) = (HOOKED / client).rglob("*.jsonl")
    assert FENCED in path.read_text()
    rows, _ = read_rows(path, tmp_path)
    said = [row["text"] for row in rows if row["origin"] != "synthetic"]
    assert said == [ASKED, "Understood."]
    assert FENCED not in str([(row["text"], row["blocks"]) for row in rows])


# Words beside a block are a person's. One that was cut off is not known to be a block. A tool's answer is its own.
@pytest.mark.parametrize(
    ("role", "content", "kept"),
    [
        ("system", TOLD, None),
        ("user", f"<context>{TOLD.replace('<', '&lt;')}</context>", None),
        ("user", f"We use tabs.\n\n{TOLD}\nNever on Fridays.", "Never on Fridays."),
        ("user", f"{TOLD} {TOLD}\nWe use tabs.", "We use tabs."),
        ("user", f"{TOLD[:-19]}\nWe use tabs.", FENCED),
        ("user", TOLD.replace("\n", "\r\n"), None),
        ("tool", TOLD, FENCED),
    ],
)
def test_only_whole_blocks_are_left_out(
    role: str, content: str, kept: str | None, tmp_path: Path
) -> None:
    lines = ({"role": "user", "content": ASKED}, {"role": role, "content": content})
    rows, left_out = read_rows(put(tmp_path / "talk.jsonl", lines), tmp_path)
    assert left_out.get(OWN_BLOCKS, 0) == (kept is None)
    stored = [str(row["blocks"]) for row in rows[1:]]
    assert [(kept or "") in text for text in stored] == [True] * (kept is not None)
    assert (FENCED in "".join(stored)) == (kept == FENCED)


@pytest.mark.parametrize(
    "content",
    [
        TOLD.replace("person:", "Never on Fridays.\nperson:"),
        f"{TOLD[:-19]}\nNever on Fridays.\n{TOLD}",
    ],
    ids=("inside a block", "behind one without its end"),
)
def test_words_that_somebody_wrote_into_a_block_stay(
    content: str, tmp_path: Path
) -> None:
    lines = ({"role": "user", "content": ASKED}, {"role": "user", "content": content})
    rows, _ = read_rows(put(tmp_path / "talk.jsonl", lines), tmp_path)
    assert "Never on Fridays." in rows[1]["text"]
