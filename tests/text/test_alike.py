"""Lines that are the same but for their figures."""

import pytest

from slowwave.text.foreign import (
    find_foreign_parts,
    find_repeated_parts,
    hide_figures,
    keep_typed,
)

RULE = "We never deploy on Fridays."


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("  10:00:01 worker-3 job 17 is done", "0 0 job 0 is done"),
        ("GET /api/items/17 took=3ms", "GET 0 took=0"),
        ("限制是500兆", "限制是0兆"),
        ("no figure here: none", "no figure here: none"),
        ("", ""),
    ],
)
def test_a_word_with_a_digit_is_a_figure(line: str, form: str) -> None:
    assert hide_figures(line) == form


def test_a_long_word_without_a_digit_costs_little() -> None:
    long = "a" * 2_000_000  # each of its letters as a start would take hours
    assert hide_figures(long) == long


def test_only_a_part_without_a_new_line_repeats_others() -> None:
    texts = ["job 1\nsaved 3", "job 2", "saved 9\njob 7", "job 8\ndisk full", "job 4"]
    owners = ["m", "m", "m", "m", "other"]
    assert find_repeated_parts(texts, owners) == {1: [0], 2: [0, 0]}


@pytest.mark.parametrize(
    "line", ["INFO job {} is done, with status ok", "npm warn old{}: use new{} or none"]
)
def test_lines_that_a_program_repeats_are_not_typed(line: str) -> None:
    paste = "\n".join(line.format(at, at) for at in range(60))
    after = "From now on every release gets a tag."
    text = f"{RULE}\n{paste}\n{after}"
    assert keep_typed(text).split("\n")[0] == RULE
    assert keep_typed(text).endswith(after)
    assert not {"job", "npm"} & set(keep_typed(text).split())


def test_a_list_that_a_person_types_is_kept() -> None:
    listed = "\n".join(f"- table {at} has {at % 4 + 2} seats" for at in range(30))
    assert find_foreign_parts(f"{RULE}\n{listed}") == []
