"""Active memory: traces with strength that fades, is raised by use and set; activation by a question; pruning."""

import pytest
from pydantic import ValidationError

from slowwave.context.active import ActiveMemory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.plugins.talk.talk import estimate_effect
from slowwave.schemas.settings import ActiveSettings

TALK = (
    "the Porto gauge reads metres",
    "dinner at eight with Clara",
    "rain again all day",
    "snow",
    "the train was late",
)
NONE = {
    "likeness": 0,
    "exchange": 0,
    "strength": 0,
    "recency": 0,
    "words": 0,
    "neighbours": 0,
}


def told(
    *texts: str,
    encoder: HashEncoder | None = HashEncoder(),  # noqa: B008
    **given: float,
) -> ActiveMemory:
    """An active memory with these settings, after some turns."""
    mind = ActiveMemory(encoder, ActiveSettings.model_validate(given))
    for text in texts:
        mind.add_turn("Ada", text)
    return mind


def test_strength_is_what_it_says_novelty_and_effect_weighted() -> None:
    # In proportion: they need not sum to 1.
    mind = told(says=1.2, says_full=4, novelty=0.4, effect=0.4)
    new = mind.add_turn("Ada", "gauge reads metres", effect=1.0)
    again = mind.add_turn("Ada", "gauge reads metres")
    assert new.strength == pytest.approx(0.6 * 3 / 4 + 0.2 * 1 + 0.2 * 1)
    # Nothing new, no effect.
    assert again.strength == pytest.approx(0.6 * 3 / 4, abs=1e-6)


def test_strength_fades_rises_with_use_and_is_set() -> None:
    mind = told(*TALK[:3], strength_half_life=3, used=0.5)
    first = mind.traces[0]
    faded = mind.compute_strength(first)
    assert faded == pytest.approx(first.strength / 2)
    mind.note_used([0])
    assert mind.compute_strength(first) == pytest.approx(faded + 0.5 * (1 - faded))
    assert mind.set_strength(1, 0.0)
    assert mind.compute_strength(mind.traces[1]) == 0.0
    assert not mind.set_strength(9, 1.0)
    with pytest.raises(ValueError, match="0 to 1"):
        mind.set_strength(0, 1.1)


def test_weights_of_which_no_strength_is_made_are_refused() -> None:
    with pytest.raises(
        ValidationError, match="one of says, novelty and effect must be above 0"
    ):
        ActiveSettings(says=0, novelty=0, effect=0)


@pytest.mark.parametrize("encoder", [HashEncoder(), None])
def test_a_question_calls_up_what_is_like_it_with_and_without_vectors(
    encoder: HashEncoder | None,
) -> None:
    mind = told(*TALK, encoder=encoder, recency=0, neighbours=0)
    activations = mind.compute_activations("which metres does the Porto gauge read")
    assert max(activations) == activations[0] > 2 * max(activations[1:])


def test_each_sign_calls_up_a_turn_by_itself() -> None:
    vectors = HashEncoder().encode(
        [*(f"Ada: {text}" for text in TALK[:3]), "dinner with Clara"]
    )
    alike = told(*TALK[:3], **{**NONE, "likeness": 1}).compute_activations(
        "dinner with Clara"
    )
    assert alike == pytest.approx((vectors[:3] @ vectors[3]).tolist(), abs=1e-6)
    latest = told(
        *TALK[:3], **{**NONE, "exchange": 1, "exchange_turns": 1}
    ).compute_activations("and then?")
    assert latest == pytest.approx((vectors[:3] @ vectors[2]).tolist(), abs=1e-6)
    recent = told(*TALK[:3], half_life=2, **{**NONE, "recency": 1}).compute_activations(
        "x"
    )
    assert recent == pytest.approx([0.5, 0.5**0.5, 1.0])
    strong = told(*TALK[:3], **{**NONE, "strength": 1})
    assert strong.compute_activations("x") == pytest.approx(
        [strong.compute_strength(one) for one in strong.traces]
    )


def test_rare_words_weigh_more_and_the_turn_beside_gets_its_part() -> None:
    texts = ("gauge port", "gauge lamp", "nothing here", "gauge rope", "what else")
    rare, common, *_ = told(*texts, **{**NONE, "words": 1}).compute_activations(
        "gauge port"
    )
    assert rare == pytest.approx(1.0)
    assert 0 < common < 0.5
    spread = told(
        *texts, **{**NONE, "words": 1, "neighbours": 0.5}
    ).compute_activations("rope")
    assert spread == pytest.approx([0, 0, 0.5, 1.0, 0.5])
    # a gap left by pruning is no neighbourhood
    pruned = told(
        "rope",
        "hm",
        "lamp and mast",
        capacity=2,
        recent=0,
        **{**NONE, "words": 1, "neighbours": 0.5},
    )
    assert [trace.number for trace in pruned.traces] == [0, 2]
    assert pruned.compute_activations("hm rope") == pytest.approx([1.0, 0.0])


def test_beyond_capacity_the_weakest_go_and_the_latest_stay() -> None:
    mind = told(
        "port 9090 on the gauge in Porto",
        "well",
        "the haul out is at the dock",
        "hm",
        capacity=3,
        recent=1,
    )
    assert [trace.number for trace in mind.traces] == [0, 2, 3]
    assert mind.heard == 4
    kept = told(*(f"turn {n}" for n in range(200)), capacity=100, recent=6).traces
    assert [trace.number for trace in kept[-6:]] == list(range(194, 200))


@pytest.mark.parametrize(
    ("said", "told", "effect"),
    [
        ("The harbour wall was built in 1962.", "", 1.0),
        (
            "The harbour wall was built in 1962.",
            "The harbour wall was built in 1962 of stone.",
            0.0,
        ),
        (
            "The harbour wall was built in 1963.",
            "The harbour wall was built in 1962 of stone.",
            1 / 4,
        ),  # a change
        ("The harbour wall was built in 1962.", None, 0.0),  # memory was not asked
        ("Where are the readings kept?", "", 0.0),  # a question states nothing
        (
            "Is it true? The wall is old. The rope is blue.",
            "the old wall",
            (0.0 + 1.0) / 2,
        ),
        *((text, "", 0.0) for text in ("", "Thanks!", "ok", "```\nx = 1\n```")),
    ],
)
def test_the_effect_is_the_share_of_what_is_stated_that_memory_does_not_hold(
    said: str, told: str | None, effect: float
) -> None:
    assert estimate_effect(said, told) == pytest.approx(effect)
