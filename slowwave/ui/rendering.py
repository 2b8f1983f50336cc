"""How the pages show values: days, speakers, projects, and texts with their code spans."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from slowwave.recall.views.voices import AGENT
from slowwave.schemas.places import name_last_part
from slowwave.schemas.tables import TRUST
from slowwave.schemas.vocabulary import Role, is_own
from slowwave.text.cells import LISTED_CHARS, shorten_text
from slowwave.text.fence import escape_control, find_code
from slowwave.text.times.days import format_day, format_minute
from slowwave.text.words import count_noun, count_rows
from slowwave.ui.page import Data, date_text, read_said_at

Piece = tuple[str, object]
"""A part of a text, and what it is marked with: True, the id of a claim, or nothing."""


def make_environment(
    name_project: Callable[[str], str | None] = name_last_part,
) -> Environment:
    """Return the template environment: everything is escaped, and invisible characters are shown by their codes.

    name_project: returns the shown name of a project.
    """
    made = Environment(
        loader=PackageLoader("slowwave.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            escape_control(value)
            if isinstance(value, str) and type(value) is str
            else value
        ),
    )
    made.filters["day"] = show_day
    made.filters["dated"] = date_text
    made.filters["listed"] = lambda text: shorten_text(text, LISTED_CHARS)
    made.filters["voice"] = show_voice
    made.filters["project"] = partial(link_project, name_project)
    made.filters["project_name"] = name_project
    made.filters["noun"] = count_noun
    made.globals["count_rows"] = count_rows
    made.filters["lag"] = format_lag
    made.filters["moment"] = lambda at: format_minute(at) if at else "undated"
    made.filters["code"] = show_code
    made.filters["pieces"] = show_pieces
    made.filters["label"] = drop_backticks
    made.globals["url"] = make_url
    return made


def show_day(at: datetime | str | Data | None) -> str:
    """Return the local day of a moment or a row (`read_said_at`) as every page has it."""
    said_at = read_said_at(at if isinstance(at, dict) else {"at": at})
    return format_day(said_at) if said_at else "undated"


def format_lag(hours: float) -> str:
    """Return a lag in hours, or in days from two days on."""
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.0f} days"


def show_voice(row: Data) -> str:
    """Return the speaker of some words: the name, if it is known, and "person" or "agent".

    The source of the words follows, unless they are the person's or the person's own agent's.
    """
    name = row.get("speaker") or ""
    kind = row.get("by") or ""
    kind = AGENT if kind == "model" else kind
    is_plain = name in ("", kind, Role.USER, Role.ASSISTANT) or not kind
    voice = kind or name if is_plain else f"{name} ({kind})"
    trust = None if is_own(row.get(TRUST)) else str(row[TRUST])
    return ", ".join(filter(None, (voice, trust)))


def link_project(
    name_project: Callable[[str], str | None],
    name: str | None,
) -> Markup | str:
    """Return a project's name as in answers, with a link to its page; the path on hover."""
    if not name:
        return ""
    shown = escape_control(name_project(name) or name)
    return Markup('<a href="/project/{}" title="{}">{}</a>').format(
        quote(name), escape_control(name), shown
    )


def make_url(path: str, **params: object) -> str:
    """Return an address with the parameters that are set."""
    words = urlencode(
        {name: value for name, value in params.items() if value not in (None, "", 0)}
    )
    return f"{path}?{words}" if words else path


def show_code(text: object) -> Markup:
    """Return a text with its code spans as `<code>`, without their backticks; markup stays as it is."""
    if isinstance(text, Markup):
        return text
    text = "" if text is None else str(text)
    return Markup("").join(piece for piece, _ in show_pieces([(text, None)]))


def show_pieces(pieces: Iterable[Piece]) -> list[tuple[Markup, object]]:
    """Return the pieces of a text with its code spans as `<code>`; a span may begin in one piece and end in another."""
    pieces = list(pieces)
    text = "".join(piece for piece, _ in pieces)
    spans = list(_find_spans(text))
    shown = list[tuple[Markup, object]]()
    start = 0
    for piece, mark in pieces:
        end = start + len(piece)
        parts = _split_at_spans(text=text, start=start, end=end, spans=spans)
        shown.append((Markup("").join(parts), mark))
        start = end
    return shown


def _find_spans(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each code span begins, where its text begins and ends, and where it ends.

    The first line of a fenced block, which has the name of its language, is not shown.
    """
    for start, end in find_code(text):
        inner = start
        while text[inner] == "`":
            inner += 1
        ticks = inner - start
        if ticks > 2 and (line := text.find("\n", inner, end)) >= 0:
            inner = line + 1
        yield start, inner, max(inner, end - ticks), end


def _split_at_spans(
    text: str,
    start: int,
    end: int,
    spans: Iterable[tuple[int, int, int, int]],
) -> Iterator[Markup]:
    """Yield the part of a text from `start` to `end`, its code spans as `<code>`.

    If a part of a span goes on in another piece, its class says on which side.
    """
    at = start
    for first, inner, last, after in spans:
        if after <= at or first >= end:
            continue
        yield _escape(text[at : max(at, first)])
        code = text[max(at, inner) : min(end, last)]
        if code:
            cut = _name_cut(before=at > inner, after=end < last)
            yield Markup("<code{}>{}</code>").format(cut, _escape(code))
        at = min(end, after)
    yield _escape(text[at:end])


def _name_cut(*, before: bool, after: bool) -> Markup:
    """Return the attribute of a part of a code span that goes on before or after it; empty if it does not."""
    names = [name for name, cut in (("on-left", before), ("on-right", after)) if cut]
    return Markup(' class="{}"').format(" ".join(names)) if names else Markup("")


def _escape(text: str) -> Markup:
    return escape(escape_control(text))


def drop_backticks(text: str) -> str:
    """Return a text without the backticks of its code spans, for a title or a label, which has no markup."""
    return Markup(show_code(text)).striptags() if "`" in text else text
