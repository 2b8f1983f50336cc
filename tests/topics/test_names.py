"""Names of topics in other languages than English."""

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
