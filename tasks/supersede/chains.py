"""Writes what the changes mean for each row: the columns CHAIN of OBSERVATIONS and PASSAGES, Arrow in, Arrow out.

A chain is the claims of which each was changed, or perhaps changed, by another one, with what repeats them; its name is
the claim at its end. A row of a chain that no longer holds has the time since when, and how likely that is. A passage
is of the chain of a claim that was made of it, or whose sentence it has word for word. It holds where it tells the end
of the chain too, and the likelier the more other claims were made of it. Summaries have no such columns: of none in the
stores that were measured are all members of one chain.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from slowwave.schemas.tables import CHAIN
from slowwave.schemas.vocabulary import LEADS, PERHAPS_CHANGED, Status

CHAINS = "chains/1"
LINKS = ["observation_id", "status", "canonical_id", "superseded_by", "valid_to", "observed_at", *CHAIN]
CLAIMS = [*LINKS, "workspace", "summary", "quote", "message_ids"]
SAID = ["passage_id", "workspace", "message_id", "text", "ts", *CHAIN]
ROWS_AT_ONCE = 100_000
"""Passages that are cut into sentences together."""
SENTENCE_END = r"[.!?…]+(?:\s+|$)|\n+"
NO_CHAIN = dict.fromkeys(CHAIN)

Row = dict[str, Any]
Links = Mapping[str, tuple[str, float]]
"""Claim -> the later one that perhaps changes it, and how likely that is."""


def read_likely(row: Row) -> float:
    """Return a doubt's probability in the ledger; one that is linked by a model's word alone is as likely as not."""
    likely = float(dict(row["scores"])["likely"])
    return likely if row["rule"] == LEADS else max(likely, PERHAPS_CHANGED)


def find_linked_claims(claims: pa.Table, links: Links) -> list[str]:
    """Return the ids of the claims (columns LINKS) that are, or were, of a chain, or may be: with all they lead to."""
    rows = pl.DataFrame(claims)
    of_status = rows.filter(
        (pl.col("status") == Status.DUPLICATE)
        | (pl.col("status") == Status.SUPERSEDED)
        | pl.col("chain_id").is_not_null()
    )
    ends = (of_status[name] for name in ("observation_id", "canonical_id", "superseded_by"))
    return sorted({*links, *(by for by, _ in links.values()), *pl.concat(ends).drop_nulls()})


def spread_over_claims(claims: pa.Table, links: Links) -> list[Row]:
    """Return the claims (columns LINKS; all of `find_linked_claims`) with their chains."""
    rows = {row["observation_id"]: row for row in claims.to_pylist()}
    first = {key: row["canonical_id"] for key, row in rows.items() if row["status"] == Status.DUPLICATE}
    later = {key: row["superseded_by"] for key, row in rows.items() if row["status"] == Status.SUPERSEDED}
    changed: dict[str, tuple[datetime | None, float | None]] = {
        key: (rows[key]["valid_to"] or rows[by]["observed_at"], 1.0) for key, by in later.items() if by in rows
    }
    for key, (by, likely) in links.items():
        if by in rows and key in rows and rows[key]["status"] == Status.ACTIVE:
            later[key], changed[key] = by, (rows[by]["observed_at"], likely)
    onward = first | later
    # the name of each chain is the claim at its end
    ends = {key: _follow(key, onward, rows) for key in rows}
    chains = {ends[key] for key in changed}
    for key, row in rows.items():
        since = changed.get(_follow(key, first, rows), (None, None))
        row |= dict(zip(CHAIN, (ends[key], *since), strict=True)) if ends[key] in chains else NO_CHAIN
    return list(rows.values())


def spread_over_passages(passages: pa.Table, claims: pa.Table) -> list[Row]:
    """Return the passages that are of a chain, or were, with it, and what stands in a message with them.

    Args:
        passages: all of some workspaces' (columns SAID).
        claims: all of these workspaces' (columns CLAIMS), with their chains.
    """
    # the sentences of claims of chains, and the passages that have one word for word
    sentences = defaultdict[tuple[str | None, str], list[Row]](list)
    cited = set[str]()
    rows, ordered = pl.DataFrame(passages), pl.DataFrame(claims).sort("observation_id")
    for claim in ordered.filter(pl.col("chain_id").is_not_null()).iter_rows(named=True):
        cited.update(claim["message_ids"])
        for text in {_normalise(claim["quote"]), _normalise(claim["summary"])}:
            sentences[claim["workspace"], text].append(claim)
    texts = pl.Series([text for _, text in sentences], dtype=pl.String).implode()
    spoken = pl.col("text").str.to_lowercase().str.replace_all(SENTENCE_END, "\0").str.split("\0")
    line = pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars()
    claims_of = defaultdict[str, dict[str, Row]](dict)
    for batch in rows.select("passage_id", "workspace", spoken).iter_slices(ROWS_AT_ONCE):
        for key, *place in batch.explode("text").with_columns(line).filter(pl.col("text").is_in(texts)).iter_rows():
            claims_of[key] |= {claim["observation_id"]: claim for claim in sentences.get((place[0], place[1]), ())}
    # the messages of these passages and claims, with all claims made of them and what else those cite
    of_chain = pl.col("passage_id").is_in([*claims_of]) | pl.col("chain_id").is_not_null()
    cited.update(rows.filter(of_chain)["message_id"])
    counts = pl.col("status").is_in([Status.ACTIVE, Status.DUPLICATE]) | pl.col("chain_id").is_not_null()
    near = ordered.filter(counts, pl.col("message_ids").list.eval(pl.element().is_in([*cited])).list.any()).to_dicts()
    cited.update(message for claim in near for message in claim["message_ids"])
    there = {row["passage_id"]: row for row in rows.filter(pl.col("message_id").is_in([*cited])).iter_rows(named=True)}
    # claims made of a passage: where several passages are of one message, of the one that has the quote
    by_message = defaultdict[str, list[str]](list)
    for key, row in there.items():
        by_message[row["message_id"]].append(key)
    for claim in near:
        at, quote = [key for m in claim["message_ids"] for key in by_message.get(m, ())], _normalise(claim["quote"])
        for key in [key for key in at if quote in _normalise(there[key]["text"])] or at:
            claims_of[key][claim["observation_id"]] = claim
    # the chain of each; what is said again since the change is not taken back by it
    for key, row in there.items():
        at, theirs = row["ts"], claims_of[key].values()
        row |= _choose_chain([c for c in theirs if not (c["chain_at"] and at and at >= c["chain_at"])])
    return list(there.values())


def _follow(key: str, onward: Mapping[str, str | None], rows: Mapping[str, Row]) -> str:
    """Return the end of the way from a claim to the next."""
    seen = {key}
    while (to := onward.get(key)) in rows and to is not None and to not in seen:
        key = to
        seen.add(key)
    return key


def _choose_chain(claims: list[Row]) -> Row:
    """Return the chain of a passage that tells some claims: the likeliest to have changed, of such the latest."""
    of_chains = [claim for claim in claims if claim["chain_id"]]
    if not of_chains:
        return NO_CHAIN
    best = max(
        of_chains, key=lambda claim: (claim["chain_likely"] or 0.0, str(claim["chain_at"]), claim["observation_id"])
    )
    own = [claim for claim in of_chains if claim["chain_id"] == best["chain_id"]]
    if not all(claim["chain_at"] for claim in own):
        return {**NO_CHAIN, "chain_id": best["chain_id"]}
    return {name: best[name] for name in CHAIN} | {"chain_likely": best["chain_likely"] * len(own) / len(claims)}


def _normalise(text: str) -> str:
    return " ".join(text.split()).lower().rstrip(".!?…")
