"""What a person tells an agent: what is kept, what it is called, and how sure it is to hold."""

import pytest

from slowwave.schemas.settings import ObserveSettings
from slowwave.tasks.observe.observe import observe
from slowwave.tasks.observe.reader import load_reader
from slowwave.tasks.observe.statements import LIKELY
from slowwave.tasks.observe.units import list_sentences
from tests.observe.test_observe import HUMAN, MODEL, said


def claims_of(*turns):
    table = said(*((*who, None, text) for who, text in turns), source="claude-code")
    return observe(table, ObserveSettings()).claims.to_pylist()


def test_a_decision_is_told_and_a_courtesy_is_no_claim():
    claims = claims_of(
        (HUMAN, "i need a booking page for my shop"),
        (MODEL, "Slots of 30 minutes?"),
        (HUMAN, "30 is too short. slots are 45 minutes from now on"),
        (MODEL, "Done."),
        (HUMAN, "thanks, have a nice weekend"),
    )
    told = [one["summary"] for one in claims if one["confidence"] >= LIKELY]
    assert "slots are 45 minutes from now on" in told
    assert not any("weekend" in one["summary"] for one in claims)


def test_a_word_or_two_go_on_with_the_sentence_before():
    (claim,) = [
        one
        for one in claims_of(
            (MODEL, "Shall I use Prisma for the database?"),
            (HUMAN, "no prisma please, i got burned by its migrations. take drizzle"),
            (MODEL, "Drizzle it is."),
        )
        if "drizzle" in one["summary"]
    ]
    assert claim["summary"].startswith("no prisma please")
    assert claim["quote"].endswith("take drizzle")


def test_a_fact_in_a_question_is_a_claim_of_its_own():
    claims = claims_of(
        (HUMAN, "we start with the form"),
        (MODEL, "Noted."),
        (HUMAN, "the upload limit is 500 MB, why does it not apply to the form?"),
        (MODEL, "It posts to another route."),
    )
    assert "the upload limit is 500 MB" in [one["summary"] for one in claims]


def test_a_line_above_a_question_without_marks_is_told_whole():
    told = told_by(
        (HUMAN, "we clean up the bindings"),
        (MODEL, "Ready."),
        (
            HUMAN,
            "the major goes up when an old plugin would break, otherwise leave it\n"
            "how many plugins do we even have?",
        ),
        (MODEL, "Eleven."),
    )
    assert told == [
        "the major goes up when an old plugin would break, otherwise leave it"
    ]


def test_what_is_imagined_or_somebody_elses_question_is_not_told():
    claims = claims_of(
        (HUMAN, "Imagine that our plants were stored in Cassandra."),
        (MODEL, "Then a query would need a key."),
        (HUMAN, "I ask because Priya asked whether we should use Kafka."),
        (MODEL, "It would be too much."),
    )
    assert [one for one in claims if one["confidence"] >= LIKELY] == []


def test_a_reading_does_not_depend_on_what_is_read_with_it():
    rows = said((*HUMAN, None, "We never indent with tabs. Look here! Why so?"))
    sentences = list(list_sentences(rows.to_pylist(), 1))
    read = load_reader().read
    assert [read([one])[0] for one in sentences] == read(sentences)


def told_by(*turns):
    return [c["summary"] for c in claims_of(*turns) if c["confidence"] >= LIKELY]


def test_a_refused_proposal_is_told_with_the_persons_no():
    told = told_by(
        (HUMAN, "the start page loads slowly"),
        (MODEL, "Shall I move the project to Deno?"),
        (HUMAN, "no deno. the server has node 22 and stays as it is"),
        (MODEL, "OK."),
    )
    # the refusal settles what is not done; the proposal says what "no deno" is about
    assert "no deno (Shall I move the project to Deno?)" in told


def test_a_yes_to_a_step_of_the_moment_is_not_told():
    told = told_by(
        (HUMAN, "the start page loads slowly"),
        (MODEL, "Fixed in two places. Shall I commit this now?"),
        (HUMAN, "yes"),
        (MODEL, "Committed."),
    )
    assert not any("commit" in summary for summary in told)


def test_a_choice_of_two_is_kept_in_the_persons_words():
    told = told_by(
        (HUMAN, "we need a runner for the tests"),
        (MODEL, "Options: Vitest with jsdom, or Jest."),
        (HUMAN, "vitest then"),
        (MODEL, "Added."),
    )
    assert any(summary.startswith("vitest then (") for summary in told)


def test_a_proposal_that_is_accepted_holds_no_longer_than_it_says():
    before = (
        (
            HUMAN,
            "the voltas of the rheinberger come out wrong, second ending gets skipped",
        ),
        (MODEL, "Fixed: the second ending is played. Shall I render everything again?"),
        (HUMAN, "yes"),
        (MODEL, "Rendered 42 files."),
    )
    assert not any("render everything" in text for text in told_by(*before))


def test_a_pasted_sentence_gives_no_reason():
    claims = claims_of(
        (HUMAN, "lets look at the typeface first"),
        (MODEL, "Ready."),
        (
            HUMAN,
            "rive wrote, mail:\n---\nOur captions need a lighter one, we would pay it. — Hélène\n---\n"
            "so: light master yes, axis goes 300 to 700 then",
        ),
        (MODEL, "Noted."),
    )
    (claim,) = [one for one in claims if "axis goes" in one["summary"]]
    assert claim["quote"] == "light master yes, axis goes 300 to 700 then"


def test_what_is_otherwise_than_before_is_told():
    claims = claims_of(
        (HUMAN, "we moved from Heroku to Fly.io last night"),
        (MODEL, "I changed the deploy script."),
        (HUMAN, "eslint is gone, we lint with biome"),
        (MODEL, "Noted."),
        (HUMAN, "last night's deploy took 20 minutes"),
        (MODEL, "That is long."),
        (HUMAN, "we thought about moving to Railway but stayed"),
        (MODEL, "All right."),
    )
    told = [one["summary"] for one in claims if one["confidence"] >= LIKELY]
    assert told == [
        "we moved from Heroku to Fly.io last night",
        "eslint is gone, we lint with biome",
    ]


AGREED = "I suggest SQLite instead of the JSON file from now on"


@pytest.mark.parametrize(
    ("before", "reply", "accepted"),
    [
        (f"I looked at it. {AGREED}. It is faster.", "sounds good, go ahead", AGREED),
        (f"{AGREED}. It is faster.", "yes, let's do it that way", AGREED),
        (
            "Shall I store the bookings in SQLite instead of the JSON file?",
            "sounds good, go ahead",
            "Shall I store the bookings in SQLite instead of the JSON file?",
        ),
    ],
)
def test_a_reply_that_says_nothing_by_itself_is_told_with_what_it_accepts(
    before, reply, accepted
):
    claims = claims_of(
        (HUMAN, "have a look at the booking page"),
        (MODEL, before),
        (HUMAN, reply),
        (MODEL, "Done."),
    )
    (told,) = [
        one for one in claims if one["confidence"] >= LIKELY and one["quote"] in reply
    ]
    assert accepted in told["summary"]
    assert len(told["message_ids"]) == 2


def test_a_reply_that_accepts_nothing_that_holds_is_not_told():
    claims = claims_of(
        (HUMAN, "have a look at the booking page"),
        (MODEL, "I looked at it. There are three files. All tests pass."),
        (HUMAN, "sounds good, go ahead"),
        (MODEL, "Ok."),
    )
    assert not [one for one in claims if one["confidence"] >= LIKELY]


def test_a_short_rule_is_told_as_it_is():
    claims = claims_of(
        (HUMAN, "have a look at the booking page"),
        (MODEL, "I added a cache in Redis."),
        (HUMAN, "no redis here please"),
        (MODEL, "Ok."),
    )
    (rule,) = [one for one in claims if one["quote"] == "no redis here please"]
    assert rule["confidence"] >= LIKELY


def test_a_claims_id_is_that_of_its_sentence_whoever_reads_it():
    said_ = [
        (HUMAN, "have a look at the booking page"),
        (MODEL, "Slots of 30 minutes?"),
        (
            HUMAN,
            "30 is too short. slots are 45 minutes from now on. never push to main",
        ),
        (MODEL, "Shall commits be signed?"),
        (HUMAN, "yes"),
    ]
    table = said(*((*who, None, text) for who, text in said_), source="claude-code")
    read = [
        observe(table, ObserveSettings(), in_layers=in_layers).claims.to_pylist()
        for in_layers in (True, False)
    ]
    one, other = ({row["claim_id"]: row for row in rows} for rows in read)
    shared = one.keys() & other.keys()
    assert len(shared) >= 2
    words = ("session_id", "workspace", "observed_at")
    for key in shared:
        assert [one[key][name] for name in words] == [
            other[key][name] for name in words
        ]
    # They differ in what a reader makes of the sentences.
    fields = ("category", "detail", "quote", "confidence")
    assert any(one[key][name] != other[key][name] for key in shared for name in fields)


LOG = "2026-11-30 10:00:{:02d},123 INFO worker-{} job {} finished with status ok"


def paste_log(lines):
    return "\n".join(LOG.format(at % 60, at % 7, at) for at in range(lines))


@pytest.mark.parametrize("lines", [5, 300, 60_000])
def test_what_stands_above_or_below_a_paste_is_claimed_and_no_pasted_line(lines):
    above = "We never deploy on Fridays."
    below = "From now on every release gets a tag."
    claims = claims_of(
        (HUMAN, f"{above}\n{paste_log(lines)}\n\n{below}"),
        (MODEL, "Noted."),
    )
    told = {one["summary"] for one in claims if one["confidence"] >= LIKELY}
    assert told == {above.rstrip("."), below.rstrip(".")}
    assert len(claims) == len(told)


def test_a_long_line_above_a_paste_does_not_go_on_in_it():
    rule = "From now on no worker of the shop may start a job on a Friday afternoon"
    claims = claims_of((HUMAN, f"{rule}\n{paste_log(5)}"), (MODEL, "Noted."))
    assert [one["quote"] for one in claims] == [rule]


def test_the_last_question_wins_over_what_was_stated_before_it():
    (claim,) = [
        one
        for one in claims_of(
            (HUMAN, "let us look at the backend of the shop"),
            (MODEL, "The cache may take 500 GB. Uploads: what is the limit?"),
            (HUMAN, "500 MB"),
            (MODEL, "Noted."),
        )
        if one["quote"] == "500 MB"
    ]
    assert claim["summary"] == "500 MB (Uploads: what is the limit?)"


EXPORT = "I would run the export at 3 at night and keep seven copies"
SENTRY = "I propose that all errors go to Sentry"


@pytest.mark.parametrize(
    ("before", "reply", "summary"),
    [
        (f"{EXPORT}. Shall I set it up like that?", "yes", EXPORT),
        (f"{SENTRY}. The code for it is small.", "yes, do that", SENTRY),
        (
            f"{EXPORT}. Shall I set it up like that?",
            "yes but nine",
            f"yes but nine ({EXPORT})",
        ),
    ],
)
def test_an_accepted_proposal_is_a_claim_in_its_own_words(before, reply, summary):
    claims = claims_of(
        (HUMAN, "let us look at the backend of the shop"),
        (MODEL, before),
        (HUMAN, reply),
        (MODEL, "Done."),
    )
    (told,) = [one for one in claims if len(one["message_ids"]) == 2]
    assert (told["summary"], told["confidence"] >= LIKELY) == (summary, True)
    assert told["quote"] in reply


def test_what_is_agreed_on_for_the_moment_is_not_told():
    told = told_by(
        (HUMAN, "let us look at the backend of the shop"),
        (MODEL, "The test fails since the port is taken. Shall I run it again?"),
        (HUMAN, "yes"),
        (MODEL, "I moved the export. All tests pass."),
        (HUMAN, "ok"),
    )
    assert told == []
