"""Names and purposes of topics from what their claims are about now.

A keyword names a topic where several of its claims say it and few others do (after the class-based TF-IDF of
Grootendorst, "BERTopic", 2022). Two words together say more than one. A topic whose claims share none has no name.
"""

import re
from collections.abc import Iterable, Sequence

import polars as pl

from slowwave.text.dates import MONTHS, WEEKDAYS
from slowwave.text.words import ENGLISH_STOP, TERM, put_spaces, stem

HASH = re.compile(r"(?=\w*\d)(?=\w*[^\W\d_])(?:\w{12,}|\b[\da-f]{7,}\b)")
WORD = r"[^\W\d_][\w'’.-]*[^\W_]"

LEAST, SHARE = 3, 0.1
"""Claims, and part of the topic's claims, that say a term for it to be the topic's."""
OWN = 0.5
"""Of all claims that say the term, those of the topic at least: "runs" is said everywhere."""
BESIDE = 1 / 3
"""Of the first term's weight, that of another one at least."""
PHRASE = 2.0
"""Weight of a keyword of several words, against one of a single word."""
PHRASED = pl.concat_str(pl.lit(" "), pl.col("stems").list.join(" "), pl.lit(" "))
"""The column `stems` as one text in which each stands between spaces."""


def name_topics(claims: pl.DataFrame, limit: int = 3) -> dict[str, tuple[str, str]]:
    """Return topic -> its name, the foremost terms (at most so many) that its claims share, or "" where they share
    none; and its purpose: what KIND of thing belongs there.

    claims: topic_id, summary, category, workspace, keywords; its words count where no claim of a topic has keywords.
    """
    foremost = _weigh_terms(claims).group_by("topic_id", maintain_order=True).agg("term", "stems")
    names = {topic: ", ".join(_select_distinct(terms, stems, limit)) for topic, terms, stems in foremost.iter_rows()}
    # the commonest categories, and the workspace of more than half of the claims
    kinds = claims.filter(pl.col("category") != "").group_by("topic_id", "category").len()
    kinds = kinds.sort("len", "category", descending=[True, False]).group_by("topic_id").agg(pl.col("category").head(2))
    homes = claims.group_by("topic_id", "workspace").len()
    homes = homes.filter(2 * pl.col("len") > pl.col("len").sum().over("topic_id"))
    categories, workspaces = dict(kinds.iter_rows()), dict(homes.select("topic_id", "workspace").iter_rows())
    described = dict[str, tuple[str, str]]()
    for topic in claims["topic_id"].unique():
        name, workspace = names.get(topic, ""), workspaces.get(topic)
        where = f" in {last}" if workspace and (last := workspace.rstrip("/").rpartition("/")[2]) else ""
        purpose = f"{_describe_categories(categories.get(topic, []))}{where}{f' about {name}' if name else ''}"
        described[topic] = (name, purpose)
    return described


def _weigh_terms(claims: pl.DataFrame) -> pl.DataFrame:
    """Return topic_id, term and stems of what names each topic, the foremost term first."""
    # the stems that enough claims of a topic say
    stemmed = claims.select("topic_id", "summary", "keywords", stems=_list_stems(claims["summary"]))
    large = stemmed.with_columns(size=pl.len().over("topic_id")).filter(pl.col("size") >= LEAST)
    enough = pl.col("len") >= pl.max_horizontal(pl.lit(LEAST), SHARE * pl.col("size"))
    stems = large.select("topic_id", "size", pl.col("stems").list.unique()).explode("stems")
    common = stems.group_by("topic_id", "size", "stems").len().filter(enough)
    # keywords, or words where there are none, of which all stems are among them
    keywords = large.select("topic_id", "size", term="keywords").explode("term").drop_nulls()
    bare = large.join(keywords, on="topic_id", how="anti").select(
        "topic_id", "size", term=pl.col("summary").str.to_lowercase().str.extract_all(WORD)
    )
    words = bare.explode("term").filter(pl.col("term").str.len_chars() > 2, ~pl.col("term").is_in([*ENGLISH_STOP]))
    terms = pl.concat([keywords, words]).with_columns(pl.col("term").str.to_lowercase()).unique(maintain_order=True)
    terms = terms.with_columns(stems=_list_stems(terms["term"])).filter(pl.col("stems").list.len() > 0)
    rare = terms.explode("stems").join(common, on=["topic_id", "stems"], how="anti")
    terms = terms.join(rare, on=["topic_id", "term"], how="anti").with_columns(phrase=PHRASED)
    # how many claims of the topic, and of all, say them
    texts = stemmed.select(
        "topic_id", phrase=PHRASED.str.extract_many(terms["phrase"].unique().implode(), overlapping=True)
    )
    counts = texts.with_columns(pl.col("phrase").list.unique()).explode("phrase").group_by("topic_id", "phrase").len()
    counts = counts.with_columns(overall=pl.col("len").sum().over("phrase"))
    own = terms.join(counts, on=["topic_id", "phrase"]).filter(enough, pl.col("len") >= OWN * pl.col("overall"))
    own = own.filter(pl.Series(map(_names_something, own["term"]), dtype=pl.Boolean))
    # the foremost, and what comes near it
    several = pl.when(pl.col("stems").list.len() > 1).then(PHRASE).otherwise(1.0)
    weighed = own.with_columns(weight=pl.col("len").cast(pl.Float64) ** 2 / pl.col("overall") * several)
    near = weighed.filter(pl.col("weight") >= BESIDE * pl.col("weight").max().over("topic_id"))
    return near.sort("topic_id", -pl.col("weight").round(9), "term").select("topic_id", "term", "stems")


def _list_stems(texts: pl.Series) -> pl.Series:
    """Return the stems of each text's words, in order."""
    spaced = pl.Series(map(put_spaces, texts), dtype=pl.String)
    words = spaced.str.to_lowercase().str.extract_all(TERM.pattern)
    forms = words.explode().drop_nulls().unique()
    stems = pl.Series(map(stem, forms), dtype=pl.String)
    return words.list.eval(pl.element().replace_strict(forms, stems))


def _names_something(term: str) -> bool:
    """Return whether a term is more than days, months and figures, and no path or hash."""
    timeless = any(not (w[0].isdigit() or w in MONTHS or w in WEEKDAYS) for w in TERM.findall(term))
    return timeless and "/" not in term and not HASH.search(term)


def _select_distinct(terms: Sequence[str], stems: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Return the first terms that share no word with one before."""
    chosen: list[str] = []
    used: set[str] = set()
    for term, own in zip(terms, stems, strict=True):
        if len(chosen) < limit and used.isdisjoint(own):
            chosen.append(term)
            used.update(own)
    return chosen


def _describe_categories(categories: Iterable[str]) -> str:
    """Return categories in the plural."""
    return " and ".join(c if c == "context" else f"{c}s" for c in categories).capitalize() or "What was said"
