"""An experiment's plots as SVG, drawn by matplotlib; lines and letters take the page's own colour, light or dark."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slowwave.tasks.experiment.findings import Findings, Trial, format_params
from slowwave.tasks.experiment.intervals import Interval
from slowwave.tasks.experiment.score import LESS_IS_BETTER, METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#010203"
"""Stands for the page's colour while matplotlib draws."""
BEFORE, NEW, QUIET = "#d9822b", "#2b8a6f", "#8a8f98"
SIZE = (4.2, 3.0)
"""Inches of one plot."""
ACROSS = 3
LABEL = 44
"""Characters of a label."""


def draw_plots(findings: Findings) -> list[tuple[str, str]]:
    """Return title and SVG of each plot that the findings have figures for."""
    drawn = [("Each setting that was varied, on training", _draw_sweeps(findings))]
    whole = [one for one in findings.trained if one.share == 1.0]
    if len({one.figures["tokens"].mean for one in whole}) > 1 and findings.metric != "tokens":
        drawn.append((f"Tokens against {findings.metric}, on training", _draw_pareto(findings, whole)))
    if findings.validated:
        drawn.append(("Against the settings in force, with 95% intervals", _draw_gains(findings)))
    if findings.calibration:
        drawn.append(("Relevance that memory told, against what it showed", _draw_calibration(findings)))
    return drawn


def _draw(draw: Callable[[list["Axes"]], None], count: int = 1, width: float = SIZE[0], height: float = SIZE[1]) -> str:
    """Return an SVG of so many plots, in rows; nobody's matplotlibrc has a say."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.figure import Figure

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    fonts = {"svg.fonttype": "none", "svg.hashsalt": "slowwave", "font.family": "sans-serif", "font.size": 9}
    style: Any = {**dict.fromkeys(inked, INK), **fonts, "axes.spines.top": False, "axes.spines.right": False}
    across = min(count, ACROSS)
    down = -(-count // across)
    with rc_context():
        rcdefaults()
        rcParams.update(style)
        figure = Figure(figsize=(width * across, height * down), layout="constrained")
        flat = list(figure.subplots(down, across, squeeze=False).flat)
        draw(flat[:count])
        for unused in flat[count:]:
            unused.remove()
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace(INK, "currentColor")


def _draw_sweeps(findings: Findings) -> str:
    whole = [one for one in findings.trained if one.share == 1.0]
    names = list(dict.fromkeys(name for one in whole for name in one.params))

    def draw(axes: Sequence["Axes"]) -> None:
        for name, axis in zip(names, axes, strict=True):
            points = [(one.params[name], one.figures[findings.metric].mean) for one in whole if name in one.params]
            numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value, _ in points)
            shown = [(value if numbers else str(value), mean) for value, mean in points]
            shown.sort(key=lambda one: one[0])
            axis.plot([x for x, _ in shown], [y for _, y in shown], "o", color=QUIET, markersize=3, alpha=0.6)
            means = {x: [y for other, y in shown if other == x] for x, _ in shown}
            best = min if findings.metric in LESS_IS_BETTER else max
            if 2 * len(means) <= len(shown) or len(names) == 1:  # else each value was drawn about once
                axis.plot(list(means), [best(some) for some in means.values()], "-", color=NEW, label="best")
            axis.axhline(whole[0].figures[findings.metric].mean, color=BEFORE, linestyle="--", label="in force")
            axis.set(xlabel=name, ylabel=findings.metric)
            axis.legend(frameon=False)

    return _draw(draw, len(names))


def _draw_pareto(findings: Findings, whole: Sequence[Trial]) -> str:
    def place(one: Trial) -> tuple[float, float]:
        return one.figures["tokens"].mean, one.figures[findings.metric].mean

    better = min if findings.metric in LESS_IS_BETTER else max
    front: list[tuple[float, float]] = []
    for tokens, value in sorted(map(place, whole)):
        if not front or (value != front[-1][1] and better(value, front[-1][1]) == value):
            front.append((tokens, value))

    def draw(axes: Sequence["Axes"]) -> None:
        (axis,) = axes
        axis.plot(*zip(*map(place, whole), strict=True), "o", color=QUIET, markersize=4, alpha=0.6)
        axis.step(*zip(*front, strict=True), where="post", color=NEW, label="no other is better in both")
        axis.plot(*place(whole[0]), "s", color=BEFORE, label="in force")
        for one in (one for one in whole if findings.adopted and one.params == findings.adopted):
            axis.plot(*place(one), "*", color=NEW, markersize=12, label="best on validation")
        axis.set(xlabel=METRICS["tokens"], ylabel=findings.metric)
        axis.legend(frameon=False)

    return _draw(draw, width=6.0, height=3.6)


def _draw_gains(findings: Findings) -> str:
    rows: list[tuple[str, Interval, str]] = [
        (f"validation: {format_params(one.trial.params)}", one.gain, QUIET) for one in findings.validated
    ]
    if findings.tested:
        rows.append((f"test: {format_params(findings.tested.trial.params)}", findings.tested.gain, NEW))
    rows.reverse()

    def draw(axes: Sequence["Axes"]) -> None:
        (axis,) = axes
        for at, (_, one, colour) in enumerate(rows):
            axis.plot([one.low, one.high], [at, at], "-", color=colour)
            axis.plot([one.mean], [at], "o", color=colour)
        axis.axvline(0, color=BEFORE, linestyle="--")
        axis.set_yticks(range(len(rows)), [label if len(label) <= LABEL else f"{label[:LABEL]}…" for label, *_ in rows])
        axis.set(xlabel=f"gain in {findings.metric} (more is better)", ylim=(-0.6, len(rows) - 0.4))

    return _draw(draw, width=8.0, height=1.0 + 0.32 * len(rows))


def _draw_calibration(findings: Findings) -> str:
    def draw(axes: Sequence["Axes"]) -> None:
        (axis,) = axes
        axis.plot([0, 1], [0, 1], "--", color=QUIET, label="as told")
        said, true = [one[0] for one in findings.calibration], [one[1] for one in findings.calibration]
        axis.plot(said, true, "o-", color=NEW)
        axis.set(xlabel="relevance", ylabel="share of evidence shown", xlim=(0, 1.02), ylim=(0, 1.02))
        axis.legend(frameon=False)

    return _draw(draw)
