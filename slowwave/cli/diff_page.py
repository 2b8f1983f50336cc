"""A comparison of two releases as one HTML page, with nothing loaded from elsewhere: to look at, or to send."""

from collections.abc import Sequence
from html import escape

from slowwave.recall.views.compare import KINDS, Difference

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
nav a { margin-right: 1rem; }
article { border-left: 4px solid #8888; padding: .3rem .8rem; margin: .6rem 0; overflow-wrap: anywhere; }
.added, .returned { border-color: #2a8a4a; } .gone, .withdrawn { border-color: #c0392b; }
.changed, .superseded, .merged { border-color: #c68a12; }
p { margin: .15rem 0; } code, small { opacity: .7; } blockquote { margin: .2rem 0 .2rem 1rem; font-style: italic; }
"""


def render_page(old: str, new: str, found: Sequence[Difference]) -> str:
    """Return the page: counts, then each kind's claims with what took their place and their quotes."""
    by_kind = {kind: [one for one in found if one.kind == kind] for kind in KINDS}
    told = {kind: some for kind, some in by_kind.items() if some}
    links = "".join(f'<a href="#{kind}">{len(some):,} {kind}</a>' for kind, some in told.items())
    parts = "".join(
        f'<h2 id="{kind}">{len(some):,} {kind}</h2>{"".join(map(_render_claim, some))}' for kind, some in told.items()
    )
    title = escape(f"{old} to {new}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src 'unsafe-inline'\"><style>{STYLE}</style></head>"
        f"<body><h1>{title}</h1><nav>{links or 'The same claims.'}</nav>{parts}</body></html>\n"
    )


def _render_claim(one: Difference) -> str:
    where = f" <small>{escape(one.workspace)}</small>" if one.workspace else ""
    lines = [f"<p><code>{escape(one.claim_id[:12])}</code> {escape(one.summary)}{where}</p>"]
    if one.by:
        now = escape(one.by_summary or "not in this release")
        lines.append(f"<p>now <code>{escape(one.by[:12])}</code> {now}</p>")
    elif one.reason:
        lines.append(f"<p><small>{escape(one.reason)}</small></p>")
    if one.quote not in one.summary:
        lines.append(f"<blockquote>{escape(one.quote)}</blockquote>")
    return f'<article class="{one.kind}">{"".join(lines)}</article>'
