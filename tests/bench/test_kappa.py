"""Cohen's kappa of two readings."""

from pathlib import Path

import pytest

from bench.fit.kappa import compute_kappa, measure
from slowwave.schemas.errors import UsageError


def test_kappa_is_agreement_beyond_chance() -> None:
    # Of ten, eight alike; by chance five: (.8 - .5) / (1 - .5).
    pairs = [(True, True)] * 4 + [(False, False)] * 4 + [(True, False), (False, True)]
    assert compute_kappa(pairs) == pytest.approx(0.6)
    assert compute_kappa([(True, True)]) is None


def test_a_reading_of_what_was_never_labelled_is_refused(tmp_path: Path) -> None:
    second = tmp_path / "second.tsv"
    second.write_text(
        "writer\tsession\tturn\tstatement\treader\tkind\tstanding\n"
        "nobody\t0\t0\t0\ta\tfact\ttrue\n",
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match="nobody"):
        measure(second)
