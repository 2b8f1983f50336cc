"""Find claims that repeat another, among new and stored claims."""

from itertools import product

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.counters import Count
from slowwave.schemas.tables import CLAIMS, MERGES, TRUST
from slowwave.schemas.vocabulary import Status, is_foreign
from slowwave.store.store import Store
from slowwave.tasks.boilerplate.task import add_repeating_sessions
from slowwave.tasks.dedupe.decide import Rules
from slowwave.tasks.dedupe.dedupe import DECIDING, MARKED, VERSION, dedupe
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.observe.corrections import find_correcting_claims

SCOPE = ["claim_id", "session_id", "workspace", "pack"]
"""Columns that decide which claims to compare."""
STANDING = [
    *SCOPE,
    "status",
    "canonical_id",
    "superseded_by",
    "dedupe_key",
    "observer",
    TRUST,
]
"""Columns that decide which claims are pending."""
OUTCOME = [
    "claim_id",
    "status",
    "canonical_id",
    "evidence_sessions",
    "valid_from",
]
"""Columns that dedupe sets and supersede depends on."""
WRITTEN = ["claim_id", *MARKED, "supersede_key"]
COMPARED = [
    *DECIDING,
    "workspace",
    "pack",
    "superseded_by",
    "supersede_key",
    "summary",
    "speaker",
    "stems",
]
"""The columns that are written, and those that are read."""
RETIRED = (pc.field("status") == Status.SUPERSEDED) & pc.field(
    "superseded_by"
).is_valid()
"""Claims that a later claim changed; a withdrawn claim has no `superseded_by`."""
CANONICAL = RETIRED | (pc.field("status") == Status.ACTIVE)
"""Claims that others may repeat or change. A changed claim is included so that a return to it is found."""


def dedupe_claims(job: Job) -> StepReport:
    """Compare every claim that was not compared under these settings; write the ledger before the claims.

    A correction is a person's word about one claim: no likeness merges it with another one.
    """
    with report_step("dedupe") as report:
        key = compute_step_key("dedupe", 1, VERSION, job.settings.dedupe)
        standing = job.store.read(CLAIMS, STANDING)
        fresh = find_rows_to_dedupe(standing, key)
        report.rows_in = len(fresh)
        if len(fresh):
            _dedupe_fresh(
                job=job, report=report, standing=standing, fresh=fresh, key=key
            )
        report.rows_out += add_repeating_sessions(job)
    return report


def _dedupe_fresh(
    job: Job,
    report: StepReport,
    standing: pa.Table,
    fresh: pa.Array,
    key: str,
) -> None:
    """Compare the fresh claims (ids) with each other and with those that stand; write what changed."""
    where = _find_comparable(standing, fresh)
    rows = add_vectors(job.store, job.store.read(CLAIMS, COMPARED, where), where)
    pending = rows.filter(pc.is_in(rows["claim_id"], fresh))
    settled = rows.filter(CANONICAL & (RETIRED | (pc.field("dedupe_key") == key)))
    corrections = pa.array(find_correcting_claims(job.store), pa.string())
    pending, correcting = _split_by_id(pending, corrections)
    settled, _ = _split_by_id(settled, corrections)
    deduped = dedupe(
        pending=reset_rows(pending),
        settled=settled,
        rules=Rules(job.settings.dedupe.threshold),
        step_key=key,
        undone=read_undone_pairs(job.store),
        executor=job.executor,
    )
    job.store.merge(MERGES, deduped.merges)
    correcting = set_columns(reset_rows(correcting), dedupe_key=key)
    changed = pa.concat_tables(
        [deduped.claims.select(WRITTEN), correcting.select(WRITTEN)]
    )
    before = rows.select([*OUTCOME, "supersede_key"])
    report.rows_out = job.store.update(CLAIMS, keep_judged(before, changed))
    report.counts[Count.DUPLICATES] = deduped.merges.num_rows


def _split_by_id(rows: pa.Table, ids: pa.Array) -> tuple[pa.Table, pa.Table]:
    """Return the other claims, and those with the ids."""
    named = pc.is_in(rows["claim_id"], ids)
    return rows.filter(pc.invert(named)), rows.filter(named)


def add_vectors(
    store: Store,
    claims: pa.Table,
    where: pc.Expression | None,
) -> pa.Table:
    """Return the claims (all that match `where`) with `vector` as a dictionary, whose rows are taken without copies."""
    ids = claims["claim_id"]
    rows = store.read_as_stored(CLAIMS, ["claim_id", "vector"], where)
    places = pc.index_in(ids.combine_chunks(), rows["claim_id"].combine_chunks())
    return claims.append_column(
        "vector",
        pa.DictionaryArray.from_arrays(places, rows["vector"].combine_chunks()),
    )


def _find_comparable(rows: pa.Table, fresh: pa.Array) -> pc.Expression | None:
    """Return the filter of claims to compare with fresh ones: those in scope or without workspace; None for all."""
    new = rows.filter(pc.is_in(rows["claim_id"], fresh))
    nameless = pc.field("workspace").is_null()
    return (
        None if new.filter(nameless).num_rows else build_scope(rows, fresh) | nameless
    )


def build_scope(rows: pa.Table, fresh: pa.Array) -> pc.Expression:
    """Return the filter of the claims to compare with fresh ones (ids).

    These are the claims of the same workspaces and, if one of those is of everyday life, all of everyday life; and all
    claims of the sessions of these.

    rows: CLAIMS, columns SCOPE.
    """
    places = rows.filter(pc.is_in(rows["claim_id"], fresh))["workspace"].unique()
    everyday = pc.field("pack") == "personal"
    here = pc.field("workspace").isin(places.drop_null())
    here = here | pc.field("workspace").is_null() if places.null_count else here
    near = (
        rows.filter(here | everyday)
        if rows.filter(here & everyday).num_rows
        else rows.filter(here)
    )
    return here | pc.field("session_id").isin(near["session_id"].unique())


def keep_judged(before: pa.Table, after: pa.Table) -> pa.Table:
    """Return the rows `after` with the `supersede_key` of `before` (columns OUTCOME and the key) if the outcome is
    equal.

    Such claims need not be judged again, which may cost a model's time.
    """
    rows = pl.DataFrame(after.select(OUTCOME)).join(
        pl.DataFrame(before),
        on="claim_id",
        how="left",
        maintain_order="left",
        suffix=" before",
    )
    same = pl.all_horizontal(
        pl.col(name).eq_missing(pl.col(f"{name} before")) for name in OUTCOME[1:]
    )
    keys = rows.select(pl.when(same).then("supersede_key")).to_series()
    return set_columns(after, supersede_key=keys.to_arrow())


def find_rows_to_dedupe(rows: pa.Table, key: str) -> pa.Array:
    """Return ids of rows (columns STANDING) new under this key, and of duplicates without a canonical row, or of one
    that is new itself, since its words have changed.
    """
    heads = rows.filter(CANONICAL & (RETIRED | (pc.field("dedupe_key") == key)))
    heads = heads["claim_id"].combine_chunks()
    stale = pc.invert(pc.fill_null(pc.equal(rows["dedupe_key"], key), False))
    duplicate = pc.equal(rows["status"], Status.DUPLICATE)
    lost = pc.and_(duplicate, pc.invert(pc.is_in(rows["canonical_id"], heads)))
    eligible = pc.is_in(rows["status"], pa.array(["active", "duplicate"]))
    fresh = pc.or_(stale, lost)
    if pc.any(pc.and_(eligible, fresh)).as_py():
        # Compare others' claims again with every new one, so that they become its duplicates and not the reverse.
        foreign = map(is_foreign, rows[TRUST].to_pylist(), rows["observer"].to_pylist())
        fresh = pc.or_(fresh, pa.array(list(foreign), pa.bool_()))
    return rows["claim_id"].filter(pc.and_(eligible, fresh)).combine_chunks()


def reset_rows(rows: pa.Table) -> pa.Table:
    """Return the rows as if they were never compared."""
    sessions = pa.array(
        [[session] for session in rows["session_id"].to_pylist()], pa.list_(pa.string())
    )
    clean = {
        "status": Status.ACTIVE,
        "reason": None,
        "canonical_id": None,
        "dedupe_key": None,
    }
    return set_columns(rows, **clean, evidence_sessions=sessions)


def read_undone_pairs(store: Store) -> set[tuple[str, str]]:
    """Return the pairs whose merge or change was taken back; it is never made again.

    A model may quote other words for the same claim, which then has another id: a pair counts for all claims of these
    words in its sessions.
    """
    rows = store.read(MERGES, ["from_id", "into_id"], pc.field("undone")).to_pylist()
    if not rows:
        return set()
    same_words = _group_same_words(store, {key for row in rows for key in row.values()})
    return {
        pair
        for row in rows
        for pair in product(same_words[row["from_id"]], same_words[row["into_id"]])
    }


def _group_same_words(store: Store, claims: set[str]) -> dict[str, list[str]]:
    """Return for the id of each claim the ids of all claims with its words in its session, its own first."""
    stored = pl.from_arrow(store.read(CLAIMS, ["claim_id", "session_id", "summary"]))
    assert isinstance(stored, pl.DataFrame)
    named = stored.filter(pl.col("claim_id").is_in(sorted(claims)))
    twins = named.join(stored, on=["session_id", "summary"]).sort("claim_id_right")
    groups = {key: [key] for key in claims}
    for key, twin in twins.select("claim_id", "claim_id_right").iter_rows():
        if twin != key:
            groups[key].append(twin)
    return groups
