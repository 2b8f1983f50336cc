"""How the full-text indexes split texts into words, and which words they leave out."""

from functools import lru_cache
from typing import Any

from lance import tokenize

FULL_TEXT: dict[str, Any] = {
    "with_position": False,
    "base_tokenizer": "simple",
    "language": "English",
    "max_token_length": None,  # by default Lance leaves out words of 40 bytes: a commit's id, 14 Japanese letters
    "lower_case": True,
    "stem": True,
    "remove_stop_words": True,
    "ascii_folding": True,
}
"""How words are indexed. An index that was built otherwise is built anew."""


@lru_cache(maxsize=65_536)
def is_left_out(word: str) -> bool:
    """Return True if the full-text index holds nothing for a word, by the tokenizer that it is built with.

    Lance compares stems with its list of stop words: "owned" is left out as "own" is, and "above" is not.
    """
    return not tokenize(word, **{name: value for name, value in FULL_TEXT.items() if name != "with_position"})
