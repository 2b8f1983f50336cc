"""The pictures of the README, made from a night over data/samples: its page and what a terminal shows.

python docs/pictures.py     # half a minute; needs Chromium
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from slowwave.schemas.settings import Settings
from slowwave.ui.app import render_report

PICTURES = Path(__file__).parent / "pictures"
SHOWN = (("recall", "Which database does tidepool use for the gauge readings?", "-k", "2"),)
"""Commands of the terminal's picture, after the end of the night itself."""
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts from another server."""


def main() -> None:
    """Write both pictures."""
    with TemporaryDirectory() as folder:
        store, page = Path(folder, "store"), Path(folder, "night.html")
        night = run_command(store, "run", "data/samples", "--plain")
        draw_terminal(store, night[night.index("New: ") :])
        page.write_text(render_report(Settings(store=store)), encoding="utf-8")
        draw_page(page, PICTURES / "tonight.png", Path(folder))


def run_command(store: Path, *words: str) -> str:
    """Return what a command prints on a terminal of 100 columns."""
    looks = {"FORCE_COLOR": "1", "COLUMNS": "100", "SLOWWAVE_STORE": str(store)}
    call = [sys.executable, "-m", "slowwave", *words]
    return subprocess.run(call, env=os.environ | looks, check=True, capture_output=True, text=True).stdout


def draw_terminal(store: Path, night: str, commands: Sequence[Sequence[str]] = SHOWN) -> None:
    """Write the end of a night and some answers as SVG."""
    console = Console(record=True, width=100, file=StringIO())
    for words, shown in [
        (("run", "data/samples", "--plain"), night),
        *((words, run_command(store, *words)) for words in commands),
    ]:
        typed = " ".join(f'"{word}"' if " " in word else word for word in words)
        console.print(Text(f"$ slowwave {typed}", "bold"))
        console.print(Text.from_ansi(f"{shown.rstrip()}\n"))
    svg = console.export_svg(title="slowwave", code_format=FORMAT, unique_id="terminal")
    (PICTURES / "terminal.svg").write_text(svg, encoding="utf-8")


def draw_page(page: Path, picture: Path, profile: Path) -> None:
    """Write the top of a page as PNG."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,760")
    own = (f"--user-data-dir={profile / 'chromium'}", f"--screenshot={picture}", page.as_uri())
    subprocess.run(["chromium", *options, *own], check=True, capture_output=True)


if __name__ == "__main__":
    main()
