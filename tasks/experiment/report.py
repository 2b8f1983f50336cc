"""An experiment's findings as one HTML file: no script, nothing fetched, light or dark as the reader has it."""

from collections.abc import Sequence
from html import escape
from importlib.util import find_spec

from slowwave.schemas.errors import UsageError
from slowwave.tasks.experiment.findings import Findings, Trial, format_gain, format_interval, format_params
from slowwave.tasks.experiment.plots import draw_plots
from slowwave.tasks.experiment.score import METRICS

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #8886; }
svg { max-width: 100%; height: auto; }
div { overflow-x: auto; }
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
    """Return the page."""
    asked = ", ".join(f"{count} {name}" for name, count in findings.questions.items())
    kinds = ", ".join(f"{count} {name}" for name, count in findings.kinds.items())
    about = f"Target {findings.target}, data {findings.data} ({kinds}), split by {findings.split}: {asked}."
    heads = [name for name in METRICS if findings.trained[0].figures[name].asked]
    parts = [
        f"<h1>{escape(findings.name)}</h1>",
        f"<p>{escape(about)} Experiment {findings.experiment_id[:8]}.</p>",
        f"<ul>{''.join(f'<li>{escape(said)}</li>' for said in findings.collect_verdicts())}</ul>",
        *(f"<h2>{escape(title)}</h2><div>{svg}</div>" for title, svg in draw_plots(findings)),
        "<h2>Validation and test</h2>",
        _render_table(["settings", "split", *heads, "gain", "p", "p by Holm"], _list_final_rows(findings, heads)),
        "<h2>All that was tried on training</h2>",
        _render_table(["settings", "share", *heads], _list_trained_rows(findings, heads)),
        f"<p>{' '.join(f'{escape(name)}: {escape(METRICS[name])}.' for name in heads)} In brackets 95% intervals by "
        "bootstrap over sessions.</p>",
    ]
    title, body = escape(findings.name), "\n".join(parts)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>{body}</body></html>\n'


def _list_final_rows(findings: Findings, heads: Sequence[str]) -> list[list[str]]:
    validation, test = findings.before
    rows = [["as in force", "validation", *_format_figures(validation, heads), "", "", ""]]
    for split, one in [*(("validation", one) for one in findings.validated), ("test", findings.tested)]:
        if split == "test":
            rows.append(["as in force", "test", *_format_figures(test, heads), "", "", ""])
        if one is not None:
            chances = [f"{one.chance:.3f}", f"{one.corrected:.3f}"]
            named = [format_params(one.trial.params), split, *_format_figures(one.trial, heads)]
            rows.append([*named, format_gain(one.gain), *chances])
    return rows


def _list_trained_rows(findings: Findings, heads: Sequence[str]) -> list[list[str]]:
    best = sorted(findings.trained, key=lambda one: (-one.share, -findings.rate(one)))[:MOST]
    return [[format_params(one.params), f"{one.share:.2f}", *_format_figures(one, heads)] for one in best]


def _format_figures(trial: Trial, heads: Sequence[str]) -> list[str]:
    return [format_interval(trial.figures[name]) for name in heads]


def _render_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
