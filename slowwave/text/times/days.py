"""The local day and time of a message: by the UTC offset of its speaker, else of this machine."""

from datetime import datetime, timedelta, timezone
from typing import overload

MINUTES_OF_DAY = 24 * 60


@overload
def localise(at: datetime, utc_offset: int | None) -> datetime: ...
@overload
def localise(at: None, utc_offset: int | None) -> None: ...
@overload
def localise(at: datetime | None, utc_offset: int | None) -> datetime | None: ...
def localise(at: datetime | None, utc_offset: int | None) -> datetime | None:
    """Return a moment at the speaker's UTC offset (in minutes); unchanged if that is unknown, 0 or a day or more."""
    if at is None or not utc_offset or abs(utc_offset) >= MINUTES_OF_DAY:
        return at
    return at.astimezone(timezone(timedelta(minutes=utc_offset)))


def get_utc_offset(at: datetime | None) -> int | None:
    """Return the minutes that a moment's clock is ahead of UTC.

    Return None for UTC itself, since programs write it in any place, and for a moment without a zone.
    """
    offset = at.utcoffset() if at is not None else None
    return int(offset.total_seconds()) // 60 or None if offset is not None else None


def convert_to_local(at: datetime) -> datetime:
    """Return a moment at its own UTC offset, the speaker's (`localise`); a moment in UTC in this machine's zone."""
    return at if get_utc_offset(at) else at.astimezone()


def format_date(at: datetime) -> str:
    """Return a moment's local day, as lists have it: 2026-02-02."""
    return f"{convert_to_local(at):%Y-%m-%d}"


def format_day(at: datetime) -> str:
    """Return a moment's local day, as blocks have it: 2 Feb 2026."""
    local = convert_to_local(at)
    return f"{local.day} {local:%b %Y}"


def format_clock(at: datetime) -> str:
    """Return a moment's local time of day: 09:30."""
    return f"{convert_to_local(at):%H:%M}"


def format_minute(at: datetime) -> str:
    """Return a moment's local day and time: 2 Feb 2026, 09:30."""
    return f"{format_day(at)}, {format_clock(at)}"
