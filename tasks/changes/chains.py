"""Compute the chain of each row: the columns CHAIN of CLAIMS and PASSAGES, Arrow in, Arrow out.

A chain consists of claims that were changed, or perhaps changed, one by another, and of their duplicates. Its id is
the id of its last claim. A row of a chain that no longer holds has the time of the change and its probability.

A passage belongs to the chain of a claim that was made from it or whose sentence it contains word for word. So does
an earlier passage that states a changed claim in other words: one of its sentences has the claim's old value and most
of the other words, by weight, and not the new value. Of what a model answers the message of a changed claim, an echo
is enough ("Set to 9443 as you asked"). A passage that also states the last claim of the chain still holds. The
more other claims were made from a passage, the lower the probability that it changed. Summaries have no such columns:
in the stores measured, no summary's members are all of one chain.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Set
from datetime import datetime
from functools import cache
from typing import cast

import polars as pl
import pyarrow as pa

from slowwave.schemas.rows import ClaimRow, MergeRow, PassageRow
from slowwave.schemas.tables import CHAIN, NO_CHAIN, ChainRow
from slowwave.schemas.vocabulary import LEADS, PERHAPS_CHANGED, Role, Status
from slowwave.text.rarity import ChangedClaim
from slowwave.text.words import singular_words

CHAINS = "chains/3"
LINKS = [
    "claim_id",
    "status",
    "canonical_id",
    "superseded_by",
    "valid_to",
    "observed_at",
    *CHAIN,
]
CHAIN_COLUMNS = [*LINKS, "workspace", "summary", "quote", "message_ids"]
SAID = ["passage_id", "workspace", "message_id", "text", "ts", *CHAIN]
SAID += ["session_id", "seq", "role"]
ROWS_AT_ONCE = 100_000
"""Passages in one batch that is cut into sentences."""
REWORDED = 0.9
"""Factor on the probability of a change for a passage that states the changed claim in other words."""
STEM_START = 3
"""Letters that a word shares with its stem at least."""
SENTENCE_END = r"[.!?…]+(?:\s+|$)|\n+"

Since = tuple[datetime | None, float | None]
"""Since when a claim no longer holds, and the probability of that."""
ClaimsOf = defaultdict[str, dict[str, ClaimRow]]
"""passage_id -> claim_id -> claim."""
Links = Mapping[str, tuple[str, float]]
"""Claim -> the later claim that perhaps changes it, and the probability."""


def read_likely(row: MergeRow) -> float:
    """Return a doubt's probability; at least PERHAPS_CHANGED if only a model's verdict links the pair."""
    likely = float(dict(row["scores"] or ())["likely"])
    return likely if row["rule"] == LEADS else max(likely, PERHAPS_CHANGED)


def find_linked_claims(claims: pa.Table, links: Links) -> list[str]:
    """Return the ids of claims that are, were or may be in a chain (columns LINKS), and of the claims they lead to."""
    rows = pl.DataFrame(claims)
    of_status = rows.filter(
        (pl.col("status") == Status.DUPLICATE)
        | (pl.col("status") == Status.SUPERSEDED)
        | pl.col("chain_id").is_not_null()
    )
    ends = (of_status[name] for name in ("claim_id", "canonical_id", "superseded_by"))
    return sorted(
        {*links, *(by for by, _ in links.values()), *pl.concat(ends).drop_nulls()}
    )


def spread_over_claims(
    claims: pa.Table,
    links: Links,
    restoring: Set[str] = frozenset(),
) -> list[ClaimRow]:
    """Return the claims (columns LINKS; all of `find_linked_claims`) with their chains.

    restoring: claims linked to one that states an old value again. What they had perhaps changed perhaps holds again.
    """
    rows = {row["claim_id"]: row for row in claims.to_pylist()}
    canonical = {
        key: row["canonical_id"]
        for key, row in rows.items()
        if row["status"] == Status.DUPLICATE
    }
    later = {
        key: row["superseded_by"]
        for key, row in rows.items()
        if row["status"] == Status.SUPERSEDED
    }
    holding = {
        key: link
        for key, link in links.items()
        if link[0] in rows and key in rows and rows[key]["status"] == Status.ACTIVE
    }
    linked = _find_linked(rows, holding, canonical)
    changed = _find_changed(rows, later) | _weigh_restored(linked, holding, restoring)
    later |= {key: by for key, (by, _) in holding.items()}
    # the id of each chain is the id of its last claim
    ends = {key: _follow(key, canonical | later, rows) for key in rows}
    chains = {ends[key] for key in changed}
    for key, row in rows.items():
        if ends[key] in chains:
            since, likelihood = changed.get(_follow(key, canonical, rows), (None, None))
            row |= dict(zip(CHAIN, (ends[key], since, likelihood), strict=True))
        else:
            row |= NO_CHAIN
    return list(rows.values())


def _find_changed(
    rows: Mapping[str, ClaimRow],
    later: Mapping[str, str],
) -> dict[str, Since]:
    """Return superseded claim -> when it was changed, with probability 1, if the claim that changed it is there."""
    return {
        key: (rows[key]["valid_to"] or rows[by]["observed_at"], 1.0)
        for key, by in later.items()
        if by in rows
    }


def _find_linked(
    rows: Mapping[str, ClaimRow],
    links: Links,
    canonical: Mapping[str, str],
) -> dict[str, Since]:
    """Return linked claim -> when it was perhaps changed, and the probability.

    A claim can also be changed by an older one that was said again since.
    """
    repeated = _find_last_times(rows, canonical)
    linked: dict[str, Since] = {}
    for key, (by, likely) in links.items():
        at = rows[by]["observed_at"]
        changed_at = rows[key]["observed_at"]
        is_older = at is not None and changed_at is not None and at < changed_at
        linked[key] = repeated.get(by, at) if is_older else at, likely
    return linked


def _weigh_restored(
    linked: Mapping[str, Since],
    links: Links,
    restoring: Set[str],
) -> dict[str, Since]:
    """Return linked claims, those whose value perhaps holds again with the probability that it does not."""
    weighed = dict(linked)
    for key, (at, likely) in linked.items():
        between, _ = links[key]
        is_restored = between in links and between in restoring
        if is_restored and likely is not None and key not in restoring:
            _, restored = links[between]
            weighed[key] = at, likely * (1.0 - restored)
    return weighed


def _find_last_times(
    rows: Mapping[str, ClaimRow],
    canonical: Mapping[str, str],
) -> dict[str, datetime]:
    """Return claim -> when a duplicate last repeated it."""
    last: dict[str, datetime] = {}
    for key, claim in canonical.items():
        at = rows[key]["observed_at"]
        if at is not None:
            last[claim] = max(last.get(claim, at), at)
    return last


def spread_over_passages(passages: pa.Table, claims: pa.Table) -> list[PassageRow]:
    """Return passages that belong, or belonged, to a chain, and passages near them, with their chain columns.

    A passage is near if a claim cites its message together with one of a chain.

    Args:
        passages: all passages of some workspaces (columns SAID).
        claims: all claims of these workspaces (columns CHAIN_COLUMNS), with their chains.
    """
    rows = pl.DataFrame(passages)
    ordered = pl.DataFrame(claims).sort("claim_id")
    of_chain = _read_claims(ordered.filter(pl.col("chain_id").is_not_null()))
    claims_of = _find_sentences(rows, of_chain)
    _add_restated_claims(claims_of, rows, ordered)
    # the messages of these claims and their passages
    cited = {message for claim in of_chain for message in claim["message_ids"]}
    in_chain = (
        pl.col("passage_id").is_in([*claims_of]) | pl.col("chain_id").is_not_null()
    )
    cited.update(rows.filter(in_chain)["message_id"])
    # all claims made from these messages, and the other messages that they cite
    near = _find_citing_claims(ordered, cited)
    cited.update(message for claim in near for message in claim["message_ids"])
    selected = rows.filter(pl.col("message_id").is_in([*cited]))
    by_id = {
        row["passage_id"]: cast(PassageRow, row)
        for row in selected.iter_rows(named=True)
    }
    _add_source_claims(claims_of, near, by_id)
    for key, row in by_id.items():
        chain = _choose_chain(
            [
                claim
                for claim in claims_of[key].values()
                if not _is_after_change(row, claim)
            ]
        )
        row["chain_id"] = chain["chain_id"]
        row["chain_at"] = chain["chain_at"]
        row["chain_likely"] = chain["chain_likely"]
    return list(by_id.values())


def _find_citing_claims(claims: pl.DataFrame, messages: Set[str]) -> list[ClaimRow]:
    """Return the claims made from some messages that are active, duplicates, or in a chain."""
    counts = (
        pl.col("status").is_in([Status.ACTIVE, Status.DUPLICATE])
        | pl.col("chain_id").is_not_null()
    )
    is_cited = (
        pl.col("message_ids").list.eval(pl.element().is_in([*messages])).list.any()
    )
    return _read_claims(claims.filter(counts, is_cited))


def _read_claims(claims: pl.DataFrame) -> list[ClaimRow]:
    return cast(list[ClaimRow], claims.to_dicts())


def _find_sentences(passages: pl.DataFrame, claims: list[ClaimRow]) -> ClaimsOf:
    """Return the claims whose quote or summary is a sentence of each passage of their workspace."""
    sentences = defaultdict[tuple[str | None, str], list[ClaimRow]](list)
    for claim in claims:
        for text in {_normalise(claim["quote"]), _normalise(claim["summary"])}:
            sentences[claim["workspace"], text].append(claim)
    texts = pl.Series([text for _, text in sentences], dtype=pl.String).implode()
    cut = (
        pl.col("text")
        .str.to_lowercase()
        .str.replace_all(SENTENCE_END, "\0")
        .str.split("\0")
    )
    line = pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars()
    claims_of: ClaimsOf = defaultdict(dict)
    for batch in passages.select("passage_id", "workspace", cut).iter_slices(
        ROWS_AT_ONCE
    ):
        found = (
            batch.explode("text").with_columns(line).filter(pl.col("text").is_in(texts))
        )
        for key, workspace, text in found.iter_rows():
            claims_of[key] |= {
                claim["claim_id"]: claim
                for claim in sentences.get((workspace, text), ())
            }
    return claims_of


def _add_restated_claims(
    claims_of: ClaimsOf,
    passages: pl.DataFrame,
    claims: pl.DataFrame,
) -> None:
    """Add each changed claim to the earlier passages of its workspace that state it in other words, and to those of a
    model that echo it in answer to the message that it was made from.
    """
    # a claim is mostly a sentence of a passage, and passages are looked at for several claims
    read = cache(singular_words)
    answering = _add_answered_messages(passages)
    text = pl.col("text").str.to_lowercase()
    for claim, changed in _list_changed_claims(claims):
        start = changed.rarest[: max(STEM_START, len(changed.rarest) - 2)]
        echoes = pl.col("answered").is_in(claim["message_ids"][:1])
        before = answering.filter(
            pl.col("workspace").eq_missing(pl.lit(claim["workspace"], pl.String)),
            pl.col("ts") < claim["chain_at"],
            text.str.contains(start, literal=True) | echoes,
        )
        likely = REWORDED * (claim["chain_likely"] or 0.0)
        for row in before.iter_rows(named=True):
            is_answer = row["answered"] in claim["message_ids"][:1]
            said = [read(one) for one in re.split(SENTENCE_END, row["text"])]
            if any(map(changed.is_stated, said)) or (
                is_answer and any(map(changed.is_repeated, said))
            ):
                claims_of[row["passage_id"]].setdefault(
                    claim["claim_id"], claim | {"chain_likely": likely}
                )


def _add_answered_messages(passages: pl.DataFrame) -> pl.DataFrame:
    """Return passages with a column `answered`: of a model's passage the person's message before it in its session."""
    by_user = pl.col("role") == Role.USER
    last = pl.when(by_user).then(pl.col("message_id"))
    ordered = passages.sort("session_id", "seq", "passage_id")
    answered = last.forward_fill().over("session_id")
    return ordered.with_columns(answered=pl.when(~by_user).then(answered))


def _list_changed_claims(claims: pl.DataFrame) -> list[tuple[ClaimRow, ChangedClaim]]:
    """Return the claims that were changed, surely or perhaps, and that have an old value."""
    of_chain = claims.filter(pl.col("chain_id").is_not_null())
    by_id = {row["claim_id"]: row for row in _read_claims(of_chain)}
    found = [
        (row, ChangedClaim.from_texts(row["summary"], later["summary"]))
        for row in by_id.values()
        if row["status"] != Status.DUPLICATE
        and row["chain_at"] is not None
        and (row["chain_likely"] or 0.0) >= PERHAPS_CHANGED
        and (later := by_id.get(row["superseded_by"] or row["chain_id"] or ""))
        is not None
    ]
    return [(row, changed) for row, changed in found if changed.old_value]


def _add_source_claims(
    claims_of: ClaimsOf,
    claims: list[ClaimRow],
    passages: Mapping[str, PassageRow],
) -> None:
    """Add each claim to the passages of its messages: to those with its quote, or to all if none has it."""
    by_message = defaultdict[str, list[str]](list)
    for key, row in passages.items():
        by_message[row["message_id"]].append(key)
    for claim in claims:
        quote = _normalise(claim["quote"])
        keys = [
            key
            for message in claim["message_ids"]
            for key in by_message.get(message, ())
        ]
        quoting = [key for key in keys if quote in _normalise(passages[key]["text"])]
        for key in quoting or keys:
            claims_of[key][claim["claim_id"]] = claim


def _is_after_change(passage: PassageRow, claim: ClaimRow) -> bool:
    """Return True if the passage repeats the claim after the change, so that the change does not apply to it."""
    return bool(
        claim["chain_at"] and passage["ts"] and passage["ts"] >= claim["chain_at"]
    )


def _follow(
    key: str,
    onward: Mapping[str, str | None],
    rows: Mapping[str, ClaimRow],
) -> str:
    """Return the last claim that `onward` leads to from a claim."""
    seen = {key}
    while (to := onward.get(key)) in rows and to is not None and to not in seen:
        key = to
        seen.add(key)
    return key


def _choose_chain(claims: list[ClaimRow]) -> ChainRow:
    """Return the chain columns of a passage that states some claims.

    The chain is that of the claim most likely changed, or of the latest change among equals.
    """
    of_chains = [claim for claim in claims if claim["chain_id"]]
    if not of_chains:
        return NO_CHAIN
    best = max(of_chains, key=_rank_change)
    same_chain = [claim for claim in of_chains if claim["chain_id"] == best["chain_id"]]
    if not all(claim["chain_at"] for claim in same_chain):
        return {**NO_CHAIN, "chain_id": best["chain_id"]}
    return ChainRow(
        chain_id=best["chain_id"],
        chain_at=best["chain_at"],
        chain_likely=(best["chain_likely"] or 0.0) * len(same_chain) / len(claims),
    )


def _rank_change(claim: ClaimRow) -> tuple[float, str, str]:
    return claim["chain_likely"] or 0.0, str(claim["chain_at"]), claim["claim_id"]


def _normalise(text: str) -> str:
    return " ".join(text.split()).lower().rstrip(".!?…")
