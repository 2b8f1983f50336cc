"""The examples in docs/examples and the answer in README.md, as the program prints them after a night over the samples.

python docs/examples.py     # half a minute; needs the night's packages
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

from slowwave.text.marked import replace_marked

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TIDEPOOL = ROOT / "docs" / "examples" / "tidepool"
PROJECT = ("--project", "/home/ada/tidepool")
QUESTION = "Which database does tidepool use for the gauge readings?"
INJECTED = "Where does tidepool keep its gauge readings now?"
"""The question of the page Injected: one line answers it by itself."""
OF_DEMO = "--store data/store --space demo"
"""The options with which a command reads the memory of `make demo`."""
BUDGET = 300
"""Tokens of the block in the picture of the page Injected."""
ANSWER = ("<!-- answer:begin -->", "<!-- answer:end -->")
"""Marks in README.md around what `docs/examples.py` writes."""
WIDTH = 110
"""Characters of a line in README.md, so that GitHub needs no scroll bar."""


def render_examples(store: Path) -> dict[Path, str]:
    """Return the text of each file that shows what the program prints, from a store of one night over the samples."""
    block = run_command(store, "project", "--out", "-", *PROJECT)
    return {
        TIDEPOOL / "SKILL.md": run_command(store, "skill", *PROJECT),
        TIDEPOOL / "AGENTS.md": replace_marked("", block),
        README: replace_marked(
            README.read_text(encoding="utf-8"), render_answer(store), ANSWER
        ),
    }


def render_answer(store: Path) -> str:
    """Return a question and its answer as a block of Markdown, long lines wrapped."""
    lines = [f'$ .venv/bin/slowwave recall "{QUESTION}" -k 2 {OF_DEMO}']
    for line in run_command(store, "recall", QUESTION, "-k", "2").splitlines():
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="   ") or [""]
    return "\n".join(["```console", *lines, "```"])


def run_command(store: Path, *words: str, **looks: str) -> str:
    """Return what a command prints; `looks` are added to its environment."""
    call = [sys.executable, "-m", "slowwave", *words]
    own = {"SLOWWAVE_STORE": str(store), "XDG_CONFIG_HOME": str(store.parent)}
    return subprocess.run(
        call,
        cwd=ROOT,
        env=os.environ | own | looks,
        check=True,
        capture_output=True,  # progress, too
        text=True,
    ).stdout


def main() -> None:
    """Write all examples."""
    with TemporaryDirectory() as folder:
        store = Path(folder, "store")
        run_command(store, "run", "data/samples", "--plain")
        for path, text in render_examples(store).items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
