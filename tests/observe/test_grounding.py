"""Whether a claim says what was said: numbers, dates, names, negations, details, repeats, and other scripts."""

import json
import os
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.recall.talks import Conversation, load_conversations
from slowwave.engines.llm.cache import reuse_completion
from slowwave.engines.llm.protocol import Completion
from slowwave.schemas.settings import ExtractSettings, ObserveSettings
from slowwave.schemas.tables import MESSAGES
from slowwave.tasks.llm.claims import (
    NEAR,
    SUPPORT,
    ParsedClaims,
    drop_repeated_claims,
    read_answer,
)
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.llm.library import Library
from slowwave.tasks.llm.quotes import compute_support
from slowwave.tasks.observe.by_model import plan_requests
from tests.claim_rows import message
from tests.llm_scripts import claim

SAID = [
    (
        "Ada",
        "I set the API port to 8080, the proxy forwards there, with 5 retries and 1,500 ms between them.",
    ),
    (
        "Ben",
        "Good. Yesterday I met Nadia in Porto, she has moved there with her two kids.",
    ),
    (
        "Ada",
        "Lovely! We are not going to use Redis for the queue, it loses writes on restart.",
    ),
    (
        "Ben",
        "Then PostgreSQL 17.2 it is. I started here five years ago, and the vet is on 4 May.",
    ),
    ("Ada", "Fine. Let us meet at half past nine, or 9:30 if you like it in figures."),
    (
        "Ben",
        "The class AgentSession drops events in subscribe(), and the README doesn't cover why.",
    ),
    ("Ada", "WP35 and WP36 are done, I finish WP37 tonight."),
]
MONDAY = datetime(2026, 11, 2, 10, 0, tzinfo=UTC)


def read(
    claims: list[dict[str, Any]], said: list[tuple[str, str]] = SAID
) -> ParsedClaims:
    rows = [
        message(n, text, speaker=who, ts=MONDAY, workspace="tidepool")
        for n, (who, text) in enumerate(said)
    ]
    table = pa.Table.from_pylist(rows, schema=MESSAGES.schema)
    settings = ObserveSettings(pack="personal"), ExtractSettings()
    plan = plan_requests(
        table,
        *settings,
        Library(),
        lambda texts: [len(t) // 4 + 1 for t in texts],
        32_768,
    )
    request = plan.parts[0].request
    answer = reuse_completion(
        request,
        Completion(
            request.id, json.dumps({"claims": claims}, ensure_ascii=False), model="tiny"
        ),
    )
    return read_answer(plan.parts[0], answer, plan.rows["s"])


TRUE = {
    "Ada set the API port to 8080.": 1,
    "Ada set the API port to 8,080 with five retries.": 1,
    "The API waits 1.5 seconds, 1500 ms, between retries.": 1,
    "Nadia has moved to Porto with her 2 kids, Ben said.": 2,
    "Ben met Nadia in Porto on 1 November 2026.": 2,
    "Ben met Nadia in Porto on Sunday.": 2,
    "Redis is not used for the queue because it loses writes.": 3,
    "In the project tidepool Ada doesn't want Redis for the queue.": 3,
    "The queue is kept in PostgreSQL 17 as of November 2026.": 4,
    "Ben started there in 2021.": 4,
    "Ben started there in 2021, and goes to the vet.": 4,
    "Ben takes the dog to the vet on 4 May 2027.": 4,
    "Ada and Ben meet at 9:30.": 5,
    "Events are dropped in AgentSession.subscribe of the class.": 6,
    "Why AgentSession drops events in subscribe is not known.": 6,
    "WP35-37 are Ada's, WP35 and WP36 are done.": 7,
    "Parked: Ada finishes WP37 tonight.": 7,
    "Ben leaves Porto out, and Ada finishes WP37 tonight on port 8080.": 7,
}
FALSE = {
    "Ada set the API port to 9999.": (1, "the number 9999"),
    "Ada set the API port to 8080 with seven retries.": (1, "the number seven"),
    "It is not true that Ada set the API port to 8080.": (1, "it denies"),
    "Ada never set the API port to 8080.": (1, "it denies"),
    "Zelda set the API port to 8080 after Chernobyl.": (1, "Zelda never"),
    "Ada set the API port to 8080 after Chernobyl.": (1, "Chernobyl never"),
    "Ada set the API port to 8080 in proxy.toml.": (1, "proxy.toml never"),
    "Nadia's move to Porto with her kids was on 14 July 2026.": (
        2,
        "the date 2026-07-14",
    ),
    "Ben met Nadia in Porto on Thursday.": (2, "Thursday does"),
    "Nadia moved to Porto with her kids in June.": (2, "June does"),
    "The queue is kept in PostgreSQL 16.": (4, "the number 16"),
    "Events are dropped in AgentSession.publish of the class.": (
        6,
        "agentsession.publish never",
    ),
    "WP35-39 are done, and WP37 is finished tonight.": (7, "the number 39"),
    "Ada finishes WP37 tonight on port 9090.": (7, "the number 9090"),
    "Parked Zelda: WP37 is finished tonight.": (7, "Zelda never"),
    "Ben started there in 1999.": (4, "the number 1999"),
}


@pytest.mark.parametrize("summary", TRUE)
def test_a_claim_may_say_it_in_other_words_figures_and_dates(summary: str) -> None:
    got = read([claim(TRUE[summary], SAID[TRUE[summary] - 1][1][:60], summary=summary)])
    assert [c["summary"] for c in got.claims] == [summary]
    assert got.rejected == []


@pytest.mark.parametrize("summary", FALSE)
def test_a_claim_of_what_nobody_said_is_rejected_however_true_its_quote(
    summary: str,
) -> None:
    number, reason = FALSE[summary]
    got = read([claim(number, SAID[number - 1][1][:60], summary=summary)])
    assert got.claims == []
    assert [r.row_id for r in got.rejected] == ["s/0#0"]
    assert got.rejected[0].reason.startswith(
        f"its summary is not what was said: {reason}"
    )


def test_a_detail_nobody_gave_is_left_off_and_quarantined_by_itself() -> None:
    true, quote = "Ada set the API port to 8080.", SAID[0][1][:40]
    details = [
        "The admin password is hunter2 and Mallory owns the account.",
        "after 7 retries",
        "Mallory",
        "The proxy.",
    ]
    for detail in details:
        got = read([claim(1, quote, summary=true, detail=detail)])
        kept = detail == "The proxy."
        assert [c["detail"] for c in got.claims] == [detail if kept else None]
        assert [(r.row_id, r.excerpt) for r in got.rejected] == (
            [] if kept else [("s/0#0/detail", detail)]
        )


def test_claims_that_differ_by_a_number_are_no_repeats() -> None:
    one, other = (
        "The retries of the API port are 5 in all.",
        "The retries of the API port are 8080 in all.",
    )
    whole = drop_repeated_claims(
        [("s/0", read([claim(1, SAID[0][1], summary=s) for s in (one, other)]))]
    )
    assert [c["summary"] for c in whole.claims] == [one, other]


SHORT = {
    "The release 17.2 is chosen.": True,
    "The retry count is five.": True,
    "The account is locked.": False,
    "The queue loses writes.": False,
}


@pytest.mark.parametrize("summary", SHORT)
def test_a_short_claim_needs_one_word_or_number_of_what_was_said(summary: str) -> None:
    number = 4 if "17" in summary else 1
    got = read(
        [claim(number, SAID[number - 1][1][:30], summary=summary)],
        SAID[:2] if number == 1 else SAID,
    )
    assert bool(got.claims) is SHORT[summary]


CHINESE = [
    ("小明", "我们决定把缓存从内存移到磁盘，因为服务器的内存不够用了。"),
    ("小红", "好的，那么端口就用五千号。"),
]


def test_a_claim_in_a_script_without_blanks_is_compared_by_pairs_of_characters() -> (
    None
):
    moon, cache = (
        "月亮是由绿色奶酪做成的，而且没有人住在那里。",
        "缓存移到了磁盘，因为服务器内存不够。",
    )
    got = read([claim(1, CHINESE[0][1], summary=s) for s in (moon, cache)], CHINESE)
    assert [c["summary"] for c in got.claims] == [cache]
    assert got.claims[0]["specific"] is True
    assert [r.reason for r in got.rejected] == [
        "its summary speaks of something else than the messages it cites"
    ]
    # Can't be told.
    assert compute_support(moon, " ".join(text for _, text in SAID)) == 1.0


def test_a_claim_in_another_script_than_the_transcripts_is_kept_but_not_specific() -> (
    None
):
    (row,) = read([claim(1, SAID[0][1], summary="接口的端口是8080。")]).claims
    assert row["specific"] is False
    assert row["gate_reasons"] == [
        "specific: in another script than the transcript, so its words can't be looked up there"
    ]
    assert read([claim(1, SAID[0][1], summary="接口的端口是9999。")]).claims == []


def test_nouns_of_german_are_no_names() -> None:
    said = (
        "Wir haben die Warteschlange nach PostgreSQL verlegt, weil der alte Speicher beim Neustart des Rechners "
        * 2
    )
    ground = GroundingContext(said, f"Ada: {said}")
    assert (
        explain_unfounded(
            "Ada hat beschlossen, dass die Ablage der Aufgaben nach PostgreSQL kommt.",
            ground,
        )
        is None
    )
    assert (
        explain_unfounded("Ada hat 77 Aufgaben nach PostgreSQL verlegt.", ground)
        is not None
    )


def facts(conversation: Conversation) -> list[tuple[str, GroundingContext, str]]:
    """LoCoMo's facts with what they stand on, and the same with who said it."""
    turns, found = {t.id: t for t in conversation.turns}, []
    for fact in conversation.facts:
        cited = [turns[i] for i in fact.turns if i in turns]
        if not cited:
            continue
        mine = [t for t in conversation.turns if t.session == cited[0].session]
        at = [mine.index(t) for t in cited if t in mine]
        near = [
            t for n, t in enumerate(mine) if any(abs(n - place) <= NEAR for place in at)
        ]
        chunk = " ".join(f"{t.speaker}: {t.text}" for t in mine)
        ground = GroundingContext(
            "\n".join(t.text for t in near), chunk, tuple(t.ts for t in cited)
        )
        found.append(
            (fact.text, ground, " ".join(f"{t.speaker} {t.text}" for t in near))
        )
    return found


def is_refused(fact: str, ground: GroundingContext, near: str) -> bool:
    return compute_support(fact, near) < SUPPORT or bool(
        explain_unfounded(fact, ground)
    )


@pytest.mark.skipif(
    "SLOWWAVE_BENCH_DATA" not in os.environ,
    reason="SLOWWAVE_BENCH_DATA is not set: no LoCoMo here",
)
def test_good_facts_stay_and_those_made_false_go() -> None:
    """Of 619 facts 3% at most are refused; of those with another number, speaker or "not" 9 of 10 are."""
    all_of = load_conversations(
        Path(os.environ["SLOWWAVE_BENCH_DATA"]) / "locomo" / "locomo_open.json"
    )
    speakers = [sorted({t.speaker for t in c.turns}) for c in all_of]
    good, made_false, rng = [], [], random.Random(0)
    for n, conversation in enumerate(all_of):
        others = speakers[(n + 1) % len(all_of)]
        for fact, ground, near in facts(conversation):
            good.append(is_refused(fact, ground, near))
            wrong = {
                f"It is not true that {fact}",
                re.sub(r"\b(is|was|has|will)\b", r"\1 not", fact, count=1),
            }
            wrong |= {fact.replace(name, rng.choice(others)) for name in speakers[n]}
            wrong |= {re.sub(r"\b\d+\b", "83", fact)}
            made_false += [is_refused(w, ground, near) for w in sorted(wrong - {fact})]
    assert len(good) > 600
    assert sum(good) <= 0.03 * len(good)
    assert sum(made_false) >= 0.9 * len(made_false)


ANSWERS = [
    ("Ada", "Shall I keep the readings in a second database, or sample faster?"),
    ("Ben", "No, one file is plenty. The lid of a box is 13.2 now."),
    ("Ada", "Freeze the integral of the controller, and read the probe every 2 s?"),
    ("Ben", "Do both. Nachts fährt niemand, wir nehmen den Zug."),
]


@pytest.mark.parametrize(
    ("number", "quote", "summary"),
    [
        (2, "No, one file is plenty", "The readings go to no second database."),
        (2, "The lid of a box is 13.2 now", "The lid of a box is 13.2 kg."),
        (4, "Do both", "The integral of the controller is frozen."),
        (4, "wir nehmen den Zug", "Wir nehmen den Zug."),
    ],
)
def test_a_short_answer_bears_out_what_it_says_of_the_question(
    number: int, quote: str, summary: str
) -> None:
    got = read([claim(number, quote, summary=summary)], ANSWERS)
    assert [c["summary"] for c in got.claims] == [summary]


def test_a_short_quote_from_the_middle_proves_nothing() -> None:
    got = read([claim(4, "den Zug", summary="They take the train.")], ANSWERS)
    assert got.claims == []


SHOP = [
    ("Ada", "The whole front should be in React, says Ben."),
    ("Ben", "Maybe in 2030. We stay with the templates and a bit of htmx."),
    ("Ada", "The keys come on friday the 27th at 16:00, so do not book before that."),
    ("Ben", "Rules for the code: no unsafe, no async, one thread."),
    ("Ada", "If more than one stop fits, print at most 8 of the stops."),
]


@pytest.mark.parametrize(
    ("number", "quote", "summary"),
    [
        (3, "the 27th at 16:00", "The keys come on 27 November 2026 at 16:00."),
        (4, "no async", "The code has no async."),
        (4, "one thread", "The code runs on one thread."),
        (5, "print at most 8", "It prints at most 8 of the stops that fit."),
    ],
)
def test_an_item_a_day_of_the_month_and_a_bus_stop_are_borne_out(
    number: int, quote: str, summary: str
) -> None:
    got = read([claim(number, quote, summary=summary)], SHOP)
    assert [c["summary"] for c in got.claims] == [summary]
    assert got.rejected == []


@pytest.mark.parametrize(
    "summary",
    ["The keys come on 26 November 2026.", "The keys come on 27 January 2027."],
)
def test_another_day_or_a_day_of_a_far_month_is_not(summary: str) -> None:
    got = read([claim(3, "the 27th at 16:00", summary=summary)], SHOP)
    assert got.claims == []
    (refused,) = got.rejected
    assert refused.reason.startswith("its summary is not what was said: the date")


@pytest.mark.parametrize(
    ("quote", "summary", "kept"),
    [
        (
            "We stay with the templates",
            "The front stays with the templates and htmx, not React.",
            "The front stays with the templates and htmx.",
        ),
        (
            "We stay with the templates",
            "The front stays with the templates; Zelda wrote them.",
            "The front stays with the templates.",
        ),
        (
            "We stay with the templates",
            "They stay with templates, whose colours the brewery of the village chose.",
            "They stay with templates.",
        ),
        (
            "We stay with the templates",
            "The front stays with the templates (and htmx) since Zelda wrote them.",
            "The front stays with the templates.",
        ),
    ],
)
def test_the_end_of_a_summary_that_nothing_bears_out_is_left_out(
    quote: str, summary: str, kept: str
) -> None:
    got = read([claim(2, quote, summary=summary)], SHOP)
    assert [c["summary"] for c in got.claims] == [kept]
    assert [(r.row_id, r.excerpt) for r in got.rejected] == [("s/0#0/end", summary)]


def test_a_beginning_that_its_quote_does_not_bear_out_is_refused_too() -> None:
    summary = "The front has colours, which the brewery of the village chose."
    got = read([claim(2, "Maybe in 2030", summary=summary)], SHOP)
    assert got.claims == []
    assert [r.row_id for r in got.rejected] == ["s/0#0"]
