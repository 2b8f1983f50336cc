"""Labels of sentences and of claims find what they were given to."""

import csv
from collections import Counter

import pytest

from bench.harness import SAMPLES
from bench.nights.worth import (
    LABELS,
    match_sentences,
    measure,
    read_labels,
    read_shown_messages,
)


def test_claims_that_were_read_are_rated() -> None:
    with (LABELS.parent / "claims_read.tsv").open(encoding="utf-8") as stream:
        read = list(csv.DictReader(stream, delimiter="\t"))
    assert len({row["hash"] for row in read}) == len(read) == 645
    assert Counter(row["rating"] for row in read).keys() == {
        "useful",
        "context",
        "noise",
        "wrong",
    }


def test_every_label_of_the_samples_finds_its_sentence() -> None:
    labels = read_labels(LABELS)
    assert len(labels) == 3_924
    assert len(match_sentences(read_shown_messages([SAMPLES]), labels)) == 370
    both = measure([SAMPLES]).rows[0]
    assert (both["group"], both["labelled"]) == ("all", 370)
    assert both["keep"] + both["context"] + both["noise"] == pytest.approx(1)
