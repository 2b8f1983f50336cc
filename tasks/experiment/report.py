"""An experiment's findings as one HTML file: no script, nothing fetched, light or dark as the reader has it."""

from html import escape
from importlib.util import find_spec

from slowwave.schemas.errors import UsageError
from slowwave.tasks.experiment.findings import Findings
from slowwave.tasks.experiment.plots import draw_plots
from slowwave.tasks.experiment.score import METRICS

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
table { display: block; overflow-x: auto; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #8886; }
svg { max-width: 100%; height: auto; }
"""
MOST = 200
"""Rows of trials, the best."""


def check_report() -> None:
    """Make sure that a report can be drawn.

    Raises:
        UsageError: matplotlib is not installed.
    """
    if not find_spec("matplotlib"):
        raise UsageError("a report needs matplotlib: pip install 'slowwave[experiment]'")


def render_report(findings: Findings) -> str:
    """Return the page: what the terminal says, the plots, and all that was tried."""
    from markdown_it import MarkdownIt

    read = MarkdownIt("commonmark", {"html": False}).enable("table")
    plots = "".join(f"<h2>{escape(title)}</h2>{svg}" for title, svg in draw_plots(findings))
    said = " ".join(f"{name}: {METRICS[name]}." for name in findings.heads)  # type: ignore[index]
    trials = f"## All that was tried on training\n\n{findings.render_trials(MOST)}\n\n{said} "
    trials += "Gains are over the settings in force; in brackets 95% intervals by bootstrap over sessions."
    body = f"{read.render(findings.render_markdown())}{plots}{read.render(trials)}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(findings.name)}'
    head = f"<head>{head}</title><style>{STYLE}</style></head>"
    return f'<!doctype html>\n<html lang="en">{head}\n<body>{body}</body></html>\n'
