"""Sentences drawn for labelling are the same on every run and even in speakers and projects; labels find them again."""

import csv
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from bench.nights.draw_sentences import cut_sentences, draw_balanced, read_shown_messages, share_out
from bench.nights.worth import LABELS, draw_claims, match_sentences, measure_worth, read_labels
from tests.bench_inputs import ROOT

SAMPLES = ROOT / "data" / "samples"


@pytest.fixture(scope="module")
def messages() -> pa.Table:
    return read_shown_messages([SAMPLES])


def test_the_same_sentences_are_drawn_again_and_others_with_another_seed(messages: pa.Table) -> None:
    first, again, other = (draw_balanced(cut_sentences(messages, seed), 40) for seed in (0, 0, 1))
    assert first == again
    assert {one["hash"] for one in first} != {one["hash"] for one in other}


def test_a_draw_is_even_in_speakers_and_projects_and_repeats_no_wording(messages: pa.Table) -> None:
    drawn = draw_balanced(cut_sentences(messages), 56)
    assert len({one["text"].lower() for one in drawn}) == 56
    assert Counter(one["speaker"] for one in drawn) == {"person": 28, "model": 28}
    persons = Counter(one["project"] for one in drawn if one["speaker"] == "person")
    models = Counter(one["project"] for one in drawn if one["speaker"] == "model")
    assert set(models.values()) == {4}  # 28 of 7 projects
    assert set(persons.values()) == {3, 4}  # 28 of 8: the two friends have no model among them
    assert len(persons) == 8


def test_what_a_small_project_lacks_the_larger_ones_give() -> None:
    assert share_out(Counter(a=1, b=9, c=9), 10) == {"a": 1, "b": 4, "c": 5}
    assert share_out(Counter(a=1, b=2), 10) == {"a": 1, "b": 2}


def test_a_long_message_gives_no_second_sentence_before_every_other_gave_one(tmp_path: Path) -> None:
    said = [
        " ".join(f"Step {n} of the build took {n} seconds." for n in range(60)),
        "We deploy on Fridays only.",
        "Ask Eva.",
    ]
    rows = [{"session_id": "s", "message_id": str(n), "role": "user", "content": text} for n, text in enumerate(said)]
    talk = tmp_path / "talk.jsonl"
    talk.write_text("\n".join(map(json.dumps, rows)))
    drawn = draw_balanced(cut_sentences(read_shown_messages([talk])), 3)
    assert [one["text"] for one in drawn].count("We deploy on Fridays only") == 1
    assert sum(one["text"].startswith("Step") for one in drawn) == 2  # "Ask Eva." is too short to be a claim


def test_claims_to_be_read_are_drawn_evenly_and_those_that_were_read_are_rated(messages: pa.Table) -> None:
    drawn = draw_claims(messages, 40)
    assert drawn == draw_claims(messages, 40)
    assert set(Counter(one["project"] for one in drawn).values()) == {5}  # of 8 projects
    with (LABELS.parent / "claims_read.tsv").open(encoding="utf-8") as stream:
        read = list(csv.DictReader(stream, delimiter="\t"))
    assert len({row["hash"] for row in read}) == len(read) == 341
    assert {row["rating"] for row in read} == {"useful", "context", "noise", "wrong"}


def test_every_label_of_the_samples_finds_its_sentence(messages: pa.Table) -> None:
    labels = read_labels(LABELS)
    found = match_sentences(messages, labels)
    assert len(labels) == 3_924
    assert len(found) == 370
    both = measure_worth(found)[0]
    assert both["keep"] + both["context"] + both["noise"] == pytest.approx(1)
