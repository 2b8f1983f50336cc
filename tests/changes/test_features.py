"""What two claims are to each other, as numbers: words, places, values, company and surroundings."""

import math
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.schemas.tables import CLAIMS
from slowwave.tasks.changes.features import (
    ANOTHER,
    IdfTable,
    build_matrix,
    compute_pair_features,
)
from slowwave.tasks.changes.pairs import Evidence, build_candidate_claims
from slowwave.tasks.dedupe.normalise import normalise_claim
from tests.claim_rows import DAY, claim_row


def features(old: str, new: str) -> dict[str, float]:
    claims = [normalise_claim(text) for text in (old, new)]
    return compute_pair_features(
        *claims, IdfTable.from_stems([claim.content for claim in claims])
    )


def evidence(*rows: dict[str, object]) -> Evidence:
    return Evidence.from_candidates(
        build_candidate_claims(pa.Table.from_pylist(rows, schema=CLAIMS.schema), {})
    )


def find(known: Evidence, old: int, new: int) -> dict[str, float]:
    return known.features[known.pairs.tolist().index([old, new])]


def test_one_sentence_with_another_value_is_a_frame_with_one_place() -> None:
    found = features("Our power comes from Nordlicht", "Our power comes from Solwind")
    assert (
        found["places"],
        found["values in places"],
        found["governed by one word"],
    ) == (1, 1, 1)
    assert 0 < found["frame with one place"] == found["frame of the earlier"] < 1
    assert (
        found["other names"],
        found["a value for a value"],
        found["names the old value"],
    ) == (1, 1, 0)
    other = features(
        "Our power comes from Nordlicht", "My sister plays the viola in Leeds"
    )
    assert (other["frame of the earlier"], other["of both"]) == (0, 0)
    more = features(
        "Our power comes from Nordlicht",
        "Since the cold winter our power comes from Solwind",
    )
    assert (
        0
        < more["frame with one place"]
        == more["frame of the later"]
        < more["frame of the earlier"]
    )
    tale = features(
        "For power it has been with Nordlicht",
        "For power see Solwind turbines beside Hull",
    )
    # So many words are no value.
    assert (tale["places"], tale["values in places"]) == (
        1,
        0,
    )


@pytest.mark.parametrize(
    ("old", "new", "begin", "end", "run"),
    [
        ("The worktop will be oak", "The worktop will be quartz", 1, 0, 1),
        ("Halvard conducts us", "Beatrix conducts us", 0, 1, 0),
        ("We eat at Da Rosa on Friday", "So we eat at Da Lina on Friday", 0, 1, 2),
    ],
)
def test_runs_that_both_have(
    old: str, new: str, begin: int, end: int, run: int
) -> None:
    found = features(old, new)
    assert (found["begin alike"], found["end alike"], found["alike up to a value"]) == (
        begin,
        end,
        run,
    )


def test_values_are_compared_by_kind_and_unit() -> None:
    found = features(
        "The API listens on port 7070", "We moved the API from port 7070 to port 8200"
    )
    assert found["names the old value"] == found["figures kept"] == 1
    assert (
        features("The timeout is 150ms", "The timeout is 200ms")[
            "other figures in one unit"
        ]
        == 1
    )
    assert (
        features("The timeout is 150ms", "The box weighs 200kg")[
            "other figures in one unit"
        ]
        == 0
    )
    assert features("It is red", "It is not red")["turned"] == 1


def test_a_claim_without_a_word_that_carries_has_no_share_of_any() -> None:
    found = features("It is", "So it was")
    assert all(
        value == 0 or name.startswith(("letters", "words"))
        for name, value in found.items()
    )
    assert all(math.isfinite(value) for value in found.values())


def test_of_a_claim_without_a_vector_no_cosine_is_known() -> None:
    vector = {"vector": HashEncoder().encode(["The hearing of Marlow"])[0]}
    for bare in range(2):
        said = [
            claim_row(n, f"The hearing of Marlow is on {n + 3} June", **vector)
            for n in range(2)
        ]
        assert "cosine" in find(evidence(*said), 0, 1)
        assert "cosine" not in find(
            evidence(
                *(
                    one | {"vector": None} if n == bare else one
                    for n, one in enumerate(said)
                )
            ),
            0,
            1,
        )


def test_of_one_session_neither_company_nor_surroundings_are_known() -> None:
    rows = [
        claim_row(n, f"The hearing is on {n + 3} June", session_id="s")
        for n in range(2)
    ]
    known = evidence(*rows)
    assert known.apart.tolist() == [False]
    assert "nearer before" not in known.features[0]
    matrix = build_matrix(
        known.features, ["of both", "nearer before", "says hearing", "says july"]
    )
    assert np.isnan(matrix[0]).tolist() == [False, True, False, False]
    assert matrix[0, 2:].tolist() == [1.0, 0.0]


def test_talk_around_two_claims_is_compared_by_turns_and_sessions() -> None:
    said = (
        "The hearing is on 3 June",
        "The bundle is due before a hearing",
        "Loaves cost 4.20",
        "We close on Fridays",
    )
    later = "By the notice the hearing is on 17 July"
    vectors = HashEncoder().encode([*said, later])
    rows = [
        claim_row(
            n,
            text,
            session_id="a",
            observed_at=DAY + timedelta(minutes=n // 2),
            vector=vectors[n],
        )
        for n, text in enumerate(said)
    ]
    found = find(evidence(*rows, claim_row(9, later, vector=vectors[4])), 0, 4)
    assert (
        found["earlier in the later's talk"]
        == found["earlier in the later's session"]
        == found["cosine"]
    )
    # The session is of bread and Fridays too.
    assert found["sessions alike"] < found["turns alike"]
    # "hearing" stands beside it in "before a hearing".
    assert found["later's words around the earlier"] > 0
    assert found["earlier's words around the later"] == 0
    # None has a detail: each has its own words there.
    assert (
        found["earlier's words in the later's detail"]
        == found["shared with details"]
        == found["of the earlier"]
        > 0
    )
    assert found["later's words in the earlier's detail"] == found["of the later"]


def test_the_same_frame_of_another_name_is_of_another_thing() -> None:
    web = "The web service listens on port 3000"
    assert features(web, "The api service listens on port 4000 now")[ANOTHER]
    for later in (
        web,
        "The web service listens on port 4000 now",
        "The api service listens on port 3000",
        "From now on the web service listens on port 4000",
    ):
        assert not features(web, later)[ANOTHER]
    # The word that differs is the value.
    assert not features("Use 4 workers for tests", "Use 8 workers for builds")[ANOTHER]
