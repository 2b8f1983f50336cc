"""An experiment's plots as SVG, drawn by matplotlib; lines and letters take the page's own colour, light or dark."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from slowwave.tasks.experiment.findings import Findings, Trial
from slowwave.tasks.experiment.score import LESS_IS_BETTER, METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Draw = Callable[[Axes], object]

INK = "#010203"
"""Stands for the page's colour while matplotlib draws."""
BEFORE, NEW, QUIET = "#d9822b", "#2b8a6f", "#8a8f98"
STYLE = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **{"svg.fonttype": "none", "svg.hashsalt": "slowwave", "font.family": "sans-serif", "font.size": 9},
    **{"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "savefig.transparent": True},
}
ACROSS = 3


def draw_plots(findings: Findings) -> list[tuple[str, str]]:
    """Return title and SVG of each plot that the findings have figures for."""
    whole = [one for one in findings.trained if one.share == 1.0]
    names = list(dict.fromkeys(name for one in whole for name in one.params))
    sweeps = [partial(_draw_sweep, findings=findings, whole=whole, name=name) for name in names]
    drawn = [("Each setting that was varied, on training", _draw(sweeps))]
    if len({one.figures["tokens"].mean for one in whole}) > 1 and findings.metric != "tokens":
        pareto = _draw([lambda axis: _draw_pareto(axis, findings, whole)], 6.0, 3.6)
        drawn.append((f"Tokens against {findings.metric}, on training", pareto))
    if findings.calibration:
        calibration = _draw([lambda axis: _draw_calibration(axis, findings)])
        drawn.append(("Relevance that memory told, against what it showed", calibration))
    return drawn


def _draw(draws: "Sequence[Draw]", width: float = 4.2, height: float = 3.0) -> str:
    """Return an SVG of plots of so many inches, in rows; nobody's matplotlibrc has a say."""
    from matplotlib import style
    from matplotlib.figure import Figure

    down = -(-len(draws) // ACROSS)
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(width * min(len(draws), ACROSS), height * down), layout="constrained")
        for at, draw in enumerate(draws, 1):
            draw(axis := figure.add_subplot(down, min(len(draws), ACROSS), at))
            if axis.get_legend_handles_labels()[0]:
                axis.legend()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def _draw_sweep(axis: "Axes", findings: Findings, whole: list[Trial], name: str) -> None:
    points = [(one.params[name], one.figures[findings.metric].mean) for one in whole if name in one.params]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value, _ in points)
    shown = sorted(((value if numbers else str(value)), mean) for value, mean in points)
    axis.plot([x for x, _ in shown], [y for _, y in shown], "o", color=QUIET, markersize=3, alpha=0.6)
    means = {x: [y for other, y in shown if other == x] for x, _ in shown}
    best = min if findings.metric in LESS_IS_BETTER else max
    if 2 * len(means) <= len(shown) or len(whole[-1].params) == 1:  # else each value was drawn about once
        axis.plot(list(means), [best(some) for some in means.values()], "-", color=NEW, label="best")
    axis.axhline(whole[0].figures[findings.metric].mean, color=BEFORE, linestyle="--", label="in force")
    axis.set(xlabel=name, ylabel=findings.metric)


def _draw_pareto(axis: "Axes", findings: Findings, whole: list[Trial]) -> None:
    places = [(one.figures["tokens"].mean, one.figures[findings.metric].mean) for one in whole]
    better = min if findings.metric in LESS_IS_BETTER else max
    front: list[tuple[float, float]] = []
    for tokens, value in sorted(places):
        if not front or (value != front[-1][1] and better(value, front[-1][1]) == value):
            front.append((tokens, value))
    axis.plot(*zip(*places, strict=True), "o", color=QUIET, markersize=4, alpha=0.6)
    axis.step(*zip(*front, strict=True), where="post", color=NEW, label="no other is better in both")
    axis.plot(*places[0], "s", color=BEFORE, label="in force")
    for one, place in zip(whole, places, strict=True):
        if findings.adopted and one.params == findings.adopted:
            axis.plot(*place, "*", color=NEW, markersize=12, label="best on validation")
    axis.set(xlabel=METRICS["tokens"], ylabel=findings.metric)


def _draw_calibration(axis: "Axes", findings: Findings) -> None:
    axis.plot([0, 1], [0, 1], "--", color=QUIET, label="as told")
    axis.plot([one[0] for one in findings.calibration], [one[1] for one in findings.calibration], "o-", color=NEW)
    axis.set(xlabel="relevance", ylabel="share of evidence shown", xlim=(0, 1.02), ylim=(0, 1.02))
