"""Topics: what gathers, what stays apart, merges and splits with their history, names that follow the claims."""

import re
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bench.nights.topics import (
    assign_by_nights,
    compute_topic_scores,
    load_labelled_claims,
)
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.memory import Memory
from slowwave.schemas.counters import Count
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import RecallSettings, Settings
from slowwave.schemas.tables import (
    BASE_TOPICS,
    CLAIMS,
    RELEASED,
    SUMMARIES,
    TOPIC_HISTORY,
    TOPICS,
)
from slowwave.schemas.vocabulary import is_foreign
from slowwave.store import Store
from slowwave.store.logs import log_recall
from slowwave.store.manifest import compute_table_digest
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.job import Job
from slowwave.tasks.topics import cluster
from slowwave.tasks.topics.assign import assign, find_oversized_topics, split_topic
from slowwave.tasks.topics.cluster import (
    LIMITS,
    Bundle,
    TopicLimits,
    bisect_vectors,
    cluster_by_leader,
    match_base_topic,
    merge_bundles,
)
from slowwave.tasks.topics.names import name_topics
from slowwave.tasks.topics.task import assign_topics
from tests.claim_rows import claim_row
from tests.talk_files import session, write_talk

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"
LABELLED = ROOT / "data" / "labelled" / "topics.tsv"
START = datetime(2026, 11, 1, tzinfo=UTC)
EAGER = TopicLimits(merge_at=0, fold_at=0, max_share=0.1)
"""Topics merge at once and may not hold more than a tenth: so the samples have to be cut."""


def unit(*values: float) -> np.ndarray:
    vector = np.zeros(384, dtype=np.float32)
    vector[: len(values)] = values
    return vector / np.linalg.norm(vector)


def claim(
    number: int,
    vector: np.ndarray | None,
    text: str = "The heron stood at the pond.",
    **more: Any,
) -> dict[str, Any]:
    own = {
        "claim_id": f"{number:04}",
        "session_id": "s",
        "category": "fact",
        "pack": "personal",
    }
    own |= {
        "observed_at": START + timedelta(minutes=number),
        "confidence": 1.0,
        "step_key": "",
        "message_ids": [],
    }
    own |= {
        "vector": None if vector is None else vector.tolist(),
        "workspace": None,
        "evidence_sessions": [],
    }
    return claim_row(number, text, **own | more)


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=CLAIMS.schema)


def test_base_topics_are_told_from_the_rest_by_rule() -> None:
    rows = [
        line.split("\t") for line in LABELLED.read_text(encoding="utf-8").splitlines()
    ]
    assert Counter(label for label, _ in rows if label in BASE_TOPICS) == {
        "user": 6,
        "self": 6,
        "system": 6,
    }
    for label, text in rows:
        assert (match_base_topic(text) or "") == (
            label if label in BASE_TOPICS else ""
        ), text


def test_an_agent_that_speaks_of_itself_is_not_the_user() -> None:
    texts = (
        "My name is Echo",
        "Your name is Echo",
        "This machine has 64 GB of RAM",
        "We moved to Redis",
    )
    assert [match_base_topic(text, by_agent=True) for text in texts] == [
        "self",
        "self",
        "system",
        None,
    ]
    assert match_base_topic("My name is Echo") == "user"


def test_labelled_claims_gather_and_stay_apart() -> None:
    said = load_labelled_claims(LABELLED, "all-MiniLM-L6-v2")
    found = compute_topic_scores(
        said, assign_by_nights(said, range(len(said.texts)), 1)
    )
    # Leader clustering at .35 had purity .96 with 39% of the claims alone in 74 topics.
    assert found["purity"] > 0.85
    assert found["rand"] > 0.6
    assert found["alone"] < 0.05
    assert found["largest"] < 0.25
    assert found["overlap"] < 0.05


def test_leaders_gather_in_order_and_average_link_joins_them() -> None:
    vectors = np.array([unit(1, 0), unit(0, 1), unit(1, 0.1), unit(0.1, 1)])
    assert cluster_by_leader(vectors, 0.9) == [[0, 2], [1, 3]]
    bundles = [
        Bundle(str(i), vector.astype(np.float64), 1, known=False)
        for i, vector in enumerate(vectors)
    ]
    assert merge_bundles(bundles, TopicLimits(merge_at=0.9, fold_at=0.9), np.inf) == [
        [0, 2],
        [1, 3],
    ]
    assert merge_bundles(bundles, TopicLimits(merge_at=-1, fold_at=-1), np.inf) == [
        [0, 1, 2, 3]
    ]
    # No group may have more than 3.
    assert len(merge_bundles(bundles, TopicLimits(merge_at=-1, fold_at=-1), 3)) == 2


def test_merging_by_kept_bests_is_the_same_as_looking_at_every_pair() -> None:
    chance = np.random.default_rng(7)
    for _ in range(20):
        rows = chance.normal(size=(12, 5))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        limits = TopicLimits(merge_at=0.2, fold_at=0.1, small=3)
        assert merge_bundles(
            [Bundle(str(i), r, 1, known=False) for i, r in enumerate(rows)], limits, 7
        ) == plainly(rows, limits, 7)


def plainly(rows: np.ndarray, limits: TopicLimits, largest: int) -> list[list[int]]:
    groups = [[i] for i in range(len(rows))]
    while True:
        best = None
        for a, one in enumerate(groups):
            for b, other in enumerate(groups[a + 1 :], a + 1):
                like = round(
                    float(rows[one].mean(axis=0) @ rows[other].mean(axis=0)), 6
                )
                least = (
                    limits.fold_at
                    if min(len(one), len(other)) < limits.small
                    else limits.merge_at
                )
                fits = like >= least and len(one) + len(other) <= largest
                if fits and (best is None or like > best[0]):
                    best = (like, a, b)
        if best is None:
            return sorted(sorted(group) for group in groups)
        groups[best[1]] += groups.pop(best[2])


def test_two_topics_that_a_new_claim_joins_become_one_and_the_larger_keeps_its_name() -> (
    None
):
    limits = TopicLimits(threshold=0.95, merge_at=0.6, fold_at=0.6, small=1)
    old = [topic("large", unit(1, 0), 4), topic("small", unit(0.8, 0.6), 2)]
    made = assign(
        table(claim(9, unit(0.9, 0.3))),
        pa.Table.from_pylist(old, schema=TOPICS.schema),
        limits,
        "k",
    )
    assert made.merged == {"small": "large"}
    assert made.claims["topic_id"].to_pylist() == ["large"]


def topic(name: str, centre: np.ndarray, size: int) -> dict[str, Any]:
    return {"topic_id": name, "name": name, "purpose": "", "base": False, "samples": [], "size": size,
            "centroid": centre.tolist(), "cohesion": 1.0, "member_hash": "", "step_key": "k"}  # fmt: skip


def test_what_is_said_over_code_gathers_within_its_project_and_of_oneself_with_the_user() -> (
    None
):
    # A base topic in talk; over code it stays within the project.
    machine = "This machine runs Debian 13"
    said = [
        claim(1, unit(1), machine, pack="coding", workspace="tidepool", session_id="a"),
        claim(2, unit(1), machine, pack="coding", workspace="heron", session_id="b"),
        claim(3, unit(1), workspace="friends", session_id="c"),
        claim(4, unit(1), workspace="family", session_id="d"),
        claim(5, unit(1), workspace="heron", session_id="b"),
    ]
    first = assign(table(*said[:2]), TOPICS.schema.empty_table(), LIMITS, "k")
    tidepool, heron = first.claims["topic_id"].to_pylist()
    assert tidepool != heron
    known = [topic(tidepool, unit(1), 1), topic(heron, unit(1), 1)]
    later = [
        claim(6, unit(1), pack="coding", workspace="heron", session_id="e"),
        *said[2:],
    ]
    made = assign(
        table(*later),
        pa.Table.from_pylist(known, schema=TOPICS.schema),
        LIMITS,
        "k",
        first.claims,
    )
    topics = dict(
        zip(
            made.claims["claim_id"].to_pylist(),
            made.claims["topic_id"].to_pylist(),
            strict=True,
        )
    )
    assert topics["0006"] == heron
    assert topics["0003"] == topics["0004"]  # everyday talk gathers over workspaces
    # Said of themselves, in a session over code.
    assert topics["0005"] == compute_content_id("topic", "user")
    assert len(set(topics.values()) | {tidepool}) == 4


def test_a_topic_with_too_much_of_everything_is_cut_and_the_larger_half_keeps_it() -> (
    None
):
    limits = TopicLimits(min_to_split=10)
    assert find_oversized_topics({"a": 3, "b": 7}, 12, limits) == ["b"]
    assert find_oversized_topics({"a": 3, "b": 7}, 40, limits) == []
    rows = [claim(n, unit(1, 0.01 * n), topic_id="b") for n in range(5)]
    rows += [claim(n, unit(0.01 * n, 1), topic_id="b") for n in range(5, 8)]
    moved = split_topic(table(*rows), "k")
    assert moved is not None
    assert moved["claim_id"].to_pylist() == ["0005", "0006", "0007"]
    assert (
        split_topic(table(*(claim(n, unit(1), topic_id="b") for n in range(5))), "k")
        is None
    )
    assert bisect_vectors(np.array([unit(1)])) is None


def build_frame(claims: dict[str, list[tuple[Any, ...]]]) -> pl.DataFrame:
    """Return a row for each topic's claims: summary, category, workspace and perhaps keywords."""
    schema = {
        "topic_id": pl.String,
        "summary": pl.String,
        "category": pl.String,
        "workspace": pl.String,
    }
    rows = [
        (topic, *claim, [])[:5]
        for topic, several in claims.items()
        for claim in several
    ]
    return pl.DataFrame(rows, schema | {"keywords": pl.List(pl.String)}, orient="row")


def test_names_are_of_what_the_claims_say_and_the_others_do_not() -> None:
    bread = "/home/ada/bread"
    heron = (
        ("The heron ate a frog.", "fact"),
        ("A heron stood at the pond.", "event"),
        ("The heron flew off.", "event"),
    )
    bakery = (
        "The bakery at the pond closes.",
        "The bakery sells rye.",
        "A bakery by the sea has the best rye.",
    )
    claims = {
        "a": [(text, kind, None) for text, kind in heron],
        "b": [(text, "fact", bread) for text in bakery],
        "c": [
            (f"Somebody saw the pond {when}.", "fact", None)
            for when in ("once", "twice")
        ],
    }
    found = name_topics(build_frame(claims), limit=1)
    assert found == {
        "a": ("heron", "Events and facts about heron"),
        "b": ("bakery", "Facts in bread about bakery"),
        "c": ("", "Facts about somebody, saw, pond"),
    }


def test_a_topic_without_keywords_is_named_in_the_words_of_its_language() -> None:
    said = ("发票我们保存七年。", "发票在云盘里。", "发票由财务开。")
    claims = {"a": [(text, "fact", None) for text in said]}
    assert name_topics(build_frame(claims))["a"][0] == "发票"  # invoice
    said = ("検索は遅かった。", "検索も速くなった。", "検索が分かった。")
    claims = {"a": [(text, "fact", None) for text in said]}
    # 検索 is search; った is an ending, which ICU splits off 遅かった (was slow)
    assert name_topics(build_frame(claims))["a"][0] == "検索"


def test_names_are_keywords_that_several_claims_share_and_few_others_say() -> None:
    keywords = ["gauge readings", "readings", "kept", "own row"]
    said = (
        "Gauge readings are kept for two years",
        "A gauge reading has an own row",
        "The gauge readings are kept in SI",
    )
    ferries = [
        (f"The ferry is kept at pier {n}", "fact", None, ["ferry", "kept"])
        for n in range(3)
    ]
    claims = {"a": [(text, "context", None, keywords) for text in said], "b": ferries}
    named = name_topics(build_frame(claims))
    assert {topic: name for topic, (name, _) in named.items()} == {
        "a": "gauge readings",
        "b": "ferry, kept",
    }


def test_a_topic_is_not_named_by_a_stop_word_of_its_language() -> None:
    said = (
        "die Miete wird um zehn Prozent gemindert und die Frist bleibt",
        "die Vermieterin bekommt die Briefe nur auf Papier, die Miete ist strittig",
        "wir zahlen die Miete unter Vorbehalt und nicht mehr an die Verwaltung",
    )
    claims = {
        "a": [(text, "context", None, ["die", "und", "miete"]) for text in said],
        "b": [(f"Dogs bark at gate {n}", "fact", None, ["dogs"]) for n in range(3)],
    }
    assert name_topics(build_frame(claims))["a"][0] == "miete"


def test_a_topic_is_not_named_by_days_figures_paths_or_hashes_nor_by_what_one_claim_says() -> (
    None
):
    words = [
        "december",
        "12 friday",
        "var/tide.db",
        "l4171l3n219xwq",
        "ee8fdcd",
        "ferry",
        "rare storm warning",
    ]
    claims = [
        (f"The ferry sails {word}", "fact", None, words)
        for word in (*words[:-1] * 3, words[-1])
    ]
    assert name_topics(build_frame({"a": claims}))["a"][0] == "ferry"


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    options = Settings(store=tmp_path_factory.mktemp("store"), encoder="hash-384")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "LIMITS", EAGER)
        run_night([SAMPLES], options)
    return options


def test_splits_are_in_the_history_and_no_topic_is_over_its_share(
    night: Settings,
) -> None:
    store = Store.open(night.store)
    history = store.read(TOPIC_HISTORY).to_pylist()
    topics = {row["topic_id"]: row for row in store.read(TOPICS).to_pylist()}
    claims = [
        row for row in store.read(CLAIMS).to_pylist() if row["status"] == "active"
    ]
    assert {row["kind"] for row in history} == {"split"}
    assert all(row["claims"] and row["name"] for row in history)
    assert max(row["size"] for row in topics.values()) <= 0.1 * len(claims)
    counts = Counter(row["topic_id"] for row in claims)
    assert {t: row["size"] for t, row in topics.items() if row["size"]} == dict(counts)
    assert all(row["purpose"] for row in topics.values())


def count_splits(report: RunReport) -> int:
    return sum(step.counts[Count.TOPICS_SPLIT] for step in report.steps)


def test_all_splits_of_a_night_are_written_at_once_and_the_next_night_finds_none(
    tmp_path: Path,
) -> None:
    options = Settings(store=tmp_path / "s", encoder="hash-384", keywords={"top": 0})
    first, second = (
        run_night([write_talk(tmp_path / f"{at}.jsonl", at, count)], options)
        for at, count in ((0, 12), (20, 3))
    )
    # of fewer than 40 claims none is split
    assert [count_splits(report) for report in (first, second)] == [0, 10]
    store = Store.open(options.store)
    history = store.read(TOPIC_HISTORY).to_pylist()
    # Of its ten, one split is of a topic that the same night opened: no night had named it.
    opened = {row["other_id"] for row in history}
    assert [row["name"] for row in history if row["topic_id"] in opened] == [
        "The unit4x service listens on port 1028 of the berth unit4x"
    ]
    sizes = {row["topic_id"]: row["size"] for row in store.read(TOPICS).to_pylist()}
    claims = store.read(CLAIMS, ["topic_id"], pc.field("status") == "active")
    assert {t: n for t, n in sizes.items() if n} == Counter(
        claims["topic_id"].to_pylist()
    )
    assert assign_topics(Job(options, "again")).counts[Count.TOPICS_SPLIT] == 0


def check_overlaps(store: Store) -> int:
    """Check that each topic's overlap is with the nearest of its project or of everyday life; return how many these
    are."""
    claims = store.read(CLAIMS, where=pc.field("status") == "active")
    claims = claims.sort_by(
        [("observed_at", "ascending"), ("claim_id", "ascending")]
    ).to_pylist()
    place = {
        row["topic_id"]: row["pack"] == "coding" and (row["workspace"] or "")
        for row in claims
    }
    rows = {
        row["topic_id"]: row for row in store.read(TOPICS).to_pylist() if row["size"]
    }
    for topic, row in rows.items():
        here = [
            other for other in rows if place[other] == place[topic] and other != topic
        ]
        near = max(
            (float(np.dot(rows[other]["centroid"], row["centroid"])) for other in here),
            default=None,
        )
        assert row["overlap"] == (
            near if near is None else pytest.approx(near, abs=0.001)
        )
    return len(set(place.values()))


def test_a_topic_has_a_text_a_strength_and_a_health_and_is_found_by_them(
    night: Settings,
) -> None:
    themes = {one.id: one for one in Memory.open(night.store).topics()}
    rows = {
        row["topic_id"]: row
        for row in Store.open(night.store).read(TOPICS).to_pylist()
        if row["size"]
    }
    claims = (
        Store.open(night.store)
        .read(CLAIMS, where=pc.field("status") == "active")
        .to_pylist()
    )
    for topic, row in rows.items():
        mine = [one for one in claims if one["topic_id"] == topic]
        assert (row["text"] is not None) == (row["size"] >= 3)
        assert row["strength"] == sum(len(one["evidence_sessions"]) for one in mine)
        assert row["sessions"] == len(
            {session for one in mine for session in one["evidence_sessions"]}
        )
        # Four places: 26 of 320 lies halfway between two.
        share = len(mine) / len(claims)
        assert abs(row["share"] - share) <= 0.00005 + 1e-12
        if row["text"]:
            centre = np.array(row["centroid"])
            nearest = max(
                mine, key=lambda one: round(float(centre @ np.array(one["vector"])), 6)
            )
            assert row["text"].startswith(nearest["summary"].rstrip("."))
    assert check_overlaps(Store.open(night.store)) > 1
    assert max(row["overlap"] or 0 for row in rows.values()) < 1
    told = max(
        (row for row in rows.values() if row["text"]), key=lambda row: row["size"]
    )
    hits = Memory.open(night.store).recall(told["text"], 3, "topic")
    unmarked = re.sub(r" \(perhaps until [^)]*\)", "", hits[0].text)
    assert (hits[0].id, unmarked, hits[0].topic) == (
        told["topic_id"],
        told["text"],
        told["name"],
    )
    assert hits[0].sources
    assert themes[told["topic_id"]].text == told["text"]


def test_a_night_with_little_new_leaves_each_topic_as_near_to_others_as_all_of_them_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        line.split("\t")[1]
        for line in LABELLED.read_text(encoding="utf-8").splitlines()
    ]
    monkeypatch.setattr(cluster, "LIMITS", TopicLimits(merge_at=0.9, fold_at=0.9))
    options = Settings(store=tmp_path / "store", encoder="hash-384")
    for night, some in enumerate((told[:40], told[40:50], told[50:60])):
        talk = [("user", text) for text in some]
        run_night([session(tmp_path, f"s{night}", 1 + night, talk)], options)
        check_overlaps(Store.open(options.store))


def test_a_topic_that_lost_a_claim_for_good_has_its_centre_and_text_anew(
    samples_night: tuple[Path, RunReport], tmp_path: Path
) -> None:
    shutil.copytree(samples_night[0], root := tmp_path / "store")
    settings = Settings(store=root, encoder="hash-384", pyramid={"step": 2})
    run_night([], settings)
    store = Store.open(root)
    largest = (
        store.read(TOPICS)
        .sort_by([("size", "descending"), ("topic_id", "ascending")])["topic_id"][0]
        .as_py()
    )
    claim = store.read(
        CLAIMS,
        where=(pc.field("topic_id") == largest) & (pc.field("status") == "active"),
    )
    run_forget(Wanted(messages=tuple(claim["message_ids"][0].as_py()[:1])), settings)
    run_night([], settings)
    rows = [row for row in store.read(TOPICS).to_pylist() if row["size"]]
    assert largest in {row["topic_id"] for row in rows}
    assert all(
        row["centroid"] is not None and (row["text"] is not None) == (row["size"] >= 3)
        for row in rows
    )
    # and in no tier of its summaries do two groups, or claims, wait for one above
    summaries = store.read(
        SUMMARIES, ["scope_id", "tier"], pc.field("scope") == "topic"
    ).to_pylist()
    groups = Counter((row["scope_id"], row["tier"]) for row in summaries)
    assert groups[largest, 1]
    # words of others are summed up nowhere
    columns = ["topic_id", "trust", "observer"]
    active = store.read(CLAIMS, columns, pc.field("status") == "active").to_pylist()
    own = Counter(
        row["topic_id"]
        for row in active
        if not is_foreign(row["trust"], row["observer"])
    )
    assert all(groups[row["topic_id"], 0] >= own[row["topic_id"]] // 2 for row in rows)
    assert all(
        groups[topic, tier + 1] >= count // 2
        for (topic, tier), count in list(groups.items())
    )


def test_a_lower_alpha_draws_centre_and_text_to_what_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for alpha in (1.0, 0.2):
        monkeypatch.setattr(
            cluster, "LIMITS", TopicLimits(alpha=alpha, merge_at=-1, fold_at=-1)
        )
        options = Settings(
            store=tmp_path / str(alpha), encoder="hash-384", pyramid={"max_words": [12]}
        )
        told = [
            f"Our heron number {n} stands at the northern pond all day."
            for n in range(5)
        ]
        run_night(
            [session(tmp_path, "s1", 1, [("user", one) for one in told])], options
        )
        first = Store.open(options.store).read(CLAIMS)["claim_id"][0].as_py()
        log_recall(options.store / "default", {first: []})
        said = [
            ("user", f"The ferry {n} sails at noon from pier nine.") for n in range(2)
        ]
        run_night([session(tmp_path, "s2", 2, said)], options)
        (row,) = [
            row
            for row in Store.open(options.store).read(TOPICS).to_pylist()
            if row["size"]
        ]
        assert row["uses"] == 1
        found[alpha] = row["text"]
    assert "heron" in found[1.0]
    assert "ferry" in found[0.2]


def test_rebuilding_topics_keeps_claims_and_gives_the_same(
    night: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LIMITS", EAGER)
    store = Store.open(night.store)
    before = {t.name: compute_table_digest(t, store.read(t)) for t in RELEASED}
    for what in ("topics", "summaries"):
        run_reprocess(what, Selection(), night)
        assert {
            t.name: compute_table_digest(t, store.read(t)) for t in RELEASED
        } == before, what
    with pytest.raises(UsageError, match="topics, summaries"):
        run_reprocess("everything", Selection(), night)
    with pytest.raises(UsageError, match="from all sessions"):
        run_reprocess("topics", Selection(workspace="/home/ada/tidepool"), night)


def test_topics_made_anew_by_other_rules_take_their_summaries_along(
    night: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(night.store)
    held = {row["topic_id"] for row in store.read(TOPICS).to_pylist()}
    monkeypatch.setattr(cluster, "LIMITS", replace(EAGER, threshold=0.2))
    monkeypatch.setattr("slowwave.tasks.topics.task.VERSION", "assign/other")
    # A night under the same settings with nothing new would end before its steps.
    run_night(
        [SAMPLES],
        night.model_copy(update={"recall": RecallSettings(automatic_floor=0.8)}),
    )
    topics = {row["topic_id"] for row in store.read(TOPICS).to_pylist()}
    scopes = {
        row["scope_id"]
        for row in store.read(SUMMARIES).to_pylist()
        if row["scope"] == "topic"
    }
    assert topics != held
    assert scopes <= topics
