"""`build_passages`: messages in, passages out. Recall searches passages, and the encoder reads each of them whole.

Only spoken messages have passages: text that is not blank, by a person or a model. A long message is cut at the borders
of paragraphs and code blocks, else of lines and sentences, else of words, else within a word. Its parts have about
equal size, so that none is very short. Only white space at the cuts is lost. The speed is 2 MB a second.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import PASSAGES
from slowwave.schemas.vocabulary import SPOKEN, Trust
from slowwave.tasks.trust import UNKNOWN, MessageTrust

VERSION = 2
"""Raise it when the cutting changes: passages made under an older version are then made again."""

MAX_TOKENS = 240
"""all-MiniLM-L6-v2 reads 256 word pieces, two of which are its own marks. 240 are about 180 words of prose."""

COPIED = ("message_id", "session_id", "seq", "role", "speaker", "ts", "workspace")

FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)\n?", re.M | re.S)
PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
LINE_OR_SENTENCE = re.compile(r"\n|(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])")
SPACE = re.compile(r"\s+")
CUTS = (PARAGRAPH, LINE_OR_SENTENCE, SPACE)
"""Borders from coarse to fine."""

TOKEN = re.compile(r"[A-Za-z]+|[^\W\d_]|\d|[^\w\s]|_")
LETTERS_A_TOKEN = 7
"""A run of letters up to this length is about one word piece."""


def build_passages(
    messages: pa.Table,
    step_key: str,
    max_tokens: int = MAX_TOKENS,
    trust: Mapping[str, MessageTrust] | None = None,
) -> pa.Table:
    """Return a row for each part of a spoken message: the columns of `passages`, with `vector` null (see
    `slowwave.tasks.vectors.add_vectors`).

    Args:
        messages: rows of `messages` with the columns `message_id, session_id, seq, role, origin, speaker, text, ts,
            workspace`.
        step_key: written to every row.
        max_tokens: largest size of a part, in estimated word pieces.
        trust: message_id -> the trust of the message's parts. A missing message counts as the own agent's words.
    """
    spoken = messages.filter(pc.is_in(messages["origin"], pa.array(SPOKEN)))
    rows: list[int] = []
    numbers: list[int] = []
    texts: list[str] = []
    classes: list[Trust] = []
    ids = spoken["message_id"].to_pylist()
    for row, text in enumerate(spoken["text"].to_pylist()):
        known = (trust or {}).get(ids[row], UNKNOWN)
        parts = split_into_parts(text, max_tokens)
        classes += known.find_least_each(_find_parts(text, parts))
        rows += [row] * len(parts)
        numbers += range(len(parts))
        texts += parts
    return _build_passage_rows(
        copied=spoken.select(COPIED).take(pa.array(rows, pa.int64())),
        numbers=numbers,
        made_of={"text": texts, "trust": list(map(str, classes))},
        step_key=step_key,
    )


def _find_parts(text: str, parts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield where each part of the text starts and ends."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        yield at, at + len(part)


def split_into_parts(text: str, max_tokens: int = MAX_TOKENS) -> list[str]:
    """Return `text` in parts of at most `max_tokens` estimated word pieces, without white space at their ends."""
    total = estimate_tokens(text)
    if total <= max_tokens:
        return [text.strip()] if text.strip() else []
    even = ceil(total / ceil(total / max_tokens))
    packed: list[str] = []
    size = max_tokens
    for piece, tokens in _iter_pieces(text, max_tokens):
        if size >= even or size + tokens > max_tokens:
            packed.append("")
            size = 0
        packed[-1] += piece
        size += tokens
    return [part for piece in packed if (part := piece.strip())]


def estimate_tokens(text: str) -> int:
    """Return an estimate of the word pieces of `text`: runs of letters by length, digits, signs and other scripts
    singly.
    """
    return sum(1 + (len(token) - 1) // LETTERS_A_TOKEN for token in TOKEN.findall(text))


def _iter_pieces(text: str, limit: int) -> Iterator[tuple[str, int]]:
    """Yield consecutive pieces of `text` within the limit with their sizes: code blocks, and the text between them."""
    at = 0
    for fence in FENCE.finditer(text):
        yield from _split_at_borders(text[at : fence.start()], limit, 0)
        yield from _split_at_borders(fence.group(), limit, 0, whole=True)
        at = fence.end()
    yield from _split_at_borders(text[at:], limit, 0)


def _split_at_borders(
    text: str,
    limit: int,
    level: int,
    *,
    whole: bool = False,
) -> Iterator[tuple[str, int]]:
    """Yield pieces of `text`, cut at the borders of `CUTS[level]`. A piece that is still too large is cut at finer
    borders.

    With `whole`, a text that fits is one piece. Otherwise each paragraph is a piece, and the caller packs them.
    """
    size = estimate_tokens(text)
    if size <= limit and (whole or level > 0):
        if text:
            yield text, size
        return
    if level == len(CUTS):
        yield from _split_long_word(text, limit)
        return
    at = 0
    for border in CUTS[level].finditer(text):
        yield from _split_at_borders(text[at : border.end()], limit, level + 1)
        at = border.end()
    yield from _split_at_borders(text[at:], limit, level + 1)


def _split_long_word(text: str, limit: int) -> Iterator[tuple[str, int]]:
    """Yield pieces of a word that is too large for one part (base64, a language without spaces), cut between tokens."""
    start = size = 0
    for token in TOKEN.finditer(text):
        for at in range(token.start(), token.end(), LETTERS_A_TOKEN):
            if size == limit:
                yield text[start:at], size
                start = at
                size = 0
            size += 1
    yield text[start:], size


def _build_passage_rows(
    copied: pa.Table,
    numbers: list[int],
    made_of: dict[str, list[str]],
    step_key: str,
) -> pa.Table:
    """Return rows of the `passages` table. Columns that are neither copied nor given are null."""
    ids = [
        compute_content_id(mid, str(part))
        for mid, part in zip(copied["message_id"].to_pylist(), numbers, strict=True)
    ]
    made = {
        "passage_id": pa.array(ids, pa.string()),
        "part": pa.array(numbers, pa.int64()),
        **{name: pa.array(values, pa.string()) for name, values in made_of.items()},
        "step_key": pa.array([step_key] * len(numbers), pa.string()),
    }
    columns = []
    for field in PASSAGES.schema:
        if field.name in made:
            columns.append(made[field.name])
        elif field.name in copied.schema.names:
            columns.append(copied[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(len(numbers), field.type))
    return pa.Table.from_arrays(columns, schema=PASSAGES.schema)
