"""Names of topics in other languages than English, and purposes of topics without a name."""

import polars as pl

from slowwave.tasks.topics.names import name_topics

SAID = {
    "bills": (
        "Die Rechnung der Werft ist bezahlt, und wir heben sie auf.",
        "Rechnungen an Emden gehen per Post raus.",  # too few stop words to tell German
        "Wir haben die Rechnungen der Mühle geprüft.",
    ),
    "garden": (
        "Der Garten hinter dem Haus bekommt Tomaten.",
        "Im Garten wächst eine Tomate neben den Gurken.",
        "Ich gieße die Tomaten im Garten abends.",
    ),
}


def test_forms_of_a_german_word_are_one_word() -> None:
    claims = pl.DataFrame(
        [
            {
                "topic_id": topic,
                "summary": summary,
                "category": "fact",
                "workspace": "/w",
                "keywords": [],
            }
            for topic, summaries in SAID.items()
            for summary in summaries
        ],
        schema_overrides={"keywords": pl.List(pl.String)},
    )
    names = {topic: name for topic, (name, _) in name_topics(claims).items()}
    # English stems keep "rechnung" and "rechnungen" apart, as "tomate" and "tomaten".
    assert names == {"bills": "rechnung", "garden": "garten, tomate"}


def test_a_purpose_tells_by_its_words_what_belongs_in_a_topic_without_a_name() -> None:
    said = [
        ("slots", "A booking blocks the slots beside it", "decision"),
        ("slots", "Each booking takes one slot", "convention"),
        ("rent", "Die Miete der Werkstatt steigt im Mai", "decision"),
        ("same", "The invoices go by post", "decision"),
        ("other", "By post the invoices go", "decision"),
    ]
    claims = pl.DataFrame(
        [
            {
                "topic_id": topic,
                "summary": summary,
                "category": category,
                "workspace": "/w/tide",
                "keywords": [],
            }
            for topic, summary, category in said
        ],
        schema_overrides={"keywords": pl.List(pl.String)},
    )
    assert {topic: told for topic, (_, told) in name_topics(claims).items()} == {
        # Both claims have the first two: "slot" and "slots" are one word.
        "slots": "Conventions and decisions in tide about booking, slots, blocks",
        "rent": "Decisions in tide about miete, werkstatt, steigt",
        "same": "Decisions in tide about invoices, post",
        "other": "Decisions in tide about post, invoices",
    }
