"""Extractive summaries: the most central sentences of some texts, in their order.

Method: LexRank with degree centrality (Erkan & Radev, "LexRank: Graph-based lexical centrality as salience in text
summarization", JAIR 22, 2004) over TF-IDF, and a penalty for what is already said (Carbonell & Goldstein, MMR, 1998).
No model: a thousand groups take about a second.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slowwave.text.sentences import split_sentences
from slowwave.text.words import SENTENCE_ENDS, UNSPACED, put_spaces

REDUNDANCY = 0.3
"""Weight of similarity to sentences already chosen, against centrality."""
SHORTEST = 3
"""Sentences of fewer words say nothing on their own."""
LETTERS = 20
"""Letters of a word, at most, in scripts that put no spaces between words."""


@dataclass(frozen=True)
class Utterance:
    """One member of a group: what it says, and who says it."""

    text: str
    speaker: str | None = None


def build_extractive_summary(
    parts: Sequence[Utterance],
    max_words: int,
    context: Sequence[Utterance] = (),
) -> str:
    """Return the most central sentences of the parts, at most `max_words` words, in order, each with its speaker.

    Args:
        parts: the group's members in order.
        max_words: most words. If no sentence is short enough, the first one is cut, with an ellipsis.
        context: the texts before the group. They count in centrality, but are not quoted.

    Returns:
        One line of text; empty if the parts have no words.
    """
    own = list(
        dict.fromkeys((p.speaker, s) for p in parts for s in _extract_sentences(p.text))
    )
    if not own:
        return truncate_words(" ".join(p.text for p in parts), max_words)
    around = [s for p in context for s in _extract_sentences(p.text)]
    chosen = _select_central_sentences([s for _, s in own], around, max_words)
    if not chosen:
        return truncate_words(own[0][1], max_words)
    # in their order, the speaker named when it changes
    pieces: list[str] = []
    before: str | None = None
    for speaker, sentence in (own[i] for i in sorted(chosen)):
        ended = end_sentence(sentence)
        pieces.append(f"{speaker}: {ended}" if speaker and speaker != before else ended)
        before = speaker
    return " ".join(pieces)


def _extract_sentences(text: str) -> list[str]:
    sentences = [" ".join(text[s.start : s.end].split()) for s in split_sentences(text)]
    return [s for s in sentences if count_words(s) >= SHORTEST]


def _select_central_sentences(
    own: list[str],
    around: list[str],
    max_words: int,
) -> list[int]:
    """Return the indices of the chosen sentences, best first, until none fits into `max_words`.

    Args:
        own: the sentences to choose from.
        around: sentences that only count in centrality.
        max_words: most words of the chosen sentences together.
    """
    likeness = _compare_sentences(own + around) if len(own) > 1 else None
    words = [*map(count_words, own)]
    if likeness is None:
        return [0] if words[0] <= max_words else []
    # How much each sentence says of what the others say.
    central = likeness.sum(axis=1)[: len(own)] / max(1, len(own) + len(around))
    central = (1 - REDUNDANCY) * central / (central.max() or 1.0)
    likeness = likeness[: len(own), : len(own)]
    chosen: list[int] = []
    room = max_words
    redundant = np.zeros(len(own))
    for _ in own:
        scores = central - REDUNDANCY * redundant
        fits = [i for i in range(len(own)) if i not in chosen and words[i] <= room]
        if not fits:
            break
        best = max(fits, key=lambda i: (round(float(scores[i]), 6), -i))
        chosen.append(best)
        room -= words[best]
        redundant = np.maximum(redundant, likeness[best])
    return chosen


def _compare_sentences(sentences: list[str]) -> npt.NDArray[np.float64] | None:
    """Return the cosines of the sentences' TF-IDF vectors, shape (n, n); None if they have nothing but stop words."""
    # Imported here: it takes a second, and a night without news summarises nothing.
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    try:
        weights = vectorizer.fit_transform(map(put_spaces, sentences))
    except ValueError:
        return None
    return (weights @ weights.T).toarray()  # type: ignore[no-any-return]


def count_words(text: str) -> int:
    """Return the number of words, in scripts without spaces too."""
    return len(put_spaces(text).split())


def truncate_words(text: str, max_words: int) -> str:
    """Return a text on one line, cut after `max_words` words with an ellipsis if it is longer."""
    words = text.split()
    plain = " ".join(words)
    if UNSPACED.search(plain):
        head = plain[: LETTERS * max_words]
        places = range(len(head) + 1)
        at = bisect(places, max_words, key=lambda end: count_words(head[:end])) - 1
        return plain if at >= len(plain) else f"{head[:at].rstrip()} …"
    return plain if len(words) <= max_words else " ".join(words[:max_words]) + " …"


def pick_leading_sentences(texts: Iterable[str], max_words: int) -> list[str]:
    """Return the first texts that have at most `max_words` words together, as sentences. The first one may be cut."""
    chosen: list[str] = []
    room = max_words
    for text in texts:
        room -= count_words(text)
        if chosen and room < 0:
            break
        chosen.append(end_sentence(truncate_words(text, max_words)))
    return chosen


def end_sentence(text: str) -> str:
    """Return a text with a mark at its end."""
    return text if text[-1] in SENTENCE_ENDS else f"{text}."


ASKED = "Asked:"
SAID = "Said:"
REPORTED = "Reported:"
IN_PASSING = "In passing:"
TOLD_PARTS = (ASKED, SAID, REPORTED)
"""Labels of what a session's summary by rules tells, in their order."""
UNANSWERED = "Unanswered:"
OPEN_PARTS = (UNANSWERED, "Open:")
"""Labels of the last part of a session's summary by rules: a person's last words, or an agent's question."""


def split_open_part(text: str) -> tuple[str, str, str]:
    """Return a session's summary without its open part, then the label and the text of that part.

    Both are "" if the summary has no open part.
    """
    for label in OPEN_PARTS:
        before, found, after = text.rpartition(f" {label} ")
        if found:
            return before, label, after
    return text, "", ""


def split_told_parts(text: str) -> dict[str, str] | None:
    """Return the text of each of TOLD_PARTS that a session's summary by rules has, without its open part.

    Empty if it tells nothing but what was said IN_PASSING; None if it has no such labels.
    """
    rest = f" {text}"
    parts = dict[str, str]()
    for label in reversed(TOLD_PARTS):
        before, found, after = rest.rpartition(f" {label} ")
        if found:
            parts[label] = after
            rest = before
    is_of_parts = bool(parts) and not rest.strip()
    return parts if is_of_parts or rest.startswith(f" {IN_PASSING} ") else None
