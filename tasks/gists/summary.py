"""A message's keywords and summary without a model.

`rank_keywords`: 2,000 to 4,000 abstracts a second; KeyBERT makes 5, YAKE 130. A phrase counts by how often its words
and itself come up and by how early it first does. On 600 abstracts of Inspec F1 at 5, 10 and 15 is 18.5, 23.1 and 24.5
(RAKE on the same phrases 9.8, 18.2, 22.4; YAKE 13.9, 17.7, 18.8).
"""

import re
from collections import Counter
from itertools import chain
from math import log, log1p, sqrt

from slowwave.tasks.gists.keywords import split_word_runs
from slowwave.tasks.observe.scores import count_words
from slowwave.text.sentences import Sentence, split_sentences

MAX_WORDS = 3
NAME_BONUS = 1.5
"""What a file, a version or an identifier counts more than a plain word: it is what is looked for."""
NAME = re.compile(r"[._/:@#+]|\w-\w*\d|[a-z]\d|\d[a-z]")


def rank_keywords(text: str, top: int) -> list[str]:
    """Return the `top` phrases of at most `MAX_WORDS` words, best first, none inside another."""
    words = list(split_word_runs(text))
    frequency = Counter(word for run in words for word in run)
    first: dict[tuple[str, ...], int] = {}
    count: Counter[tuple[str, ...]] = Counter()
    for place, run in enumerate(words):
        for phrase in _split_windows(run):
            first.setdefault(phrase, place)
            count[phrase] += 1

    def score(phrase: tuple[str, ...]) -> float:
        weight = sum(log1p(frequency[word]) * (NAME_BONUS if NAME.search(word) else 1.0) for word in phrase)
        return weight * (1 + log(count[phrase])) / log(3 + first[phrase])

    return _select_distinct(sorted(first, key=score, reverse=True), top)


def _split_windows(run: list[str]) -> list[tuple[str, ...]]:
    """Return phrases of a run: all of it, or each window of `MAX_WORDS`; a number alone is none."""
    size = min(len(run), MAX_WORDS)
    windows = [tuple(run[at : at + size]) for at in range(len(run) - size + 1)]
    return [window for window in windows if not all(word.isdecimal() for word in window)]


def _select_distinct(best: list[tuple[str, ...]], top: int) -> list[str]:
    """Return the first `top` phrases that share not all of their words with those before."""
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


def summarize_text(text: str) -> str:
    """Return up to three of the text's sentences, in their order, of at most `words` words in all.

    Raises:
        NoSentence: there is no prose in the text.
    """
    everything = split_sentences(truncate_middle(text))
    if not everything:
        raise NoSentence("no sentence in prose")
    found = [sentence for sentence in everything if any(split_word_runs(sentence.text))] or everything
    words = count_words(text)
    if words <= SHORT:
        return _join_sentences(found)
    return _join_sentences(_select_sentences(found, compute_word_budget(words)), compute_word_budget(words))


def compute_word_budget(words: int) -> int:
    """Return words that the summary of a message of `words` words may have."""
    return min(MOST, max(LEAST, int(SHARE * words)))


def truncate_middle(text: str) -> str:
    """Return the text, or the beginning and the end of one that is very long."""
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n\n{text[-TAIL:]}"


def truncate_words(text: str, words: int) -> str:
    """Return the first `words` words of a text, fewer if a clause ends in their last third, and … if something is left
    out.

    A language without spaces counts two characters as a word.
    """
    if count_words(text) <= words:
        return " ".join(text.split())
    kept: list[str] = []
    count = 0
    for word in text.split():
        count += count_words(word)
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


def _select_sentences(found: list[Sentence], words: int) -> list[Sentence]:
    """Return the best sentence, then, while they fit, others for what they add; in the order of the text."""
    contents = [[word for run in split_word_runs(sentence.text) for word in run] for sentence in found]
    weight = {word: log1p(count) for word, count in Counter(chain.from_iterable(contents)).items()}
    sizes = [count_words(sentence.text) for sentence in found]
    left, rows = words, set(range(len(found)))
    taken: list[int] = []
    while rows and len(taken) < SENTENCES:
        best = max(rows, key=lambda row: _score_sentence(contents[row], found[row].position, weight))
        taken.append(best)
        left -= sizes[best]
        weight.update(dict.fromkeys(contents[best], 0.0))
        rows = {row for row in rows if row != best and sizes[row] <= left}
    return [found[row] for row in sorted(taken)]


def _score_sentence(content: list[str], position: int, weight: dict[str, float]) -> float:
    """Return weight of a sentence's distinct words by the root of its length; early sentences are favoured."""
    return sum(weight[word] for word in set(content)) / sqrt(1 + len(content)) / log1p(1 + position)


def _join_sentences(chosen: list[Sentence], words: int | None = None) -> str:
    """Return the sentences as running text."""
    texts = [" ".join(sentence.text.split()) for sentence in chosen]
    text = " ".join(t if t[-1] in ENDS or t is texts[-1] else f"{t}." for t in texts)
    return text if words is None else truncate_words(text, words)
