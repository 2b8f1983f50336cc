"""The examples in docs/examples and the answer in README.md, as the program prints them after a night over the samples.

python docs/examples.py     # half a minute; needs the night's packages
"""

import os
import re
import subprocess
import sys
import textwrap
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

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
PICTURES = ROOT / "docs" / "pictures"
NIGHT = ("run", "data/samples", "--plain")
RECALL = ("recall", QUESTION, "-k", "2")
COLUMNS = 100
TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": f"{COLUMNS}"}
"""Makes a command print as on a terminal of that width."""
SVG_FORMAT = re.sub(
    r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL
)
"""Rich's format without fonts from another server."""


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
    lines = [f'$ slowwave recall "{QUESTION}" -k 2 {OF_DEMO}']
    for line in run_command(store, *RECALL).splitlines():
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="   ") or [""]
    return "\n".join(["```console", *lines, "```"])


def run_command(store: Path, *words: str, **looks: str) -> str:
    """Return the output of a command; `looks` are added to its environment."""
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


def run_night_in_terminal(store: Path) -> str:
    """Run the first night over the samples as a command, and return its closing lines as a terminal gets them."""
    night = run_command(store, *NIGHT, **TERMINAL)
    return night[night.index("New: ") :]


def render_terminal(store: Path, night: str) -> str:
    """Return the picture of a terminal as SVG: the closing lines of a night, then an answer."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    answer = run_command(store, *RECALL, **TERMINAL)
    for words, printed in ((NIGHT, night), (RECALL, answer)):
        typed = " ".join(f'"{word}"' if " " in word else word for word in words)
        console.print(Text(f"$ slowwave {typed}", "bold"))
        console.print(Text.from_ansi(f"{printed.rstrip()}\n"))
    return console.export_svg(
        title="slowwave", code_format=SVG_FORMAT, unique_id="terminal"
    )


def main() -> None:
    """Write all examples."""
    with TemporaryDirectory() as folder:
        store = Path(folder, "store")
        run_command(store, *NIGHT)
        for path, text in render_examples(store).items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
