"""Extraction by a language model, as pure functions: chunks, prompts, quotes, gates, consolidation."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.engines.llm.cache import reuse_completion
from slowwave.engines.llm.protocol import (
    AnswerModel,
    Completion,
    EngineUnavailable,
    Request,
    build_json_schema,
)
from slowwave.engines.llm.scripted import make_minimal_answer
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_claim_id
from slowwave.schemas.settings import ExtractSettings, ObserveSettings
from slowwave.schemas.tables import MESSAGES
from slowwave.tasks.llm.chunks import build_turns, split_into_chunks
from slowwave.tasks.llm.claims import (
    ParsedClaims,
    build_claims_table,
    drop_repeated_claims,
    read_answer,
)
from slowwave.tasks.llm.library import Library, limit_answer
from slowwave.tasks.llm.quotes import compute_support, find_anchor
from slowwave.tasks.observe import by_model as consolidate
from slowwave.tasks.observe.by_model import (
    ExtractionPlan,
    build_claims_answer,
    plan_requests,
)
from slowwave.tasks.summarize.by_model import (
    GistAnswer,
    SummaryAnswer,
    build_summary_answer,
    parse_summary,
)
from slowwave.tasks.topics.by_model import BatchAnswer, Board, Topic
from tests.claim_rows import message
from tests.llm_scripts import claim

SAID = [
    "I moved to Porto in March, and I love the river.",
    "We picked SQLite for the queue, because Redis lost writes on restart.",
    "Undo that: we go with PostgreSQL for the queue after all.",
    "The retry limit stands in config/queue.toml, it is 5.",
]
PERSONAL = ObserveSettings(pack="personal")
CODING = ObserveSettings(pack="coding")


def count(texts: Any) -> list[int]:
    return [len(text.split()) for text in texts]


def rows(said: list[str], session: str = "s", **more: Any) -> list[dict[str, Any]]:
    at, who = datetime(2026, 11, 2, 10, tzinfo=UTC), {"speaker": "Ada"} | more
    return [
        message(n, text, session, ts=at.replace(minute=n % 60), **who)
        for n, text in enumerate(said)
    ]


def table(said: list[str], **more: Any) -> pa.Table:
    return pa.Table.from_pylist(rows(said, **more), schema=MESSAGES.schema)


def plan(
    said: list[str], observe: ObserveSettings = CODING, **extract: Any
) -> ExtractionPlan:
    return plan_requests(
        table(said), observe, ExtractSettings(**extract), Library(), count, 32_768
    )


def answered(
    made: ExtractionPlan, claims: list[dict[str, Any]], part: int = 0
) -> ParsedClaims:
    request = made.parts[part].request
    got = reuse_completion(
        request, Completion(request.id, json.dumps({"claims": claims}), model="tiny")
    )
    assert got.ok, got.reason
    return read_answer(made.parts[part], got, made.rows["s"])


def test_a_claim_is_grounded_in_the_words_as_they_were_said() -> None:
    made = plan(SAID)
    quote = "We picked SQLite for the queue, because REDIS lost  writes"
    more = {"files": ["config/queue.toml", "made/up.py"], "detail": "Redis lost writes"}
    read = answered(
        made,
        [
            claim(
                2,
                quote,
                category="decision",
                summary="The queue is kept in SQLite.",
                **more,
            )
        ],
    )
    assert read.rejected == []
    (row,) = build_claims_table(read.claims).to_pylist()
    assert row == {
        "claim_id": compute_claim_id("s", "s-1", row["quote"]),
        "session_id": "s", "workspace": None, "summary": "The queue is kept in SQLite.", "detail": "Redis lost writes",
        "category": "decision", "pack": "coding", "files": ["config/queue.toml"],
        "quote": "We picked SQLite for the queue, because Redis lost writes", "message_ids": ["s-1"], "speaker": "Ada",
        "confidence": pytest.approx(0.9), "observed_at": datetime(2026, 11, 2, 10, 1, tzinfo=UTC), "utc_offset": None,
        "observer": "tiny",
        "reusable": True, "non_trivial": True, "specific": True, "verified": True, "gate_reasons": [],
    }  # fmt: skip


WRONG = {
    "a quote that is made up": (
        claim(1, "the moon is made of green cheese"),
        "does not stand",
    ),
    "a quote of two words": (claim(2, "the queue"), "does not stand"),
    "no message of the chunk": (
        claim(44, "the moon is made of cheese"),
        "cites no message",
    ),
    "nothing said": (claim(1, SAID[0], summary=" "), "says nothing"),
    "a real quote from a message far from the one cited, altered": (
        claim(1, "We chose SQLite as queue"),
        "does not",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_claim_without_its_quote_is_rejected_with_the_reason(name: str) -> None:
    answer, reason = WRONG[name]
    read = answered(plan(SAID, PERSONAL), [answer])
    assert read.claims == []
    assert reason in read.rejected[0].reason
    assert read.rejected[0].row_id == "s/0#0"


def test_a_verbatim_quote_under_a_wrong_number_is_cited_where_it_stands() -> None:
    read = answered(plan(SAID, PERSONAL), [claim(1, SAID[3]), claim(99, SAID[0])])
    assert [(c["message_ids"][0], c["quote"]) for c in read.claims] == [
        ("s-3", SAID[3]),
        ("s-0", SAID[0]),
    ]


def test_a_summary_of_something_else_is_rejected_however_true_its_quote() -> None:
    made = plan(SAID, PERSONAL)
    # As in the prompt's own example.
    other = "Nadia and her brother opened a bakery in Lyon."
    read = answered(
        made,
        [
            claim(1, SAID[0], summary=other),
            claim(1, SAID[0], summary="Ada moved to Porto in March."),
        ],
    )
    assert [c["summary"] for c in read.claims] == ["Ada moved to Porto in March."]
    assert [r.reason for r in read.rejected] == [
        "its summary speaks of something else than the messages it cites"
    ]
    assert compute_support(other, " ".join(SAID)) < 0.2
    assert compute_support("短い要約です", " ".join(SAID)) == 1.0  # too little to tell


def test_a_summary_of_what_is_said_elsewhere_is_rejected_with_the_quote_it_stands_on() -> (
    None
):
    chat = [*SAID, "Good night.", "Good morning.", "Is it cold?", "A little."]
    read = answered(
        plan(chat, PERSONAL),
        [claim(8, "A little.", summary="We picked SQLite for the queue over Redis.")],
    )
    assert [r.reason for r in read.rejected] == [
        "its summary speaks of something else than the messages it cites"
    ]


def test_a_summary_that_was_stopped_ends_with_a_sentence() -> None:
    told = "Ada moved to Porto in March. She likes the river there. Then she bought a red bi"
    most = build_json_schema(build_summary_answer(8, titled=False), lengths=True)[
        "properties"
    ]["text"]["maxLength"]
    assert len(told) == most == 80
    stopped = parse_summary(Completion("r", value=SummaryAnswer(text=told)), 8)
    assert stopped
    assert stopped.text == "Ada moved to Porto in March. She likes the river there."
    whole = parse_summary(Completion("r", value=SummaryAnswer(text=told[:-1])), 8)
    assert whole
    assert whole.text.startswith(
        "Ada moved to Porto in March. She likes the river there. Then"
    )


def test_a_text_that_is_too_long_costs_no_claim_whole_or_cut() -> None:
    made = plan(SAID, PERSONAL)
    long = claim(
        1,
        SAID[0],
        summary="Ada moved to Porto in March.",
        detail="Porto in March. " * 40,
    )
    assert [
        c["summary"]
        for c in answered(made, [long, claim(2, SAID[1], summary=SAID[1])]).claims
    ] == [
        "Ada moved to Porto in March.",
        SAID[1],
    ]
    text = json.dumps({"claims": [long]})[:-2] + ', {"messages": [2], "quo'
    cut = Completion(made.requests[0].id, text, error="cut", model="tiny")
    (kept,) = read_answer(made.parts[0], cut, made.rows["s"]).claims
    # 300 characters end in "in Mar".
    assert kept["detail"] == ("Porto in March. " * 19)[:296]


def test_the_claims_before_a_cut_are_read() -> None:
    made = plan(SAID, PERSONAL)
    text = json.dumps(
        {"claims": [claim(1, SAID[0]), claim(4, SAID[3]), claim(2, SAID[1])]}
    )
    for at, whole in (
        (len(text) - 2, 3),
        (text.rindex("lasts"), 2),
        (text.index("quote"), 0),
        (5, 0),
        (0, 0),
    ):
        cut = Completion(made.requests[0].id, text[:at], error="cut", model="tiny")
        assert len(read_answer(made.parts[0], cut, made.rows["s"]).claims) == whole


def test_a_quote_with_the_messages_label_before_it_is_found() -> None:
    (turn, *_) = plan(SAID, PERSONAL).parts[0].chunk.turns
    last = claim(4, turn.shown.replace(SAID[0], SAID[3])[4:], summary=SAID[3])
    read = answered(plan(SAID, PERSONAL), [claim(1, turn.shown, summary=SAID[0]), last])
    assert [c["quote"] for c in read.claims] == [SAID[0], SAID[3]]


def test_the_gates_are_columns_with_reasons_and_no_filters() -> None:
    read = answered(
        plan(SAID, PERSONAL), [claim(1, SAID[0], summary="They moved.", lasts=False)]
    )
    (row,) = read.claims
    gates = [row[name] for name in ("reusable", "non_trivial", "specific", "verified")]
    assert gates == [False, False, False, True]
    assert row["gate_reasons"] == [
        "reusable: the model says that it does not last",
        "specific: the summary begins with a pronoun",
        "non_trivial: the summary says next to nothing",
    ]


def test_two_claims_on_the_same_words_keep_apart_and_a_repeat_is_rejected() -> None:
    made = plan(SAID, PERSONAL)
    moved = claim(1, SAID[0], summary="Ada moved to Porto in March.")
    loves = claim(1, SAID[0], summary="The river is what Ada loves.")
    again_moved = claim(1, SAID[0][:30], summary="Ada moved to Porto in March")
    planned = claim(1, SAID[0], category="plan", summary="In March Ada moved to Porto.")
    said = [moved, loves, again_moved, planned]
    whole = drop_repeated_claims([("s/0", answered(made, said))])
    assert [c["summary"] for c in whole.claims] == [moved["summary"], loves["summary"]]
    assert whole.claims[0]["category"] == moved["category"]
    assert len({c["claim_id"] for c in whole.claims}) == 2
    assert whole.rejected[0].reason == f"repeats {whole.claims[0]['claim_id']}"


def test_short_sessions_are_skipped_and_nobody_else_is_quoted() -> None:
    said = [*rows(["Hi."], "short"), *rows(["Hello there.", "x"], "tool", origin="tool", role="tool"),
            *rows(["Compacted so far."] * 3, "made up", origin="synthetic")]  # fmt: skip
    made = plan_requests(
        pa.Table.from_pylist(said, schema=MESSAGES.schema),
        CODING,
        ExtractSettings(),
        Library(),
        count,
        4000,
    )
    assert made.parts == []
    assert made.skipped == {
        "made up": "0 spoken messages, 2 needed",
        "short": "1 spoken messages, 2 needed",
        "tool": "0 spoken messages, 2 needed",
    }


def test_constant_text_comes_first_and_schemas_are_flat() -> None:
    one, other = plan(SAID).requests[0], plan(SAID[:2]).requests[0]
    assert one.messages[0] == other.messages[0]
    assert one.messages[-1] != other.messages[-1]
    pack = Library().load_pack("coding")
    assert list(pack.categories) == [
        "decision",
        "pattern",
        "gotcha",
        "convention",
        "plan",
        "context",
    ]
    assert list(Library().load_pack("personal").categories) == [
        "fact",
        "preference",
        "event",
        "plan",
        "relationship",
    ]
    forms: list[type[AnswerModel]] = [
        build_claims_answer(tuple(pack.categories), 12),
        build_claims_answer(("fact",), 12),
        GistAnswer,
        build_summary_answer(60, titled=True),
        consolidate.DropsAnswer,
        limit_answer(BatchAnswer, placements=25),
    ]
    for form in forms:
        schema = build_json_schema(form)
        text = json.dumps(schema)
        assert not any(
            f'"{key}":' in text for key in ("$ref", "$defs", "pattern", "description")
        )
        assert schema["required"] == list(schema["properties"])
        form.model_validate(make_minimal_answer(Request("x", (), form)))


def test_a_prompt_never_exceeds_the_window() -> None:
    long = [
        "word " * 700,
        "two words",
        "unbroken" * 400,
        *(f"Message number {n} says this." for n in range(40)),
    ]
    overhead = sum(
        count([m["content"] for m in plan(SAID, PERSONAL).requests[0].messages])
    )
    window = overhead + 400
    made = plan_requests(
        table(long),
        PERSONAL,
        ExtractSettings(answer_tokens=100),
        Library(),
        count,
        window,
    )
    assert len(made.parts) > 3
    for request in made.requests:
        assert (
            sum(count([m["content"] for m in request.messages])) + request.max_tokens
            <= window
        )
    with pytest.raises(EngineUnavailable, match=r"lower extract\.answer_tokens"):
        plan_requests(table(long), PERSONAL, ExtractSettings(), Library(), count, 600)


def test_quotes_are_checked_against_whole_words_of_the_message() -> None:
    text = "Well — the build needs Node 22,\nnot Node 20; see docs/build.md."
    found = find_anchor("the build needs node 22, not Node 20", text)
    assert found
    assert text[found.start : found.end] == "the build needs Node 22,\nnot Node 20"
    near = find_anchor("the build neds Node 22, not Nod", text)
    assert near
    assert text[near.start : near.end] == "the build needs Node 22,\nnot Node"
    assert find_anchor("the build needs … see docs/build.md", text)
    assert find_anchor("the build needs Python 3.11 and make", text) is None
    assert find_anchor("Node", text) is None
    assert find_anchor("Yes.", "Yes.")
    assert find_anchor(text * 3, text) is None


@given(st.text(), st.text(min_size=1), st.integers(0, 40), st.integers(1, 60))
@settings(deadline=None)
def test_an_anchor_lies_in_its_text(
    quote: str, text: str, start: int, length: int
) -> None:
    for wanted in (quote, text[start : start + length]):
        found = find_anchor(wanted, text)
        assert found is None or 0 <= found.start <= found.end <= len(text)


@given(st.lists(st.integers(1, 120), min_size=1, max_size=40), st.integers(0, 20))
@settings(deadline=None)
def test_chunks_hold_every_turn_in_order_and_fit(
    lengths: list[int], overlap: int
) -> None:
    turns = build_turns(
        rows(
            [
                " ".join(f"w{n}x{k}" for k in range(words))
                for n, words in enumerate(lengths)
            ]
        )
    )
    chunks = split_into_chunks(turns, 60, overlap, count)
    assert all(chunk.tokens <= 60 for chunk in chunks)
    numbers = [turn.number for chunk in chunks for turn in chunk.turns]
    assert sorted(set(numbers)) == [turn.number for turn in turns]
    shown = " ".join(turn.shown for chunk in chunks for turn in chunk.turns)
    assert all(f"w{n}x{words - 1}" in shown for n, words in enumerate(lengths))
    assert all(list(c.turns) == sorted(c.turns, key=lambda t: t.number) for c in chunks)


def settle(
    made: ExtractionPlan, said: list[dict[str, Any]], *drops: tuple[int, int, str]
) -> ParsedClaims:
    """What is left of some claims when the model says (claim, kept, why)."""
    whole = drop_repeated_claims([("s/0", answered(made, said))])
    (question,) = consolidate.build_questions(
        "s", whole.claims, Library(), count, 4_000
    )
    told = {
        "drops": [
            {"claim": gone, "kept": kept, "why": why} for gone, kept, why in drops
        ]
    }
    answer = reuse_completion(
        question.request, Completion(question.request.id, json.dumps(told))
    )
    return consolidate.apply_drops(whole, [(question, answer)])


def test_of_an_amended_decision_the_final_state_alone_survives() -> None:
    first = claim(
        2, SAID[1], category="decision", summary="The queue is kept in SQLite."
    )
    final = claim(
        3, SAID[2], category="decision", summary="The queue is kept in PostgreSQL."
    )
    limit = claim(
        4, SAID[3], category="context", summary="The retry limit of the queue is 5."
    )
    # Backwards in time, no ninth, by nothing.
    nothing = [
        (2, 1, "amended"),
        (3, 9, "repeated"),
        (3, 0, "amended"),
    ]
    settled = settle(plan(SAID), [final, first, limit], (1, 2, "amended"), *nothing)
    assert [c["summary"] for c in settled.claims] == [
        final["summary"],
        limit["summary"],
    ]
    assert [r.reason for r in settled.rejected] == [
        "amended within its session: “The queue is kept in PostgreSQL.” stands instead"
    ]


def test_of_two_claims_that_say_the_same_the_persons_stays() -> None:
    rows = table(
        [
            "We keep the queue in SQLite, I say.",
            "Done: the queue is kept in SQLite now.",
        ]
    ).to_pylist()
    rows[1] |= {"role": "assistant", "origin": "model"}
    made = plan_requests(
        pa.Table.from_pylist(rows), CODING, ExtractSettings(), Library(), count, 32_768
    )
    said = [
        claim(
            n,
            rows[n - 1]["text"],
            category="decision",
            summary="The queue is in SQLite.",
        )
        for n in (1, 2)
    ]
    assert [
        claim["message_ids"] for claim in settle(made, said, (1, 2, "repeated")).claims
    ] == [["s-0"]]


def test_what_was_turned_down_goes_and_of_what_is_said_to_repeat_itself_in_a_circle_one_stays() -> (
    None
):
    said = [
        claim(
            n,
            SAID[n - 1],
            category="decision",
            summary=f"It was decided: {SAID[n - 1]}",
        )
        for n in (2, 3, 4)
    ]
    settled = settle(plan(SAID), said[::2], (1, 0, "rejected"))
    assert [claim["summary"] for claim in settled.claims] == [said[2]["summary"]]
    assert [one.reason for one in settled.rejected] == ["rejected within its session"]
    settled = settle(
        plan(SAID), said, (1, 2, "repeated"), (2, 1, "repeated"), (3, 1, "repeated")
    )
    assert [claim["summary"] for claim in settled.claims] == [said[1]["summary"]]
    assert {one.reason for one in settled.rejected} == {
        f"repeated within its session: “{said[1]['summary']}” stands instead"
    }


def test_a_folder_of_ones_own_overrides_prompts_and_adds_packs(tmp_path: Path) -> None:
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "kitchen.toml").write_text(
        'name = "kitchen"\nabout = "About cooking."\nignore = ["gossip"]\n[categories]\nrecipe = "how a dish is made"\n'
    )
    mine = Library(tmp_path)
    assert mine.load_pack("kitchen").categories == {"recipe": "how a dish is made"}
    assert mine.load_pack("coding") == Library().load_pack("coding")
    before = mine.compute_digest(["gist"], ["kitchen"])
    (tmp_path / "gist.md").write_text(
        "=== system ===\nBrief.\n=== user ===\n$mark $fenced\n"
    )
    assert (
        mine.load_prompt("gist").render_messages(mark="m", fenced="$f")[1]["content"]
        == "m $f"
    )
    assert mine.compute_digest(["gist"], ["kitchen"]) != before
    made = plan_requests(
        table(SAID),
        ObserveSettings(pack="kitchen"),
        ExtractSettings(),
        mine,
        count,
        32_768,
    )
    assert "how a dish is made" in made.requests[0].messages[0]["content"]
    with pytest.raises(UsageError, match="no pack at"):
        mine.load_pack("garden")
    (tmp_path / "packs" / "bad.toml").write_text('name = "bad"\n')
    with pytest.raises(UsageError, match="'bad' is not a pack"):
        mine.load_pack("bad")
    (tmp_path / "gist.md").write_text("no parts")
    with pytest.raises(UsageError, match="needs the lines"):
        mine.load_prompt("gist")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "It costs $5 a month. $mark $fenced",
            r"has a \$ that is none of .*write \$\$ for a dollar sign",
        ),
        (
            "The variable $foo. $mark $fenced",
            r"has a \$ that is none of its values \(\$fenced, \$mark\)",
        ),
        ("Nothing to read.", r"shows no transcript: put \$fenced"),
    ],
)
def test_a_prompt_of_ones_own_with_a_stray_dollar_is_named(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "gist.md").write_text(f"=== system ===\nBrief.\n=== user ===\n{text}\n")
    with pytest.raises(
        UsageError,
        match=rf"prompt 'gist' at {re.escape(str(tmp_path / 'gist.md'))} {complaint}",
    ):
        Library(tmp_path).load_prompt("gist")
    (tmp_path / "gist.md").write_text(
        "=== system ===\nIt is $$5.\n=== user ===\n$fenced\n"
    )
    assert (
        Library(tmp_path)
        .load_prompt("gist")
        .render_messages(mark="m", fenced="f")[0]["content"]
        == "It is $5."
    )


def test_claims_are_placed_once_and_what_is_not_is_said() -> None:
    board = Board(
        [
            Topic("t1", "garden", "Plants and beds."),
            Topic("u", "user", "Who the user is.", base=True),
        ],
        5,
    )
    claims = [
        {
            "claim_id": f"o{n}",
            "summary": f"Claim {n}.",
            "vector": None,
            "pack": "personal",
        }
        for n in range(6)
    ]
    batch = board.build_batch(claims, Library(), count, 32_768)
    assert dict(batch.topics) == {1: "u", 2: "t1"}
    answer = {
        "new_topics": [
            {"name": "Gardens", "purpose": "Same."},
            {"name": "sailing", "purpose": "Boats."},
        ],
        "placements": [
            {"entry": e, "topic": t}
            for e, t in ((1, 2), (1, 1), (2, 3), (3, 4), (4, 50), (9, 1))
        ],
    }
    board.apply_answer(
        batch,
        reuse_completion(
            batch.request, Completion(batch.request.id, json.dumps(answer))
        ),
    )
    (sailing,) = board.list_opened()
    # "Gardens" is "garden".
    assert board.placed == {
        "o0": "t1",
        "o1": "t1",
        "o2": sailing.id,
    }
