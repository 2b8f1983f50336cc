"""What a turn does to long-term memory: a cheap estimate, before any night has read it.

The night will know which of a turn's claims are new and which change one; a running conversation can't wait for it. So
each statement of the turn counts by the share of its words that stand in nothing memory just told: all of what is new,
little of what is known, and of a change the value that is another. Questions state nothing.
"""

from slowwave.text.sentences import split_sentences
from slowwave.text.words import ASKS, extract_content_words


def estimate_effect(text: str, block: str | None) -> float:
    """Return the mean over the statements of a turn, 0 to 1; 0 where it has none.

    Args:
        text: the turn.
        block: what memory tells of it (`Context.text`), empty where it knows nothing; None where it was not asked.
    """
    if block is None:
        return 0.0
    known_words, shares = frozenset(extract_content_words(block)), list[float]()
    for sentence in split_sentences(text):
        words = frozenset(extract_content_words(sentence.text))
        asks = ASKS.search(text[sentence.start : sentence.end + 1])  # a sentence may lack the mark that closes it
        if len(words) >= 2 and not asks:  # a thanks or a yes states nothing
            shares.append(len(words - known_words) / len(words))
    return sum(shares) / len(shares) if shares else 0.0
