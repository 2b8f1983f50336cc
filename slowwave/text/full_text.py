"""Split texts into words: the tokenizer of the full-text indexes, and the words that they leave out.

Words are split by Unicode's rules (UAX 29) and at every sign. ICU's dictionaries split scripts without spaces between
words (Chinese, Japanese, Thai). For English the result is that of Lance's "simple" tokenizer
(`docs/decisions/021-languages.md`).
"""

from functools import lru_cache
from typing import Any

from lance import tokenize

from slowwave.text.languages import ENGLISH, STOP_WORDS

LEFT_OUT = sorted(word for word in STOP_WORDS[ENGLISH] if word.isalpha())
"""Words that the indexes leave out. They are listed, since ICU's default is the stop words of all languages at once: it
would leave out "com", a stop word of Portuguese.
"""
FULL_TEXT: dict[str, Any] = {
    "with_position": False,
    "base_tokenizer": "icu/split",
    "language": "English",
    # By default Lance leaves out words of 40 bytes: a commit's id, 14 Japanese letters.
    "max_token_length": None,
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "custom_stop_words": LEFT_OUT,
    "ascii_folding": True,
}
"""Settings of the full-text indexes. An index with other settings is built again."""
TOKENIZER = {
    name: value for name, value in FULL_TEXT.items() if name != "with_position"
}
LONGEST_RUN = 1_000
"""Most letters without a space that are split together, since ICU takes quadratic time."""


@lru_cache(maxsize=65_536)
def is_left_out(word: str) -> bool:
    """Return True if the full-text index leaves a word out.

    Lance compares stems with the list of stop words. So "owned" is left out like "own", and "above" is not.
    """
    return not tokenize(word, **TOKENIZER)


@lru_cache(maxsize=16_384)
def split_run(run: str) -> tuple[str, ...]:
    """Return the words of a run of letters by ICU's dictionaries, in order and in lower case."""
    whole = {
        "base_tokenizer": "icu",
        "stem": False,
        "remove_stop_words": False,
        "ascii_folding": False,
    }
    # "icu/split" would remove the tone marks of Thai words
    plain: dict[str, Any] = {
        **TOKENIZER,
        **whole,
    }
    parts = [run[at : at + LONGEST_RUN] for at in range(0, len(run), LONGEST_RUN)]
    return tuple(token.text for part in parts for token in tokenize(part, **plain))
