"""The classifier that ships: what it is made of, what it reads, and what it learns from."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from bench.fit.changes import (
    FEW,
    PairSource,
    build_graph,
    count_called,
    find_names,
    fit_model,
    label_claims,
    label_source,
)
from bench.recall.changes import Case
from slowwave.engines.encoders.pair_reader import Floats, Odds, load_reader
from slowwave.schemas.tables import CLAIMS
from slowwave.tasks.changes.features import SAYS, build_matrix
from slowwave.tasks.changes.model import (
    UNREAD_FILE,
    ChangeModel,
    load_change_model,
    predict_changes,
    predict_pairs,
)
from slowwave.tasks.changes.pairs import Evidence, build_candidate_claims
from slowwave.tasks.changes.verdicts import PERHAPS_CHANGED, SUPERSEDED
from tests.changes.test_decide import AGAIN, COMPANY, MOVED, SAME, claim, told_by
from tests.claim_rows import claim_row


def test_a_graph_says_what_scikit_learns_classifier_says_of_one_pair_and_of_many() -> (
    None
):
    drawn = np.random.default_rng(7)
    # Rounded: many a value is a threshold.
    matrix = np.round(drawn.normal(size=(4_500, 6)), 1).astype(np.float32)
    matrix[drawn.random(matrix.shape) < 0.2] = np.nan
    labels = (
        np.nan_to_num(matrix[:, 0]) * np.nan_to_num(matrix[:, 1], nan=1.0) > 0.3
    ) ^ np.isnan(matrix[:, 2])
    original = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(
        matrix, labels
    )
    model = ChangeModel(build_graph(original, list("abcdef")))
    assert model.names == list("abcdef")
    (odds,) = model.session.run(["odds"], {"pairs": matrix})
    told = 1 / (1 + np.exp(-odds[:, 0]))
    assert np.allclose(told, original.predict_proba(matrix)[:, 1], rtol=0, atol=1e-5)
    assert told.min() < 0.1 < 0.9 < told.max()
    assert np.array_equal(
        model.session.run(["odds"], {"pairs": matrix[:1]})[0], odds[:1]
    )


def test_it_reads_features_that_are_computed() -> None:
    same_session = [
        claim(n, text, session_id="s") for n, text in enumerate(COMPANY[:2], 40)
    ]
    rows = told_by(claim(0, SAME), claim(30, MOVED), *same_session)
    known = Evidence.from_candidates(
        build_candidate_claims(
            rows.append_column("by_model", pa.array([False] * rows.num_rows)), {}
        ),
        read=load_reader().describe,
    )
    computed = {name for found in known.features for name in found}
    assert {
        name for name in load_change_model().names if not name.startswith(SAYS)
    } <= computed


def test_pairs_are_read_in_parts_with_the_same_odds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = told_by(*(claim(n, text) for n, text in enumerate((SAME, MOVED, *COMPANY))))
    candidates = build_candidate_claims(rows, {})
    sizes: list[int] = []

    def read(earlier: Floats, later: Floats) -> dict[str, Odds]:
        sizes.append(len(earlier))
        return load_reader().describe(earlier, later)

    whole = Evidence.from_candidates(candidates, read=read).features
    assert sizes == [len(whole)]
    assert len(whole) > 2
    monkeypatch.setattr("slowwave.tasks.changes.pairs.SHARD_PAIRS", 2)
    sizes.clear()
    assert Evidence.from_candidates(candidates, read=read).features == whole
    assert max(sizes) == 2


def test_likelihoods_are_between_none_and_certain_and_order_what_is_plain() -> None:
    known = Evidence.from_candidates(
        build_candidate_claims(told_by(claim(0, SAME), claim(30, MOVED)), {})
    )
    likely, taken_back, _ = predict_changes(known)
    assert ((taken_back >= 0) & (taken_back <= likely)).all()
    assert ((likely >= 0) & (likely <= 1)).all()
    assert known.pairs[int(likely.argmax())].tolist() == [0, 1]
    assert PERHAPS_CHANGED < SUPERSEDED <= likely.max()
    empty = Evidence.from_candidates(
        build_candidate_claims(CLAIMS.make_empty_table(), {})
    )
    assert [len(found) for found in predict_changes(empty)] == [0, 0, 0]


def test_a_pair_that_was_not_read_has_a_model_of_its_own() -> None:
    known = Evidence.from_candidates(
        build_candidate_claims(told_by(claim(0, SAME), claim(30, MOVED)), {})
    )
    (unread,) = known.features
    read = unread | {f"reads {kind}": 0.0 for kind in load_reader().kinds}
    models = load_change_model(UNREAD_FILE), load_change_model()
    alone = [
        float(model.predict_probabilities([pair]).likely[0])
        for model, pair in zip(models, (unread, read), strict=True)
    ]
    assert predict_pairs([unread, read]).likely.tolist() == alone


CASE = Case("Which port?", ("8200",), ("7070",))


def source(name: str) -> PairSource:
    rows = [
        claim_row(0, SAME),
        claim_row(30, MOVED),
        *(claim_row(n, t) for n, t in enumerate(COMPANY, 60)),
    ]
    return label_source(name, pa.Table.from_pylist(rows, schema=CLAIMS.schema), [CASE])


def test_pairs_are_labelled_by_what_their_case_calls_stale_and_amended() -> None:
    rows = [
        claim_row(0, SAME),
        claim_row(30, MOVED),
        claim_row(31, AGAIN.replace("9300", "7070 as before, not 9300")),
    ]
    view = label_claims(pa.Table.from_pylist(rows, schema=CLAIMS.schema), [CASE])
    labels = dict(
        zip(map(tuple, view.known.pairs.tolist()), view.labels.tolist(), strict=True)
    )
    assert labels[0, 1] == 1.0
    assert np.isnan(labels[0, 2])  # stale words, and a later one without the amended
    assert view.stale == [[0, 2]]


def test_a_file_is_learnt_from_whole_bare_and_small_and_counted_by_its_cases() -> None:
    one = source("talk_3")
    assert one.author == "talk"
    sessions = [len(set(view.sessions)) for view in one.others]
    assert sessions[0] == len(COMPANY) + 2  # without vectors
    assert set(FEW) <= set(sessions[1:])
    names = find_names([one])
    model = fit_model([(view, None) for view in (one.whole, *one.others)] * 20, names)
    told = model.predict_proba(build_matrix(one.whole.known.features, names))[:, 1]
    assert one.whole.labels[int(told.argmax())] == 1.0
    # What is labelled a change, and nothing else, called one.
    called = count_called(one, one.whole.labels)
    assert (called["cases"], called[f"{PERHAPS_CHANGED:g}"]) == (1, "0 | 1")
