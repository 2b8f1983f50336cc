"""What is read of pairs in scripts without spaces, of which the encoder reads nothing."""

import numpy as np
import pytest

from slowwave.tasks.changes.letters import (
    LetterReader,
    is_unspaced,
    list_new_runs,
    load_letter_reader,
    read_letters,
)


def test_only_letters_that_the_later_has_anew_are_read() -> None:
    assert list_new_runs("用Jest", "改用Go") == {"改", "改用", "用g", "g", "go", "o"}
    assert is_unspaced("日志保留七天", "ログは7日間残す")
    assert not is_unspaced("日志保留七天", "Logs are kept for 7 days")


@pytest.mark.parametrize(
    ("earlier", "changed", "same"),
    [
        ("发票在每月五号寄出", "发票改成每月八号寄出了", "好的,发票在每月五号寄出。"),
        (
            "請求書は毎月5日に送る",
            "請求書は毎月8日に送ることになった",
            "承知しました。請求書は毎月5日に送ります。",
        ),
    ],
)
def test_the_reader_that_ships_tells_a_new_value_from_an_assent(
    earlier: str, changed: str, same: str
) -> None:
    reader = load_letter_reader()
    new, kept = (reader.read(earlier, later) for later in (changed, same))
    # in log-odds
    assert new["reads replaced"] > new["reads affirmed"] + 0.5
    assert kept["reads affirmed"] > kept["reads replaced"] + 0.5


def test_pairs_that_are_read_already_and_pairs_with_spaces_stay_as_they_are() -> None:
    reader = LetterReader(
        ["affirmed", "replaced"],
        ["改"],
        np.array([[0.0, 2.0]], np.float32),
        np.array([0.5, -0.5], np.float32),
    )
    again = LetterReader.from_bytes(reader.to_bytes())
    texts = [("用甲", "改用乙"), ("用甲", "改用乙"), ("uses A", "uses B")]
    found = read_letters([{"reads affirmed": 1.0}, {}, {}], texts, again)
    assert found == [
        {"reads affirmed": 1.0},
        {"reads affirmed": 0.5, "reads replaced": 1.5},
        {},
    ]


def test_signs_say_nothing_and_scripts_that_it_did_not_learn_are_not_read() -> None:
    reader = load_letter_reader()
    bare = reader.read("日志保留七天", "日志保留十四天")
    for later in ("日志保留十四天。", "日志保留十四天！", "“日志保留十四天”。"):
        assert reader.read("日志保留七天。", later) == bare
    assert {"CJK", "HIRAGANA", "KATAKANA"} <= reader.scripts
    for name in ("THAI", "LAO", "KHMER", "MYANMAR"):
        assert name not in reader.scripts
    assert not reader.read("เก็บบันทึกไว้ 7 วัน", "เก็บบันทึกไว้ 14 วัน")
