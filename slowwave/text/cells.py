"""Format values for tables on the screen."""

from datetime import datetime
from types import NoneType

from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_minute


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
