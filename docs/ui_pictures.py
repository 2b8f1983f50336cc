"""Make the pictures of docs/ui.md: a night over data/samples, and Chromium in front of its pages.

    python docs/ui_pictures.py

Needs the extras `dev` and Debian's chromium; about 20 seconds.
"""

import socket
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from playwright.sync_api import sync_playwright

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.ui.app import make_app

ROOT = Path(__file__).parent.parent
QUESTION = "which database does tidepool use"


def main() -> None:
    """Write docs/pictures/*.png."""
    with TemporaryDirectory() as folder, socket.socket() as free:
        settings = Settings(store=Path(folder) / "store")
        run_night([ROOT / "data" / "samples"], settings)
        app = make_app(settings)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
        threading.Thread(target=server.run, daemon=True).start()
        while not server.started:
            time.sleep(0.05)
        explorer, address = app.state.explorer, f"http://127.0.0.1:{port}"
        claim = next(one.perhaps_superseded_by for one in explorer.memory.recall(QUESTION) if one.perhaps_superseded_by)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            for name, path, scheme in (
                ("claim", f"/claim/{claim}", "light"),
                ("injected", f"/injected?q={QUESTION.replace(' ', '+')}&budget=400", "dark"),
            ):
                page = browser.new_page(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
                page.goto(f"{address}/?token={explorer.token}")
                page.goto(address + path)
                page.screenshot(path=ROOT / "docs" / "pictures" / f"{name}.png")
        server.should_exit = True


if __name__ == "__main__":
    main()
