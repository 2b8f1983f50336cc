"""The code of docs/analytics.md runs as it is written, over a store of four releases."""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import COMPLETIONS
from slowwave.store.store import Store
from tests.bench_inputs import ROOT
from tests.command_line import typed
from tests.talk_files import session

PAGE = (ROOT / "docs" / "analytics.md").read_text(encoding="utf-8")
NIGHTS = [
    ("a", "/shop", ["We decided to use PostgreSQL for the orders.", "Noted."]),
    ("b", "/shop", ["The invoices are printed on yellow paper.", "Noted."]),
    ("c", "/boat", ["The mast is twelve metres high.", "Noted.", "Is it oak?"]),
    ("d", "/boat", ["We decided to limit the cache to 500 entries.", "Noted."]),
]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's blocks have defined when all have run."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        store=tmp_path / ".local/share/slowwave/store", encoder="hash-384"
    )
    for day, (name, place, texts) in enumerate(NIGHTS, 1):
        said = [(("user", "assistant")[n % 2], text) for n, text in enumerate(texts)]
        run_night([session(tmp_path / "talks", name, day, said, place)], settings)
    answer = {field.name: [] for field in COMPLETIONS.fields if field.name == "flags"}
    numbers = {"prompt_tokens": 900_000, "completion_tokens": 50_000}
    texts = dict.fromkeys(COMPLETIONS.schema.names, "x") | {"model": "qwen3"}
    row = {**texts, **answer, **numbers, "prefix_tokens": 0}
    row["created_at"] = datetime(2026, 3, 5, tzinfo=UTC)
    rows = pa.Table.from_pylist([row], COMPLETIONS.schema)
    Store.open(settings.store).append(COMPLETIONS, rows)
    monkeypatch.setenv("SLOWWAVE_STORE", str(settings.store))
    for command in re.findall(r"^\$ slowwave (.+)$", PAGE, re.MULTILINE):
        result = typed(*shlex.split(command))
        assert result.exit_code == 0, result.output
    found: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, found)
    return found


@pytest.mark.filterwarnings("default")  # of the libraries that the page uses
def test_the_pages_code_gives_what_its_headings_say(names: dict[str, Any]) -> None:
    assert names["decisions"].rows() == [("2026-03", 2)]  # of PostgreSQL and the cache
    assert Path("decisions.png").read_bytes()[:4] == b"\x89PNG"
    assert ["cache" in text for text in names["news"]["summary"]] == [True]
    assert names["gone"].is_empty()
    assert names["projects"].select("workspace", "sessions", "messages").rows() == [
        ("/boat", 2, 5),
        ("/shop", 2, 4),
    ]
    # 900,000 tokens at $0.2 and 50,000 at $0.6 a million
    assert names["cost"].rows() == [("qwen3", 1, 900_000, 50_000, pytest.approx(0.21))]
    assert names["unanswered"]["text"].to_list() == ["Is it oak?"]
    assert len(names["march"]) == 9
    assert [count for _, count in names["by_day"]] == [2, 2, 3, 2]
    whole = names["read"]("claims", ["claim_id", "status"])
    updated: pl.DataFrame = names["updated"].select(whole.columns)
    assert updated.sort("claim_id").equals(whole.sort("claim_id"))
