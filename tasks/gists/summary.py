"""A message's keywords without a model: 2,000 to 4,000 abstracts a second; KeyBERT makes 5, YAKE 130.

A phrase counts by how often its words and itself come up and by how early it first does. On 600 abstracts of Inspec F1
at 5, 10 and 15 is 18.5, 23.1 and 24.5 (RAKE on the same phrases 9.8, 18.2, 22.4; YAKE 13.9, 17.7, 18.8).
"""

import re
from collections import Counter
from itertools import chain
from math import log, log1p, sqrt

from slowwave.tasks.gists.keywords import runs
from slowwave.tasks.observe.scores import word_count
from slowwave.text.sentences import Sentence, sentences

MAX_WORDS = 3
NAME_BONUS = 1.5
"""What a file, a version or an identifier counts more than a plain word: it is what is looked for."""
NAME = re.compile(r"[._/:@#+]|\w-\w*\d|[a-z]\d|\d[a-z]")


def ranked_keywords(text: str, top: int) -> list[str]:
    """The `top` phrases of at most `MAX_WORDS` words, best first, none inside another."""
    words = list(runs(text))
    frequency = Counter(word for run in words for word in run)
    first: dict[tuple[str, ...], int] = {}
    count: Counter[tuple[str, ...]] = Counter()
    for place, run in enumerate(words):
        for phrase in _windows(run):
            first.setdefault(phrase, place)
            count[phrase] += 1

    def score(phrase: tuple[str, ...]) -> float:
        weight = sum(log1p(frequency[word]) * (NAME_BONUS if NAME.search(word) else 1.0) for word in phrase)
        return weight * (1 + log(count[phrase])) / log(3 + first[phrase])

    return _apart(sorted(first, key=score, reverse=True), top)


def _windows(run: list[str]) -> list[tuple[str, ...]]:
    """Phrases of a run: all of it, or each window of `MAX_WORDS`; a number alone is none."""
    size = min(len(run), MAX_WORDS)
    windows = [tuple(run[at : at + size]) for at in range(len(run) - size + 1)]
    return [window for window in windows if not all(word.isdecimal() for word in window)]


def _apart(best: list[tuple[str, ...]], top: int) -> list[str]:
    """The first `top` phrases that share not all of their words with those before."""
    chosen: list[str] = []
    used: set[str] = set()
    for phrase in best:
        if len(chosen) == top:
            break
        if not used.issuperset(phrase):
            chosen.append(" ".join(phrase))
            used.update(phrase)
    return chosen


SHORT = 20
"""Words up to which a message is its own summary."""
SHARE = 0.35
SENTENCES = 3
LEAST, MOST = 20, 45
"""Words of a summary: `SHARE` of the message's, but within these bounds."""
HEAD, TAIL = 16_000, 4_000
"""Characters of a longer text that are read: what is pasted in between is seldom what the message says."""
ENDS = "?!.…。！？"
CLAUSE_ENDS = ",;:–—)"


class NoSentence(ValueError):
    """A text holds no sentence in prose: code, a table, a log, or signs alone."""


def summary(text: str) -> str:
    """Up to three of the text's sentences, in their order, of at most `budget` words in all.

    Raises:
        NoSentence: there is no prose in the text.
    """
    everything = sentences(considered(text))
    if not everything:
        raise NoSentence("no sentence in prose")
    found = [sentence for sentence in everything if any(runs(sentence.text))] or everything
    words = word_count(text)
    if words <= SHORT:
        return _joined(found)
    return _joined(_chosen(found, budget(words)), budget(words))


def budget(words: int) -> int:
    """Words that the summary of a message of `words` words may have."""
    return min(MOST, max(LEAST, int(SHARE * words)))


def considered(text: str) -> str:
    """The text, or the beginning and the end of one that is very long."""
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n\n{text[-TAIL:]}"


def shortened(text: str, words: int) -> str:
    """The first `words` words of a text, fewer if a clause ends in their last third, and … if something is left out.

    A language without spaces counts two characters as a word.
    """
    if word_count(text) <= words:
        return " ".join(text.split())
    kept: list[str] = []
    count = 0
    for word in text.split():
        count += word_count(word)
        if count > words:
            break
        kept.append(word)
    if not kept:
        return text.strip()[: 2 * words] + "…"
    for end in range(len(kept), 2 * words // 3, -1):
        if kept[end - 1][-1] in CLAUSE_ENDS:
            kept = kept[:end]
            break
    return " ".join(kept).rstrip(CLAUSE_ENDS + " ") + "…"


def _chosen(found: list[Sentence], words: int) -> list[Sentence]:
    """The best sentence, then, while they fit, others for what they add; in the order of the text."""
    contents = [[word for run in runs(sentence.text) for word in run] for sentence in found]
    weight = {word: log1p(count) for word, count in Counter(chain.from_iterable(contents)).items()}
    sizes = [word_count(sentence.text) for sentence in found]
    left, rows = words, set(range(len(found)))
    taken: list[int] = []
    while rows and len(taken) < SENTENCES:
        best = max(rows, key=lambda row: _score(contents[row], found[row].position, weight))
        taken.append(best)
        left -= sizes[best]
        weight.update(dict.fromkeys(contents[best], 0.0))
        rows = {row for row in rows if row != best and sizes[row] <= left}
    return [found[row] for row in sorted(taken)]


def _score(content: list[str], position: int, weight: dict[str, float]) -> float:
    """Weight of a sentence's distinct words by the root of its length; early sentences are favoured."""
    return sum(weight[word] for word in set(content)) / sqrt(1 + len(content)) / log1p(1 + position)


def _joined(chosen: list[Sentence], words: int | None = None) -> str:
    """The sentences as running text."""
    texts = [" ".join(sentence.text.split()) for sentence in chosen]
    text = " ".join(t if t[-1] in ENDS or t is texts[-1] else f"{t}." for t in texts)
    return text if words is None else shortened(text, words)
