from datetime import UTC, datetime, timedelta
from statistics import mean

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.nights.observe import observe_claims, score_claims
from bench.recall.talks import build_message_rows, load_conversations
from slowwave.context.projects.standing import SURE
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import CODING, GATES, MESSAGES, PERSONAL
from slowwave.tasks.observe.coding import extract_file_paths
from slowwave.tasks.observe.observe import SCHEMA, compute_observe_key, observe
from slowwave.text.sentences import split_sentences
from tests.claim_rows import message

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
HUMAN, MODEL = ("user", "human"), ("assistant", "model")


def said(*turns, session="s1", source="generic", tools=()):
    called = [{"type": "tool_call", "name": name} for name in tools]
    rows = [
        message(
            i,
            text,
            session,
            role=role,
            origin=origin,
            speaker=speaker,
            workspace="boat",
            source=source,
        )
        | {
            "blocks": [{"type": "text", "text": text}, *called],
            "ts": START + timedelta(minutes=i),
        }
        for i, (role, origin, speaker, text) in enumerate(turns)
    ]
    return pa.Table.from_pylist(rows, schema=MESSAGES.schema)


def claims_of(table, **changes):
    return observe(table, ObserveSettings(**changes)).claims.to_pylist()


CHAT = said(
    (*HUMAN, "Ada", "Hey Linnea! Good to see you. How have you been?"),
    (
        *HUMAN,
        "Linnea",
        "Hi Ada! My sister Greta moved to Bergen last week. What about you?",
    ),
    (
        *HUMAN,
        "Ada",
        "Wow, that's cool! Next month I'm going to sail to Shetland with two friends.",
    ),
)
CODE = said(
    (
        *HUMAN,
        None,
        "Ground rule: all times are UTC in storage.py. Can you add the importer?",
    ),
    (*MODEL, None, "Let me look at the file first."),
    (*MODEL, None, "I'll use Redis for the cache, since it expires keys by itself."),
    (
        *HUMAN,
        None,
        "No, we decided to use SQLite instead, it runs on the Pi without a server.",
    ),
    (
        *MODEL,
        None,
        "Turns out the import failed because `parse_time` returned naive datetimes.",
    ),
    source="pi",
)


def test_a_dated_sentence_becomes_an_event_without_its_greeting():
    claim = next(c for c in claims_of(CHAT) if c["speaker"] == "Linnea")
    assert claim["summary"] == "My sister Greta moved to Bergen last week"
    assert (claim["category"], claim["pack"], claim["message_ids"]) == (
        "event",
        "personal",
        ["s1-1"],
    )
    assert claim["observed_at"] == START + timedelta(minutes=1)


def test_what_is_to_come_is_a_plan_and_courtesies_are_no_claims():
    by_ada = [
        (c["summary"], c["category"]) for c in claims_of(CHAT) if c["speaker"] == "Ada"
    ]
    assert by_ada == [
        ("Next month I'm going to sail to Shetland with two friends", "plan")
    ]


@pytest.mark.parametrize(
    "quoted",
    [
        'Torvald wrote: "I moved to Bergen last week with my two dogs."',
        'Jonas schrieb: "Ich bin letzte Woche mit zwei Hunden nach Bergen gezogen."',
    ],
)
def test_in_everyday_talk_with_an_agent_what_another_one_wrote_is_no_claim(
    quoted: str,
) -> None:
    table = said(
        (*MODEL, None, "How was the weekend?"),
        (*HUMAN, None, f"{quoted} The physio looked at the knee, it is healing."),
    )
    claims = [c["summary"] for c in claims_of(table)]
    assert claims == ["The physio looked at the knee, it is healing"]


def test_a_coding_session_gives_its_rule_decision_and_gotcha():
    assert {
        (c["category"], c["message_ids"][0]) for c in claims_of(CODE, max_share=1.0)
    } == {
        ("convention", "s1-0"),
        ("decision", "s1-3"),
        ("gotcha", "s1-4"),
    }


def test_a_rejected_proposal_is_no_decision():
    assert not any("Redis" in c["quote"] for c in claims_of(CODE, max_share=1.0))
    accepted = said(
        *(
            (r["role"], r["origin"], None, r["text"])
            for r in CODE.slice(0, 3).to_pylist()
        ),
        source="pi",
    )
    assert any("Redis" in c["quote"] for c in claims_of(accepted, max_share=1.0))


def test_a_person_may_speak_of_themselves_while_coding():
    table = said(
        (*HUMAN, None, "My name is Ada and I work from Galway."),
        (*MODEL, None, "Noted."),
        source="codex",
    )
    assert [(c["pack"], c["summary"]) for c in claims_of(table)] == [
        ("personal", "My name is Ada and I work from Galway")
    ]


def test_tool_output_and_synthetic_turns_never_become_claims():
    words = "We decided to use Postgres 17 instead of SQLite because of the locks."
    table = said(
        ("tool", "tool", None, words),
        ("user", "synthetic", None, words),
        (*HUMAN, None, "ok"),
        (*MODEL, None, "ok"),
    )
    assert observe(table, ObserveSettings()).claims.num_rows == 0


def test_a_session_of_one_message_is_skipped_with_the_reason():
    result = observe(
        said((*HUMAN, None, "My sister lives in Bergen.")), ObserveSettings()
    )
    assert result.skipped == {"s1": "1 spoken messages, 2 needed"}
    assert result.claims.schema == SCHEMA


@pytest.mark.parametrize(
    "text",
    [
        "What writes the Parquet files of Volta?",
        "Read what Volta polls and report back.",
    ],
)
def test_to_ask_what_a_thing_does_states_nothing(text):
    work = " ".join(
        f"Step {n} of the long plan goes through part {n} of the tree, file by file."
        for n in range(40)
    )
    turns = ((*MODEL, None, work), (*HUMAN, None, text), (*MODEL, None, "Sure."))
    kept = claims_of(said(*turns, source="codex"), max_share=1.0)
    assert not any("Volta" in claim["summary"] for claim in kept)


KINDS = [  # category, whether an agent says it, the sentence
    (
        "decision",
        False,
        "We decided to use PostgreSQL instead of MongoDB because we need transactions.",
    ),
    (
        "decision",
        False,
        "Let's go with Zustand for state management, Redux is too much boilerplate.",
    ),
    (
        "decision",
        True,
        "Decided: access tokens live 15 minutes and refresh tokens sit in an httpOnly cookie.",
    ),
    ("decision", False, "We'll use pnpm workspaces for the monorepo instead of Lerna."),
    (
        "convention",
        False,
        "Convention: all exports are named exports, never default exports.",
    ),
    ("convention", False, "Every API route must validate its input with zod."),
    (
        "convention",
        False,
        "Never write raw SQL in controllers, queries go into the repository layer.",
    ),
    (
        "",
        True,
        "All services follow the same pattern: a factory creates the client and injects the logger.",
    ),
    ("", False, "Each feature has its own folder with a component, a hook and a test."),
    (
        "gotcha",
        False,
        "Careful, the staging API returns 200 with an error body when the token has expired.",
    ),
    (
        "gotcha",
        True,
        "Turns out the tests failed because Jest caches the transformed files when babel.config.js changes.",
    ),
    (
        "gotcha",
        True,
        "The root cause is that `useEffect` runs twice in strict mode, so the socket is opened two times.",
    ),
    (
        "gotcha",
        True,
        "The build only works with Node 20, since `sharp` has no binaries for 22.",
    ),
    (
        "gotcha",
        True,
        "Gotcha: `prisma generate` must run after every schema change, or the types are stale.",
    ),
    (
        "gotcha",
        True,
        "The memory leak came from event listeners that were never removed when the component unmounts.",
    ),
    (
        "gotcha",
        True,
        "`docker compose down` does not remove volumes, so the old database survives a reset.",
    ),
    (
        "gotcha",
        True,
        "Webpack's dev server ignores changes in node_modules, which is why the linked package did not reload.",
    ),
]


def test_a_category_is_given_where_it_is_justified_and_none_to_the_rest():
    right = 0
    for category, agent, text in KINDS:
        asked, read = (
            (*HUMAN, None, "Please fix src/app.ts."),
            (*MODEL, None, "I read src/app.ts."),
        )
        turns = (asked, (*MODEL, None, text)) if agent else (read, (*HUMAN, None, text))
        right += [category] == [
            c["category"]
            for c in claims_of(said(*turns, source="pi"))
            if c["quote"] in text
        ]
    assert right >= 13
    plain = "The API is deployed on Render, the database on Neon."
    told = claims_of(
        said((*HUMAN, None, "Look at src/app.ts."), (*MODEL, None, plain)),
        pack="coding",
    )
    assert [c["category"] for c in told if c["quote"] in plain] == [""]


def test_the_pack_can_be_forced():
    assert {c["category"] for c in claims_of(CHAT, pack="personal")} <= set(PERSONAL)
    assert {c["category"] for c in claims_of(CODE, pack="coding")} <= {*CODING, ""}


def test_names_in_the_text_stand_in_for_missing_speakers():
    table = said(
        (*HUMAN, None, "Ada: I sold the old boat last Tuesday."),
        (*MODEL, None, "Theo: What did you get for it?"),
    )
    assert [(c["speaker"], c["summary"]) for c in claims_of(table)] == [
        ("Ada", "I sold the old boat last Tuesday")
    ]


def test_sessions_do_not_see_each_other():
    other = said(
        *((r["role"], r["origin"], r["speaker"], r["text"]) for r in CHAT.to_pylist()),
        session="s2",
    )
    both = claims_of(pa.concat_tables([other, CHAT]))
    assert both == claims_of(CHAT) + claims_of(other)


def test_the_key_changes_with_the_settings():
    assert compute_observe_key(ObserveSettings()) == compute_observe_key(
        ObserveSettings()
    )
    assert compute_observe_key(ObserveSettings()) != compute_observe_key(
        ObserveSettings(max_share=0.2)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See app/main.py and pyproject.toml.", ["app/main.py", "pyproject.toml"]),
        (
            "It is in `~/.pi/themes/dark.json`, not at https://example.org/a.json",
            ["~/.pi/themes/dark.json"],
        ),
        ("Python 3.11 and e.g. nothing else.", []),
    ],
)
def test_files_named(text, expected):
    assert list(extract_file_paths(text)) == expected


def test_no_sentence_ends_within_code() -> None:
    odd = (
        "It calls `strptime(row['time'], '%d.%m.%Y %H:%M')` and stores the naive result"
    )
    assert [
        s.text
        for s in split_sentences(f"{odd}. Port Aven is fine. It`s late. So it is.")
    ] == [
        odd,
        "Port Aven is fine",
        "It`s late",
        "So it is",
    ]


def test_sentences_keep_code_words_whole_and_leave_code_blocks_out():
    text = "Done! Use file.py with Python 3.11.\n\n## Next\n- run `a.b()`\n```py\nx = 1. Not this\n```\n| a | b |"
    assert [(s.text, s.item) for s in split_sentences(text)][1:] == [
        ("Use file.py with Python 3.11", False),
        ("run `a.b()`", True),
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(max_size=300), min_size=2, max_size=6),
    st.sampled_from(["pi", "generic"]),
)
def test_every_quote_is_verbatim_whatever_is_said(texts, source):
    table = said(*((*HUMAN, "Ada", t) for t in texts), source=source)
    for claim in claims_of(table):
        at = table["message_id"].to_pylist().index(claim["message_ids"][0])
        assert claim["quote"] in texts[at]
        assert claim["summary"]
        assert 0 <= claim["confidence"] <= 1


def test_locomo_evidence_survives(bench_data):
    results = []
    for one in load_conversations(bench_data / "locomo" / "locomo_open.json"):
        claims, _ = observe_claims(one, 0.27)
        results.append(score_claims(one, claims))
        assert results[-1]["evidence"] >= 0.6
        quotes = {t.id: t.text for t in one.turns}
        rows = observe(build_message_rows(one), ObserveSettings()).claims.to_pylist()
        assert all(r["quote"] in quotes[r["message_ids"][0]] for r in rows)
    # One conversation has more to tell than another.
    assert mean(r["words"] for r in results) <= 0.277
    assert mean(r["evidence"] for r in results) >= 0.72


FACTS = """Marie Curie worked in the field of chemistry in Paris. Lloyds has its headquarters in the city of London.
The official language of Suriname is Dutch. Goncalo Ramos plays the position of forward for Benfica.
The author of Kristin Lavransdatter is Sigrid Undset. Ferrari was founded by Enzo Ferrari in Modena.
Mount Kenya rises to 5199 metres above Nanyuki. The capital of Bhutan is Thimphu since 1961.
Erasmus taught Greek at Queens College in Cambridge. Yoruba is spoken in Ibadan and Abeokuta.
The chairperson of Unilever is Nils Andersen. Basketball was created in Springfield by James Naismith.
Umberto Eco was born in Alessandria in Piedmont. Tove Jansson drew the Moomins on Klovharu.
The Vasa sank off Stockholm on 10 August 1628. Ryanair has its largest base at Stansted.
Ludwig Boltzmann died in Duino near Trieste. The currency of Georgia is the lari.
Thelonious Monk played the piano at Minton's. Hokkaido was called Ezo until 1869."""


def test_a_session_that_is_all_facts_keeps_most_of_its_words():
    table = said(*((*HUMAN, "Ada", line) for line in FACTS.splitlines()))
    kept = sum(
        len(f"{claim['summary']} {claim['detail'] or ''}".split())
        for claim in claims_of(table)
    )
    assert kept >= 0.8 * len(FACTS.split()) > 100


def test_lines_of_a_pasted_log_are_no_claims() -> None:
    lines = "\n".join(
        f"2026-03-01T09:00:0{n}.12Z The importer always writes readings as UTC."
        for n in range(5)
    )
    rule = "We always store readings as UTC."
    assert [
        row["summary"]
        for row in claims_of(
            said((*HUMAN, None, lines), (*HUMAN, None, rule), source="codex")
        )
    ] == [rule.rstrip(".")]


def test_a_long_report_decides_nothing() -> None:
    decided = "We decided to keep readings in SQLite."
    report = f"{decided} " + " ".join(
        f"Step {n} copied table t{n} to the new file." for n in range(40)
    )
    short, long = (
        claims_of(said((*HUMAN, None, text), (*MODEL, None, "OK."), source="codex"))
        for text in (decided, report)
    )
    assert {row["category"] for row in short} == {"decision"}
    assert "decision" not in {row["category"] for row in long}


def test_a_rule_for_good_is_surer_than_an_order_of_the_moment_and_no_gate_is_judged() -> (
    None
):
    rules = "Never mock the database, always run the tests against the real one. We deploy from the main branch only."
    orders = "Now run the tests against the real database again. Let me see what the main branch does with it."
    told, said_now = (
        claims_of(said((*HUMAN, None, text), (*MODEL, None, "OK."), source="codex"))
        for text in (rules, orders)
    )
    assert len(told) == 2
    assert min(row["confidence"] for row in told) >= 0.5
    assert all(row["confidence"] < 0.5 for row in said_now)
    assert {row[gate] for row in (*told, *claims_of(CHAT)) for gate in GATES} == {None}


def test_what_leans_on_the_sentence_before_it_is_not_told_unasked():
    sure = []
    for subject in ("It", "The importer"):
        said_by_them = (
            (*MODEL, None, "I read it."),
            (*HUMAN, None, f"Please fix a.py. {subject} must never log tokens."),
        )
        sure += [
            claim["confidence"] for claim in claims_of(said(*said_by_them, source="pi"))
        ]
    assert sure[0] < 0.01 < SURE <= sure[1]
