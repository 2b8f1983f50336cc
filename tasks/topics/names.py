"""Names and purposes of topics, from the terms of their claims.

A term names a topic if several of its claims contain it and few others do (after the class-based TF-IDF of
Grootendorst, "BERTopic", 2022). A phrase counts more than a single word. A topic whose claims share no term has no
name. Its purpose lists the words that most of its claims have, and what kinds of claims they are.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from slowwave.text.cells import shorten_text
from slowwave.text.languages import ENGLISH, is_stop_word, stem_in
from slowwave.text.stop_words import count_stop_words
from slowwave.text.times.dates import MONTHS, WEEKDAYS
from slowwave.text.words import (
    ENGLISH_STOP,
    TERM,
    find_text_language,
    put_spaces,
    stem,
)

VERSION = 2
"""Raised when names or purposes change: the topics are named again."""
WORDS = 3
"""Most words of a purpose; twice as many if another topic's has the same."""
SAMPLE_CHARS = 60
"""Characters of the claim that tells topics apart whose words are the same."""
HASH = re.compile(r"(?=\w*\d)(?=\w*[^\W\d_])(?:\w{12,}|\b[\da-f]{7,}\b)")
WORD = r"[^\W\d_][\w'’.-]*[^\W_]"
SAMPLE = 1_000
"""Claims, about, that tell the language of those in which too few words do."""
SHORT = 2
"""Letters of a word that says nothing without a keyword, in Latin script."""

LEAST = 3
SHARE = 0.1
"""A term is a topic's if at least this many, and this share, of the topic's claims contain it."""
OWN = 0.5
"""Least share of the topic's claims among all claims with the term. A word such as "runs" occurs in every topic."""
BESIDE = 1 / 3
"""Least weight of a further term, as a share of the first term's weight."""
ENOUGH = pl.col("len") >= pl.max_horizontal(pl.lit(LEAST), SHARE * pl.col("size"))
"""A filter for terms that enough claims (`len`) of a topic (`size`) contain."""
PHRASE = 2.0
"""Weight of a term of several words, relative to a single word."""
PHRASED = pl.concat_str(pl.lit(" "), pl.col("stems").list.join(" "), pl.lit(" "))
"""The column `stems` as one text, with a space around each stem."""


def name_topics(claims: pl.DataFrame, limit: int = 3) -> dict[str, tuple[str, str]]:
    """Return topic -> its name and its purpose.

    The name lists the best terms that its claims share, at most `limit`, or is empty. The purpose says what kind of
    claim belongs there: no two topics have the same, but for the same claims.

    claims: topic_id, summary, category, workspace, keywords. If no claim of a topic has keywords, words are used.
    """
    # once for all that follows: half of a night with 1% news went into finding them again
    claims = claims.with_columns(
        language=pl.Series(map(find_text_language, claims["summary"]), dtype=pl.String),
        words=_list_terms_of(claims["summary"]),
    )
    best = (
        _weigh_terms(claims)
        .group_by("topic_id", maintain_order=True)
        .agg("term", "stems")
    )
    names = {
        topic: ", ".join(_select_distinct(terms, stems, limit))
        for topic, terms, stems in best.iter_rows()
    }
    purposes = _describe_purposes(claims, names)
    return {
        topic: (names.get(topic, ""), purpose) for topic, purpose in purposes.items()
    }


def _describe_purposes(
    claims: pl.DataFrame,
    names: Mapping[str, str],
) -> dict[str, str]:
    """Return topic -> what kind of claim belongs there, by its name or else its commonest words.

    If another topic has the same, more words are named, and then the start of a claim.
    """
    categories = _find_categories(claims)
    workspaces = _find_workspaces(claims)
    unnamed = claims.filter(~pl.col("topic_id").is_in([*filter(names.get, names)]))
    words = _find_common_words(unnamed)
    first = claims.unique("topic_id", keep="first", maintain_order=True)
    purposes: dict[str, str] = {}
    taken: set[str] = set()
    for topic, summary in first.select("topic_id", "summary").iter_rows():
        name = names.get(topic, "")
        own = words.get(topic, [])
        abouts = [name] if name else [", ".join(own[:WORDS]), ", ".join(own)]
        tried = [
            _describe_purpose(about, categories.get(topic, []), workspaces.get(topic))
            for about in abouts
        ]
        tried.append(
            f"{tried[-1]}: {shorten_text(' '.join(summary.split()), SAMPLE_CHARS)}"
        )
        purpose = next((one for one in tried if one not in taken), tried[-1])
        taken.add(purpose)
        purposes[topic] = purpose
    return purposes


def _find_common_words(claims: pl.DataFrame) -> dict[str, list[str]]:
    """Return topic -> its commonest keywords or else words, those that others have less first, each word once."""
    numbered = claims.with_row_index("claim")
    has_keywords = (pl.col("keywords").list.len() > 0).fill_null(value=False)
    without = numbered.filter(~has_keywords)
    said = [
        numbered.filter(has_keywords).select("claim", "topic_id", term="keywords"),
        without.select("claim", "topic_id", term=_list_words(without)),
    ]
    terms = (
        pl.concat(said)
        .sort("claim")
        .explode("term")
        .drop_nulls("term")
        .with_columns(pl.col("term").str.to_lowercase())
        .unique(["claim", "term"], keep="first", maintain_order=True)
    )
    terms = terms.filter(
        pl.Series(map(_names_something, terms["term"]), dtype=pl.Boolean)
    )
    stems = _list_stems(_list_terms_of(terms["term"]), _find_stems(claims))
    counts = (
        terms.with_columns(stems=stems)
        .group_by("topic_id", "stems", maintain_order=True)
        .agg(pl.col("term").first(), pl.len())
        .with_columns(weight=pl.col("len") ** 2 / pl.col("len").sum().over("stems"))
        .sort("weight", descending=True, maintain_order=True)
        .group_by("topic_id", maintain_order=True)
        .agg("term", "stems")
    )
    return {
        topic: _select_distinct(found, own, 2 * WORDS)
        for topic, found, own in counts.iter_rows()
    }


def _find_categories(claims: pl.DataFrame) -> dict[str, list[str]]:
    """Return topic -> its two most frequent categories."""
    kinds = (
        claims.filter(pl.col("category") != "").group_by("topic_id", "category").len()
    )
    kinds = (
        kinds.sort("len", "category", descending=[True, False])
        .group_by("topic_id")
        .agg(pl.col("category").head(2))
    )
    return dict(kinds.iter_rows())


def _find_workspaces(claims: pl.DataFrame) -> dict[str, str | None]:
    """Return topic -> the workspace of more than half of its claims."""
    homes = claims.group_by("topic_id", "workspace").len()
    homes = homes.filter(2 * pl.col("len") > pl.col("len").sum().over("topic_id"))
    return dict(homes.select("topic_id", "workspace").iter_rows())


def _describe_purpose(
    name: str,
    categories: Sequence[str],
    workspace: str | None,
) -> str:
    """Return a purpose such as "Decisions and facts in tidepool about gauges"."""
    folder = workspace.rstrip("/").rpartition("/")[2] if workspace else ""
    where = f" in {folder}" if folder else ""
    about = f" about {name}" if name else ""
    return f"{_describe_categories(categories)}{where}{about}"


def _weigh_terms(claims: pl.DataFrame) -> pl.DataFrame:
    """Return topic_id, term and stems of the terms that name each topic, the best first."""
    known = _find_stems(claims)
    stemmed = claims.select(
        "topic_id",
        "summary",
        "keywords",
        "language",
        stems=_list_stems(claims["words"], known),
    )
    large = stemmed.with_columns(size=pl.len().over("topic_id")).filter(
        pl.col("size") >= LEAST
    )
    own = _select_own_terms(stemmed, _select_common_terms(large, known))
    # the best term, and those with a similar weight
    several = pl.when(pl.col("stems").list.len() > 1).then(PHRASE).otherwise(1.0)
    weighed = own.with_columns(
        weight=pl.col("len").cast(pl.Float64) ** 2 / pl.col("overall") * several
    )
    near = weighed.filter(
        pl.col("weight") >= BESIDE * pl.col("weight").max().over("topic_id")
    )
    return near.sort("topic_id", -pl.col("weight").round(9), "term").select(
        "topic_id", "term", "stems"
    )


def _select_common_terms(
    claims: pl.DataFrame,
    known: Mapping[str, str],
) -> pl.DataFrame:
    """Return the terms of each topic whose stems are all common in it: topic_id, size, term, stems, phrase."""
    each = claims.select("topic_id", "size", pl.col("stems").list.unique()).explode(
        "stems"
    )
    common = each.group_by("topic_id", "size", "stems").len().filter(ENOUGH)
    terms = _list_terms(claims)
    stems = _list_stems(_list_terms_of(terms["term"]), known)
    terms = terms.with_columns(stems=stems).filter(pl.col("stems").list.len() > 0)
    rare = terms.explode("stems").join(common, on=["topic_id", "stems"], how="anti")
    return terms.join(rare, on=["topic_id", "term"], how="anti").with_columns(
        phrase=PHRASED
    )


def _list_terms(claims: pl.DataFrame) -> pl.DataFrame:
    """Return the keywords of each topic, or the words of its claims if none has keywords: topic_id, size, term."""
    keywords = (
        claims.select("topic_id", "size", term="keywords").explode("term").drop_nulls()
    )
    without = claims.join(keywords, on="topic_id", how="anti")
    words = without.select(
        "topic_id",
        "size",
        term=_list_words(without),
    )
    words = words.explode("term").drop_nulls("term")
    return (
        pl.concat([keywords, words])
        .with_columns(pl.col("term").str.to_lowercase())
        .unique(maintain_order=True)
    )


def _list_words(claims: pl.DataFrame) -> pl.Series:
    """Return the content words of each claim's text in lower case, without short Latin ones."""
    spaced = pl.Series(
        [put_spaces(text, endings=False) for text in claims["summary"]],
        dtype=pl.String,
    )
    words = spaced.str.to_lowercase().str.extract_all(WORD)
    says = [
        [word for word in row if not _is_stop_word(word, language)]
        for row, language in zip(words, claims["language"], strict=True)
    ]
    return pl.Series(says, dtype=pl.List(pl.String))


def _is_stop_word(word: str, language: str | None) -> bool:
    if language in (None, ENGLISH):
        return word in ENGLISH_STOP or len(word) <= SHORT
    return is_stop_word(word, language) or (word.isascii() and len(word) <= SHORT)


def _select_own_terms(claims: pl.DataFrame, terms: pl.DataFrame) -> pl.DataFrame:
    """Return the terms that mostly occur in their topic, with the number of its claims and of all claims with them."""
    phrases = PHRASED.str.extract_many(
        terms["phrase"].unique().implode(), overlapping=True
    )
    texts = claims.select("topic_id", phrase=phrases).with_columns(
        pl.col("phrase").list.unique()
    )
    counts = texts.explode("phrase").group_by("topic_id", "phrase").len()
    counts = counts.with_columns(overall=pl.col("len").sum().over("phrase"))
    own = terms.join(counts, on=["topic_id", "phrase"]).filter(
        ENOUGH, pl.col("len") >= OWN * pl.col("overall")
    )
    own = own.filter(pl.Series(map(_names_something, own["term"]), dtype=pl.Boolean))
    return own.filter(_find_content_terms(own, claims, texts))


def _find_content_terms(
    terms: pl.DataFrame, claims: pl.DataFrame, texts: pl.DataFrame
) -> pl.Series:
    """Return a mask of the terms with a content word, in the language of the topic's claims with the term.

    Args:
        terms: the columns topic_id, term and phrase.
        claims: the column summary.
        texts: the phrases of each claim, in order of the claims.
    """
    said = claims.select("topic_id", "summary").with_columns(phrase=texts["phrase"])
    said = said.explode("phrase").group_by("topic_id", "phrase").agg("summary")
    found = terms.join(
        said,
        on=["topic_id", "phrase"],
        how="left",
        maintain_order="left",
    )
    has_content = []
    for term, summaries in found.select("term", "summary").iter_rows():
        language = find_text_language(" ".join(summaries))
        has_content.append(
            not all(_is_stop_word(word, language) for word in term.split())
        )
    return pl.Series(has_content, dtype=pl.Boolean)


def _find_stems(claims: pl.DataFrame) -> dict[str, str]:
    """Return the stem of each word of the claims, in the language of most claims that have it."""
    memory = count_stop_words(claims["summary"].gather_every(1 + len(claims) // SAMPLE))
    languages = pl.Series(
        [
            memory.settle_language(language) or ENGLISH
            for language in claims["language"]
        ],
        dtype=pl.String,
    )
    votes = pl.DataFrame({"word": claims["words"], "language": languages})
    votes = votes.explode("word").drop_nulls("word").group_by("word", "language").len()
    best = votes.sort("len", "language", descending=[True, False])
    rows = best.unique("word", keep="first", maintain_order=True)
    return {
        word: stem(word) if language == ENGLISH else stem_in(word, language)
        for word, language in rows.select("word", "language").iter_rows()
    }


def _list_terms_of(texts: pl.Series) -> pl.Series:
    """Return the words of each text in order, in lower case."""
    spaced = pl.Series(map(put_spaces, texts), dtype=pl.String)
    return spaced.str.to_lowercase().str.extract_all(TERM.pattern)


def _list_stems(words: pl.Series, known: Mapping[str, str]) -> pl.Series:
    """Return the stems of each text's words, in order. A word that is not `known` has its English stem."""
    forms = words.explode().drop_nulls().unique()
    stems = pl.Series(
        [known.get(form) or stem(form) for form in forms], dtype=pl.String
    )
    return words.list.eval(pl.element().replace_strict(forms, stems))


def _names_something(term: str) -> bool:
    """Return True if a term has a word other than days, months and figures, and is not a path or hash."""
    timeless = any(
        not (w[0].isdigit() or w in MONTHS or w in WEEKDAYS) for w in TERM.findall(term)
    )
    return timeless and "/" not in term and not HASH.search(term)


def _select_distinct(
    terms: Sequence[str],
    stems: Sequence[Sequence[str]],
    limit: int,
) -> list[str]:
    """Return the first terms that share no word with an earlier one, at most `limit`."""
    chosen: list[str] = []
    used: set[str] = set()
    for term, own in zip(terms, stems, strict=True):
        if len(chosen) < limit and used.isdisjoint(own):
            chosen.append(term)
            used.update(own)
    return chosen


def _describe_categories(categories: Iterable[str]) -> str:
    """Return categories in the plural."""
    return (
        " and ".join(c if c == "context" else f"{c}s" for c in categories).capitalize()
        or "What was said"
    )
