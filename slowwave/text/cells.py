"""Format values for tables and lists on the screen."""

from datetime import datetime
from types import NoneType

from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_minute

LISTED_CHARS = 300
"""Most characters of a claim in a list. Its own page, and `--json`, have all of it."""


def shorten_text(text: str, chars: int) -> str:
    """Return a text, cut with an ellipsis if it is longer than so many characters.

    It is cut behind a word, or within a run of letters if no space is in the second half, as in Chinese.
    """
    if len(text) <= chars:
        return text
    space = text.rfind(" ", chars // 2, chars + 1)
    return f"{text[: chars if space < 0 else space].rstrip()} …"


def format_cell(value: object) -> str:
    """Return a value on one line for a table: a number with separators, None as ""."""
    if isinstance(value, datetime):
        return format_minute(value)
    forms = {
        int: "{:,}",
        float: "{:,.1f}",
        NoneType: "",
    }
    return escape_line(forms.get(type(value), "{}").format(value))
