"""How texts are split into words: the tokenizer of the full-text indexes, and which words they leave out.

Words are split as Unicode says (UAX 29) and at every sign. ICU's dictionaries split scripts that put no space between
words (Chinese, Japanese, Thai). On English this gives the words of Lance's "simple" tokenizer
(`docs/decisions/021-languages.md`).
"""

from functools import lru_cache
from typing import Any

from lance import tokenize

from slowwave.text.languages import ENGLISH, STOP_WORDS

LEFT_OUT = sorted(word for word in STOP_WORDS[ENGLISH] if word.isalpha())
"""Words that are left out. They are given by name: ICU's default is the stop words of all languages at once, and leaves
out "com", which is one of Portuguese.
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
"""How words are indexed. An index that was built otherwise is built anew."""
TOKENIZER = {
    name: value for name, value in FULL_TEXT.items() if name != "with_position"
}
LONGEST_RUN = 1_000
"""Letters without a space that are split together: ICU takes quadratic time over them."""


@lru_cache(maxsize=65_536)
def is_left_out(word: str) -> bool:
    """Return True if the full-text index holds nothing for a word, by the tokenizer that it is built with.

    Lance compares stems with its list of stop words: "owned" is left out as "own" is, and "above" is not.
    """
    return not tokenize(word, **TOKENIZER)


@lru_cache(maxsize=16_384)
def split_run(run: str) -> tuple[str, ...]:
    """Return the words of a run of letters, in order, in lower case, as ICU's dictionaries split it."""
    whole = {
        "base_tokenizer": "icu",
        "stem": False,
        "remove_stop_words": False,
        "ascii_folding": False,
    }
    # "icu/split" takes the tones out of Thai words.
    plain: dict[str, Any] = {
        **TOKENIZER,
        **whole,
    }
    parts = [run[at : at + LONGEST_RUN] for at in range(0, len(run), LONGEST_RUN)]
    return tuple(token.text for part in parts for token in tokenize(part, **plain))
