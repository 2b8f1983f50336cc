"""The pictures of the README, docs/ui.md and docs/nights.md, made from nights over data/samples: a page, a terminal,
two pages of the explorer, and a run's page of Prefect's.

python docs/pictures.py     # two minutes; needs the extra `dev` and Chromium
"""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote_plus

import uvicorn
from examples import (
    BUDGET,
    INJECTED,
    PICTURES,
    QUESTION,
    render_terminal,
    run_night_in_terminal,
)
from playwright.sync_api import sync_playwright

from slowwave.schemas.settings import Settings
from slowwave.ui.app import make_app, render_report


def main() -> None:
    """Write all pictures."""
    with TemporaryDirectory() as folder:
        store, page = Path(folder, "store"), Path(folder, "night.html")
        night = run_night_in_terminal(store)
        svg = render_terminal(store, night)
        (PICTURES / "terminal.svg").write_text(svg, encoding="utf-8")
        page.write_text(render_report(Settings(store=store)), encoding="utf-8")
        draw_pages(store, page)
        draw_run(Path(folder))


def draw_pages(store: Path, report: Path) -> None:
    """Write the tops of a report and of two pages of the explorer as PNG, by Chromium."""
    port = find_port()
    app = make_app(Settings(store=store))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    explorer, address = app.state.explorer, f"http://127.0.0.1:{port}"
    claim = next(
        one.perhaps_superseded_by
        for one in explorer.memory.recall(QUESTION)
        if one.perhaps_superseded_by
    )
    shown = (
        ("run_page", report.as_uri(), "light"),
        ("claim", f"{address}/claim/{claim}", "light"),
        (
            "injected",
            f"{address}/injected?q={quote_plus(INJECTED)}&budget={BUDGET}",
            "dark",
        ),
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for name, where, scheme in shown:
            page = browser.new_page(
                viewport={"width": 1000, "height": 900 if name == "injected" else 760},
                color_scheme=scheme,
            )
            page.goto(f"{address}/?token={explorer.token}")
            page.goto(where)
            page.screenshot(path=PICTURES / f"{name}.png")
    server.should_exit = True


NIGHT = """
import sys
from prefect.client.orchestration import get_client
from slowwave.flows.prefect import nightly

nightly(["data/samples"], {"store": sys.argv[1]})
with get_client(sync_client=True) as client:
    print(client.read_flow_runs()[0].id)
"""


def draw_run(folder: Path) -> None:
    """Write the graph of a night on its page of a Prefect server as PNG, by Chromium."""
    port = find_port()
    address = f"http://127.0.0.1:{port}"
    own = {
        **os.environ,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    start = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    with subprocess.Popen(start, env=own, stdout=subprocess.DEVNULL) as server:
        while not is_open(port):
            time.sleep(1)
        night = [sys.executable, "-c", NIGHT, str(folder / "prefect-store")]
        told = subprocess.run(
            night, env=own, check=True, stdout=subprocess.PIPE, text=True
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 520})
            page.goto(f"{address}/runs/flow-run/{told.stdout.split()[-1]}")
            page.wait_for_timeout(10_000)  # the graph is drawn on a canvas
            page.screenshot(path=PICTURES / "prefect.png")
        server.terminate()


def find_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def is_open(port: int) -> bool:
    """Return True if something listens there."""
    with socket.socket() as here:
        return here.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
