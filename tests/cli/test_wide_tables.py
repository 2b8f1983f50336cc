"""A table that is too wide or too high for the screen is printed row by row, whole."""

import pytest

from slowwave.cli.common import OUT, print_table

WHY = "the harbour office moved the opening of the sluice to six, since the tide turns earlier there"


def show(
    rows: list[dict[str, object]], width: int, monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setattr(OUT, "_width", width)
    with OUT.capture() as shown:
        print_table(rows)
    return shown.get()


@pytest.mark.parametrize(
    ("cells", "width", "is_table"),
    [
        ({"why": WHY}, 120, True),
        ({"why": WHY}, 60, False),  # its rows are high
        ({"file": "harbour/sluice/opening_hours_of_the_winter.toml"}, 60, False),
        ({"by": "clerk"}, 60, True),
    ],
)
def test_what_fits_is_a_table(
    cells: dict[str, object],
    width: int,
    is_table: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"id": "1bfb46af3830", "likely": 0.9, "rule": "perhaps", **cells}
    shown = show([row] * 3, width, monkeypatch)
    assert ("┏" in shown) is is_table
    assert all(len(line) <= width for line in shown.splitlines())
    words = [str(cell).split() for cell in cells.values()]
    assert all(word in shown for own in words for word in own)


def test_a_row_has_its_short_values_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"id": "1bfb46af3830", "likely": 0.9, "why": WHY, "undone": None}
    first, *_ = show([row] * 3, 60, monkeypatch).splitlines()
    assert first == "id 1bfb46af3830 · likely 0.9"
