"""Clauses: what of a long sentence a block may show without the rest, and how its lines say what is left out."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowwave.context.build import Context, assemble_context, build_memory_snippets
from slowwave.context.handed_out import note_block
from slowwave.context.packing import Piece, pack
from slowwave.context.reports.features import Statement
from slowwave.context.reports.retractions import remove_figures
from slowwave.context.reports.statements import score_statements
from slowwave.context.tokens import load_tokenizer
from slowwave.schemas.settings import ContextSettings
from slowwave.store.journal import hash_span, load_recalled_spans
from slowwave.text.clauses import LONGEST, is_dependent_clause, split_clauses
from slowwave.text.numbers import extract_quantities
from tests.context.test_context import heard

MINILM = load_tokenizer("minilm")
REPORT = (
    "A nightly export was rejected because its checksum file was missing, the operator retried it by hand twice, and "
    "afterwards the dashboard showed duplicated rows for several customers"
)


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("Signed URLs live 15 minutes; the key stays in Vault.", 2),
        ("The relay polls every 250 ms, takes 200 rows, publishes, deletes.", 3),
        ("The queue lives in Redis and it keeps jobs for 3 days.", 2),
        ("Corrections go through a reversal, because the ledger only grows.", 2),
        ("Uploads stop at 25 MB — larger files go through the agent.", 2),
        # what is left would say something else
        ("Reject the whole file, unless the supplier is on the list.", 1),
        ("If the feed is dead, use the last known rate.", 1),
        ("We don't mail the customers, call them or visit them.", 1),
        ("Either keep the cursor, drop the offset or return both.", 1),
        ("The job writes WebP at 320, 800 and 1600 pixels.", 1),
        ("The ports 1, 2, 3 and 4 are open for partners.", 1),
        ("The relay retries the uploads after 5 - 10 minutes on production.", 1),
        ("Never do these on production: delete ledger rows; truncate the queue; rotate the keys.", 1),
        ("If the check fails, alert the operator; drop the whole queue; page the manager.", 1),
        ("Delete the old archive; except the paid invoices.", 1),
        ("Mail the customer about it, and only if he asks twice.", 1),
        ("Operators must avoid retrying uploads by hand, deleting rows of the export.", 1),
        ("Backups are deleted after 90 days, excluding the checksum files.", 1),
        ("It needs both the operators on production, and the auditors of the bank.", 1),
        ("Uploads wait since the migration of the ledger export ended.", 1),
        ("Die Zeilen werden jede Nacht gelöscht, wenn der Kunde kündigt.", 1),
        ("The ledger 'only grows forever, and shrinks again' in tests.", 1),
        ("The operators get a mail, and if the export is late on Monday, drop the rows from production.", 1),
        ("Only `one, two and, three four` is accepted.", 1),
        ('She said "keep the mirror, drop the cache" at lunch.', 1),
        ("Roles (ledger writer, ledger corrector, auditor here) come from LDAP.", 1),
        ("Right, done.", 1),
        ("", 1),
    ],
)
def test_a_sentence_is_cut_where_both_sides_stand_alone(sentence: str, count: int) -> None:
    assert len(split_clauses(sentence)) == count


@given(st.lists(st.sampled_from(["rows", "stay,", "35", "days;", "(or", "more)", "-", '"', "and", "the", "`", "so"])))
def test_clauses_are_the_sentence(words: list[str]) -> None:
    sentence = " ".join(words)
    assert " ".join(split_clauses(sentence)) == sentence


def test_what_is_no_prose_is_not_cut() -> None:
    assert len(split_clauses("one two three, " * (LONGEST // 10))) == 1


def test_a_reason_leans_on_what_it_is_for() -> None:
    assert is_dependent_clause("because the ledger only grows")
    assert is_dependent_clause("otherwise they keep hammering")
    assert not is_dependent_clause("sodium lamps stay on")


def found_in(turns: list[tuple[bool, str]]) -> list[Statement]:
    return score_statements(heard(turns), 0.9, {}, {})


def block_of(found: list[Statement], budget: int) -> Context:
    return assemble_context(REPORT, build_memory_snippets(found), budget, MINILM, ContextSettings())


def test_of_a_sentence_only_the_figure_that_is_taken_back_goes() -> None:
    talk = [
        (
            False,
            "Nightly exports time out after 15 min, the checksum lies beside them, because partners ask for it.",
        ),
        (True, "Exports time out after 6 hours."),
    ]
    block = block_of(found_in(talk), 200).text
    assert "Nightly exports time out after …, the checksum lies beside them, because partners ask for it." in block
    assert "15 min" not in block
    assert "6 hours" in block


TAKEN_BACK = [
    (False, "The checksum file lies beside the export; wait 15 minutes for exports, because partners wait."),
    (True, "Wait 6 hours for exports."),
]


def test_a_clause_that_says_nothing_without_its_figure_goes_and_its_reason_with_it() -> None:
    found = found_in(TAKEN_BACK)
    assert [one.text for one in found] == ["The checksum file lies beside the export;", "Wait 6 hours for exports"]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Nightly exports (15 minutes) time out.", "Nightly exports (…) time out"),
        ("Nightly exports use a 15-minute timeout.", "Nightly exports use a … timeout"),
        ("Nightly exports need timeout=15 minutes.", "Nightly exports need …"),
        ("Nightly exports take 15 or 20 minutes.", "Nightly exports take … or …"),
        ("Nightly exports stop at 2026-11-02 or later.", "Nightly exports stop at … or later"),
    ],
)
def test_a_figure_goes_as_a_whole_word(said: str, left: str) -> None:
    (one,) = found_in([(True, said)])
    figure = remove_figures(one, extract_quantities(one.text))
    assert figure is not None
    assert figure.text == left


def test_an_ellipsis_is_never_doubled() -> None:
    talk = [
        (
            False,
            "Exports stop for good after 15 minutes; the checksums lie there; stale rows go after 15 minutes.",
        ),
        (True, "Exports stop for good after 6 hours, stale rows go after 6 hours."),
    ]
    found = [one for one in found_in(talk) if one.message.message_id == "m0"]
    assert [one.text for one in found] == [
        "Exports stop for good after …;",
        "the checksums lie there;",
        "stale rows go after …",
    ]
    lines = block_of([found[0], found[2]], 200).parts[0].lines
    assert [line.text for line in lines] == ["Exports stop for good after … stale rows go after …"]


def test_a_report_of_a_change_in_a_sentence_is_one_of_all_its_clauses() -> None:
    talk = [
        (True, "The ledger export timeout is 30 seconds for partners."),
        (False, "I updated the relay config as you asked, the ledger export timeout is 60 seconds on production."),
    ]
    assert "30" not in found_in(talk)[0].words


def test_a_figure_that_another_clause_of_the_sentence_keeps_stays() -> None:
    talk = [
        (True, "The operators get 5 retries by hand."),
        (True, "The operators get 5 retries by hand; the partners get 10 retries by mail."),
    ]
    assert found_in(talk)[0].text == "The operators get 5 retries by hand"


def test_within_a_sentence_then_begins_no_change() -> None:
    talk = [
        (False, "The relay polls the outbox every second and publishes the ledger rows to Kafka."),
        (True, "Good: the relay polls the outbox, then publishes the ledger rows to Kafka."),
    ]
    assert found_in(talk)[0].message.message_id == "m0"


def test_a_sentence_with_a_clause_of_idle_words_stays_whole() -> None:
    found = found_in([(True, "You can have them all, because the ledger export keeps the duplicated rows.")])
    assert [one.clause for one in found] == [0]
    assert found[0].ends


def test_a_question_stays_whole() -> None:
    found = found_in([(True, "Do the uploads stop at 25 MB; is the checksum file signed by the operator?")])
    assert len(found) == 1


def test_a_reason_is_packed_after_its_clause() -> None:
    talk = [(False, "Lunch was rather good today, because the checksum files lie beside exports that GPG signs.")]
    found = [replace(one, worths=dict.fromkeys(one.words, 0.1 + one.clause)) for one in found_in(talk)]
    assert [one.leans for one in found] == [False, True]
    for budget in range(10, 60):
        lines = [line.text for part in block_of(found, budget).parts for line in part.lines]
        assert not any(text.startswith("…") for text in lines)


def test_a_doubt_in_a_sentence_is_one_of_all_its_clauses() -> None:
    talk = [
        (True, "Exports time out after 15 minutes."),
        (True, "Maybe we drop the checksum file, exports time out after 6 hours."),
    ]
    assert found_in(talk)[0].text == "Exports time out after 15 minutes"


TALK = [
    (True, "Where does the export's checksum go?"),
    (False, "The checksum file lies beside the export, lunch was rather good today, the operator signs it with GPG."),
    (True, "The checksum file beside the export, signed with GPG by the operator."),
]


def test_what_is_left_out_of_a_sentence_is_marked() -> None:
    found = found_in(TALK)
    parts = [one for one in found if one.message.message_id == "m1"]
    assert [one.clause for one in parts] == [0, 1, 2]
    shown = {
        "The checksum file lies beside the export …": [parts[0]],
        "… lunch was rather good today …": [parts[1]],
        "… the operator signs it with GPG.": [parts[2]],
        "The checksum file lies beside the export … the operator signs it with GPG.": [parts[0], parts[2]],
        "The checksum file lies beside the export, lunch was rather good today, the operator signs it with GPG.": parts,
    }
    for text, some in shown.items():
        assert [line.text for line in block_of(some, 200).parts[0].lines] == [text]


def test_with_room_to_spare_a_sentence_is_whole() -> None:
    """Although its words are all said elsewhere."""
    last = (True, "Good: the checksum file lies beside the export, the operator signs it with GPG, lunch was good.")
    block = block_of(found_in([*TALK, last]), 400)
    assert all("…" not in line.text for line in block.parts[0].lines)


def test_a_reason_is_never_shown_without_what_it_is_for() -> None:
    talk = [
        (False, "Lunch was rather good today, because checksum files lie beside exports that GPG signs."),
        (True, "Checksum files lie beside exports that GPG signs."),
    ]
    assert [one.leans for one in found_in(talk)] == [False, True, False]
    pieces = [Piece({"lunch": 0.1}, 20, 0), Piece({"checksum": 0.9}, 5, 0, needs=0), Piece({"gpg": 0.1}, 5, 1)]
    assert pack(pieces, 10, lambda some: sum(pieces[i].cost for i in some)) == [2]
    assert pack(pieces, 30, lambda some: sum(pieces[i].cost for i in some)) == [0, 1, 2]


def test_each_piece_of_a_line_is_known_as_an_echo(tmp_path: Path) -> None:
    parts = [one for one in found_in(TALK) if one.message.message_id == "m1"]
    note_block(tmp_path, block_of([parts[0], parts[2]], 200))
    noted = load_recalled_spans(tmp_path)
    assert hash_span("The checksum file lies beside the export … the operator signs it with GPG") in noted
    assert hash_span("The checksum file lies beside the export") in noted
    assert hash_span("the operator signs it with GPG") in noted
