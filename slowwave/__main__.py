"""The `slowwave` command, also as `python -m slowwave`: at a terminal it shows at once that it is loading."""

import os
import sys

LOADING = "loading the program …"


def main() -> None:
    """Run the console script. On a cold disk its modules take seconds to load: an empty terminal looks like a hang."""
    shown = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if shown:
        print(LOADING, end="\r", file=sys.stderr, flush=True)
    from slowwave.cli.main import app

    if shown:
        print(" " * len(LOADING), end="\r", file=sys.stderr, flush=True)
    app()


if __name__ == "__main__":
    main()
