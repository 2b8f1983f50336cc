"""Sentences end where a token ends: never within a path, a hidden file, a dotted name, a URL or a number."""

import pytest

from slowwave.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Always run ./gradlew test before you commit.",
            ["Always run ./gradlew test before you commit"],
        ),
        (
            "Copy ./. and ../. over first. Go on.",
            ["Copy ./. and ../. over first", "Go on"],
        ),
        ("Run it. ./gradlew test is slow.", ["Run it", "./gradlew test is slow"]),
        (
            "Copy ../shared/config.yml to ./config.yml first. Then run src/../setup.sh.",
            [
                "Copy ../shared/config.yml to ./config.yml first",
                "Then run src/../setup.sh",
            ],
        ),
        (
            "Go up two folders with cd ../.. before you look. Never use cd ../..",
            ["Go up two folders with cd ../.. before you look", "Never use cd ../.."],
        ),
        ("We target .NET 8 on the server.", ["We target .NET 8 on the server"]),
        (
            "We moved from ASP.NET to .NET 8. It is faster.",
            ["We moved from ASP.NET to .NET 8", "It is faster"],
        ),
        (
            "Put secrets in .env and never commit it.",
            ["Put secrets in .env and never commit it"],
        ),
        (
            "CI is defined in .github/workflows/ci.yml. It runs on push.",
            ["CI is defined in .github/workflows/ci.yml", "It runs on push"],
        ),
        (
            "Use a wrapper, e.g. ./mvnw or ./gradlew.",
            ["Use a wrapper, e.g. ./mvnw or ./gradlew"],
        ),
        (
            'Open (./Notes.md) and "../Plan.md" first!',
            ['Open (./Notes.md) and "../Plan.md" first'],
        ),
        ("Source ~/.bashrc. Then restart.", ["Source ~/.bashrc", "Then restart"]),
        (
            "Call System.IO.File, not React.Component.",
            ["Call System.IO.File, not React.Component"],
        ),
        (
            "See https://x.org/A.B/c?D=1&e=F.G. The rest is in v1.2.3. Upgrade to 2.0.",
            [
                "See https://x.org/A.B/c?D=1&e=F.G",
                "The rest is in v1.2.3",
                "Upgrade to 2.0",
            ],
        ),
        (
            "I wondered... It works! Does it? Yes…",
            ["I wondered", "It works", "Does it?", "Yes"],
        ),
        (
            "Run git add . && git commit. Then push.",
            ["Run git add . && git commit", "Then push"],
        ),
        (
            "The plan is in @tasks.md . Please read it.",
            ["The plan is in @tasks.md", "Please read it"],
        ),
        ("**Which port?** The old one.", ["**Which port?", "** The old one"]),
        ("これは文です。次の文です。", ["これは文です。", "次の文です。"]),
    ],
)
def test_a_sentence_ends_where_a_token_does(text: str, sentences: list[str]) -> None:
    assert [one.text for one in split_sentences(text)] == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "on 5.7. is the maintenance window, then it goes back to 1",
            ["on 5.7. is the maintenance window, then it goes back to 1"],
        ),
        (
            "am 5. Juli treffen wir uns im Büro. danach nicht mehr",
            ["am 5. Juli treffen wir uns im Büro", "danach nicht mehr"],
        ),
        # an ordinal goes on before a month alone: these numbers end their sentences
        (
            "das Limit ist 50. mehr geht nicht",
            ["das Limit ist 50", "mehr geht nicht"],
        ),
        ("It is version 1.6. We keep it.", ["It is version 1.6", "We keep it"]),
        ("the limit is 5. next we do it", ["the limit is 5", "next we do it"]),
    ],
)
def test_a_sentence_goes_on_behind_the_dot_of_a_day(
    text: str, sentences: list[str]
) -> None:
    assert [sentence.text for sentence in split_sentences(text)] == sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        # 600 letters of 退款期限是十天 and 数据库: cut before a word of the dictionaries
        ("退款期限是十天数据库" * 60, [499, 101]),
        # behind the last sign, though other signs stand before it
        ("退款期限是十天，数据库，" * 60, [500, 220]),
        # behind the last space; without spaces, after 500 letters
        ("retry later " * 50, [497, 101]),
        ("x" * 1_100, [500, 500, 100]),
    ],
)
def test_a_page_without_a_full_stop_is_cut_where_it_pauses(
    text: str, pieces: list[int]
) -> None:
    sentences = split_sentences(text)
    assert [len(sentence.text) for sentence in sentences] == pieces
    assert all(text[one.start : one.end] == one.text for one in sentences)
