"""A package that adds a reader: the example of docs/formats.md, installed beside one that is broken."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.bench_inputs import ROOT
from tests.transcript_rows import put

TALK = {
    "key": 7,
    "about": "Ferry",
    "turns": [
        {"who": "user", "body": "The gauge reads 40 cm.", "at": "2026-03-01T09:00:00Z"},
        {"who": "assistant", "body": "Noted.", "at": "2026-03-01T09:00:05Z"},
    ],
}
NIGHT = """
import json, sys
from pathlib import Path
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.store.store import Store

settings = Settings(store=Path(sys.argv[2]), encoder="hash-384")
run_night([Path(sys.argv[1])], settings)
store = Store.open(settings.store, settings.space)
tables = store.read(MESSAGES, ["source", "role", "text"]), store.read(SESSIONS, ["title"])
print(json.dumps([table.to_pylist() for table in tables]))
"""


def install(folder: Path, name: str, entry: str, code: str) -> None:
    """Lay a package down as an installer does."""
    put(folder / f"{name}.py", code)
    put(folder / f"{name}-1.0.dist-info" / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    put(folder / f"{name}-1.0.dist-info" / "entry_points.txt", f"[slowwave.readers]\n{entry}\n")


def test_a_night_reads_a_format_that_a_package_adds(tmp_path: Path) -> None:
    example = re.search(r"```python\n(# acme_chat.py\n.*?)```", (ROOT / "docs/formats.md").read_text(), re.DOTALL)
    assert example
    site = tmp_path / "site"
    install(site, "acme_chat", "acme = acme_chat:READER", example[1])
    install(site, "broken_chat", "broken = broken_chat:READER\nnone = acme_chat:ACME", "import nothing_of_that_name\n")
    put(tmp_path / "talks" / "ferry.acme", TALK)
    ran = subprocess.run(
        [sys.executable, "-c", NIGHT, tmp_path / "talks", tmp_path / "store"],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    messages, sessions = json.loads(ran.stdout.splitlines()[-1])
    assert messages == [
        {"source": "acme", "role": "user", "text": "The gauge reads 40 cm."},
        {"source": "acme", "role": "assistant", "text": "Noted."},
    ]
    assert sessions == [{"title": "Ferry"}]
    assert "the reader 'broken' can't be loaded, and is left out: ModuleNotFoundError" in ran.stderr
    assert "acme_chat:ACME is no new Reader, and is left out: got ChatFormat(" in ran.stderr
