"""How many tokens a text has: by the model's own tokenizer where there is one, else by an estimate.

The estimate goes by kinds of characters, as byte-pair tokenizers cut them: letters in pieces of a few, digits and
signs mostly one by one. It is made to err upwards: a prompt that is refused for nothing costs a cut more, one that is
too long costs the whole request.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from slowwave.engines.llm import EngineUnavailable

TokenCounter = Callable[[Sequence[str]], list[int]]

PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]{1,2}|\d|[^\S\n]*\n\s*|[^\S\n]{2,}|[^\x00-\x7f]|[^\w\s]+|_")
LETTERS_A_TOKEN = 5
"""Tokens of a word, a hump of camel case or a run of random letters: one for each five letters begun."""


def token_counter(folder: str | None) -> TokenCounter:
    """Counts by the `tokenizer.json` in `folder`; without a folder, by estimate.

    Raises:
        EngineUnavailable: there is no tokenizer in that folder.
    """
    if folder is None:
        return estimated_tokens
    file = Path(folder).expanduser() / "tokenizer.json"
    if not file.is_file():
        raise EngineUnavailable("tokenizer", f"no tokenizer.json in {folder}; name a model's folder, or leave it unset")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    return lambda texts: [len(read.ids) for read in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def estimated_tokens(texts: Sequence[str]) -> list[int]:
    """Tokens of each text, by kinds of characters."""
    return [sum(map(_tokens, PIECES.findall(text))) for text in texts]


def _tokens(piece: str) -> int:
    """Tokens of one piece: a word, a digit, blanks, signs, or a character beyond ASCII."""
    if piece[0].isascii() and piece[0].isalpha():
        return -(-len(piece) // LETTERS_A_TOKEN)
    if piece[0].isspace() or len(piece) == 1:
        return 1
    return -(-len(piece) // 2)
