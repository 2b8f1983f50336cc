"""The figures of a memory, as a terminal shows them."""

import pytest

from slowwave.flows.metrics import format_figure


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0012, "0.0012"),
        (7, "7"),
        (9.96, "10"),
        (99.4, "99"),
        (99.7, "100"),
        (1234.5, "1,234"),
    ],
)
def test_a_figure_near_a_hundred_has_no_exponent(value: float, shown: str) -> None:
    assert format_figure(value) == shown
