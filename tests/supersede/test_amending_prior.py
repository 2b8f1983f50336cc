"""A store's own share of changes: what it does to probabilities, and its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.tasks.supersede.model import ASSUMED, FURTHEST, adjust_probabilities

PROBABILITIES = st.lists(st.floats(0, 1), max_size=300)


def drawn(pairs: int, share: float, fitted: float, seed: int) -> tuple[list[float], np.ndarray]:
    """Probabilities a calibrated model of `fitted` gives to pairs of which `share` are changes, and which are."""
    random = np.random.default_rng(seed)
    changes = random.random(pairs) < share
    sign = random.normal(np.where(changes, 1.5, -1.5), 1.0)  # its log-likelihood ratio is 3 × sign
    return list(1 / (1 + np.exp(-3 * sign) * (1 - fitted) / fitted)), changes


@pytest.mark.parametrize("share", [0.04, 0.1, 0.29])
def test_the_share_of_changes_comes_out(share: float) -> None:
    given_out, changes = drawn(20_000, share, 0.1, 0)
    assert np.mean(adjust_probabilities(given_out, 0.1)) == pytest.approx(np.mean(changes), abs=0.005)


@pytest.mark.parametrize("share", [0.04, 0.29])
def test_probabilities_are_calibrated_in_a_store_of_another_share(share: float) -> None:
    given_out, changes = drawn(20_000, share, 0.1, 1)
    before, after = np.array(given_out), np.array(adjust_probabilities(given_out, 0.1))
    assert np.mean((after - changes) ** 2) < np.mean((before - changes) ** 2)
    likely = (after > 0.4) & (after < 0.6)
    assert np.mean(changes[likely]) == pytest.approx(0.5, abs=0.15)


def test_a_small_store_tells_little() -> None:
    few, many = (
        adjust_probabilities([0.01] * 5 + [0.5], 0.1)[-1],
        adjust_probabilities([0.01] * ASSUMED * 50 + [0.5], 0.1)[-1],
    )
    assert many < few < 0.5
    assert few > 0.45


def test_a_share_stays_within_bounds() -> None:
    lowest = adjust_probabilities([0.0] * 1_000_000 + [0.9], 0.1)[-1]
    share = 0.1 / FURTHEST
    odds = 9 * (share / (1 - share)) / (0.1 / 0.9)
    assert lowest == pytest.approx(odds / (1 + odds))
    assert all(0 <= p <= 1 for p in adjust_probabilities([1.0] * 5_000, 0.2))


@given(PROBABILITIES, st.floats(0.01, 0.9))
def test_order_stays_and_all_are_probabilities(probabilities: list[float], fitted: float) -> None:
    found = adjust_probabilities(probabilities, fitted)
    assert len(found) == len(probabilities)
    assert all(0 <= p <= 1 for p in found)
    by_before = [p for _, p in sorted(zip(probabilities, found, strict=True))]
    assert by_before == sorted(by_before)


@pytest.mark.parametrize("wrong", [float("nan"), -0.1, 1.1, float("inf")])
def test_what_is_no_probability_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        adjust_probabilities([0.5, wrong], 0.1)


def test_without_pairs_there_is_nothing_to_adjust() -> None:
    assert adjust_probabilities([], 0.1) == []


@pytest.mark.parametrize("fitted", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_of_none_or_all_is_refused(fitted: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        adjust_probabilities([0.5], fitted)
