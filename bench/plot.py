"""Curves of a bench as SVG, beside its table: one small picture for each figure, all with the same axis below."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, GAP = 720, 110, 90, 34
"""Of one picture in pixels; where it begins, for the figures beside it; and what lies between two."""
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#555}path{fill:none;stroke:#2a6f97;stroke-width:1.5}line{stroke:#ccc}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}path{stroke:#7cc4f0}line{stroke:#444}}"
)


def draw_curves(path: Path, below: str, at: Sequence[float], curves: Mapping[str, Sequence[float]]) -> None:
    """Write an SVG of curves, one above the other.

    Args:
        path: the file.
        below: what the axis below tells.
        at: where each point lies on it, in order; two at least.
        curves: by name and unit a figure for each of these points.
    """
    across, parts = (at[-1] - at[0]) or 1, list[str]()
    for number, (name, figures) in enumerate(curves.items()):
        top, most = number * (HEIGHT + GAP) + GAP, max(figures) or 1
        points = (
            f"{LEFT + (x - at[0]) / across * WIDTH:.1f} {top + HEIGHT * (1 - y / most):.1f}"
            for x, y in zip(at, figures, strict=True)
        )
        parts += [
            f'<text x="{LEFT}" y="{top - 8}">{escape(name)}</text>',
            f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{most:,.4g}</text>',
            f'<text x="{LEFT - 8}" y="{top + HEIGHT}" text-anchor="end">0</text>',
            f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{top + HEIGHT}" y2="{top + HEIGHT}"/>',
            f'<path d="M{" L".join(points)}"/>',
        ]
    end = len(curves) * (HEIGHT + GAP) + GAP
    ends = (f'<text x="{LEFT}" y="{end - 14}">{at[0]:,g}</text>', f'<text x="{LEFT + WIDTH}" y="{end - 14}" '
            f'text-anchor="end">{escape(below)} {at[-1]:,g}</text>')  # fmt: skip
    size = f'viewBox="0 0 {LEFT + WIDTH + 20} {end}" width="{LEFT + WIDTH + 20}" height="{end}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><style>{STYLE}</style>'
    path.write_text("\n".join([head, *parts, *ends, "</svg>", ""]), encoding="utf-8")
