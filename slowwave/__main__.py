"""The `slowwave` command, also as `python -m slowwave`: at a terminal it shows at once that it is loading.

What runs often imports little: hooks and `--version` the standard library, and a command that the resident reader
answers no more (docs/resident.md).
"""

import os
import sys

LOADING = "loading the program …"


def main() -> None:
    """Run the console script. On a cold disk its modules take seconds to load: an empty terminal looks like a hang."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:
        from slowwave.cli.agents.hook import hook

        return hook(words[1:])
    if words == ["--version"]:
        from slowwave.cli.opening import format_version

        return print(format_version())
    shown = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if shown:
        print(LOADING, end="\r", file=sys.stderr, flush=True)
    from slowwave.cli.answered import ask_for

    answer = ask_for(words)
    if answer is None:
        from slowwave.cli.opening import import_uncollected

        with import_uncollected():
            from slowwave.cli.main import app
    if shown:
        print(" " * len(LOADING), end="\r", file=sys.stderr, flush=True)
    if answer is None:
        app()
    else:
        answer.write()


if __name__ == "__main__":
    main()
