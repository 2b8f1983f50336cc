"""Times as transcripts write them: ISO 8601 text, or seconds since 1970 or thousandths of them."""

from datetime import UTC, datetime

_YEAR_3000 = 32_503_680_000


def parse_time(value: object) -> datetime | None:
    """Aware UTC time of an ISO string or a number since the epoch; None where it is neither."""
    if isinstance(value, str):
        return _from_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    return None


def _from_iso(value: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        # A time without a zone is taken as UTC: every tool we read writes UTC.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _from_number(value: float) -> datetime | None:
    if not 0 < value < _YEAR_3000 * 1_000_000_000:
        return None  # 0 stands for "unknown"
    while value > _YEAR_3000:
        value /= 1000
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
