"""Split a session into chunks that fit a prompt. Chunks are cut between turns, and each begins with the last one's end.

Only what people and models said is included; tool traffic and synthetic turns are not. The caller passes the function
that counts tokens. A turn longer than a whole chunk is cut at paragraphs, else lines, else sentences, else words. The
pieces of a turn keep its number.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from slowwave.schemas.rows import MessageRow
from slowwave.schemas.vocabulary import is_turn, name_speaker
from slowwave.tasks.llm.fence import mask_injections
from slowwave.text.fence import format_entry
from slowwave.text.times.days import localise

Counter = Callable[[Sequence[str]], list[int]]
"""Tokens of each text."""

BORDERS = ("\n\n", "\n", ". ", " ")
ROOM_USED = 0.9
"""Share of a chunk's room that a piece of an over-long turn is cut to."""


@dataclass(frozen=True, slots=True)
class NumberedTurn:
    """A spoken message, or a piece of one, as a prompt shows it."""

    number: int
    """1, 2, 3 … within the session. The model cites the message by it."""
    row: MessageRow
    """The row of MESSAGES."""
    text: str
    """The text without passages that address the memory."""

    @property
    def shown(self) -> str:
        """The text under its label: number, speaker and time, by the speaker's clock if its UTC offset is known."""
        who = " ".join(name_speaker(self.row).split())[:60]
        at = localise(self.row["ts"], self.row.get("utc_offset"))
        when = f", {at:%a %Y-%m-%d %H:%M}" if at else ""
        return format_entry(f"[{self.number}] {who}{when}:", self.text)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The turns of one prompt."""

    turns: tuple[NumberedTurn, ...]
    tokens: int


def build_turns(rows: Sequence[MessageRow]) -> list[NumberedTurn]:
    """Return the spoken messages of one session (rows in order of seq) as turns."""
    spoken = [row for row in rows if is_turn(row)]
    return [
        NumberedTurn(n, row, mask_injections(row["text"]))
        for n, row in enumerate(spoken, 1)
    ]


def split_into_chunks(
    turns: Sequence[NumberedTurn],
    room: int,
    overlap: int,
    count: Counter,
) -> list[Chunk]:
    """Return the turns in chunks of at most `room` tokens. Each chunk after the first begins with up to `overlap`
    tokens of the one before.

    Raises:
        ValueError: `overlap` is more than half of `room`.
    """
    if overlap * 2 > room:
        raise ValueError(
            f"an overlap of {overlap} tokens is more than half of a chunk of {room}"
        )
    pieces = [
        p
        for turn, n in _count_turn_tokens(turns, count)
        for p in _split_turn(turn=turn, tokens=n, room=room - overlap, count=count)
    ]
    chunks: list[list[tuple[NumberedTurn, int]]] = []
    for piece in pieces:
        if chunks and sum(n for _, n in chunks[-1]) + piece[1] <= room:
            chunks[-1].append(piece)
        else:
            chunks.append(
                [*_select_overlap(chunks[-1] if chunks else [], overlap), piece]
            )
    return [
        Chunk(tuple(t for t, _ in chunk), sum(n for _, n in chunk)) for chunk in chunks
    ]


def _count_turn_tokens(
    turns: Sequence[NumberedTurn], count: Counter
) -> Iterator[tuple[NumberedTurn, int]]:
    """Yield each turn with its tokens, including one for the line break."""
    counts = count([turn.shown for turn in turns]) if turns else []
    return ((turn, n + 1) for turn, n in zip(turns, counts, strict=True))


def _select_overlap(
    chunk: Sequence[tuple[NumberedTurn, int]], overlap: int
) -> list[tuple[NumberedTurn, int]]:
    """Return the last whole turns of a chunk that fit the overlap, but never the whole chunk."""
    turns: list[tuple[NumberedTurn, int]] = []
    for piece in reversed(chunk[1:]):
        overlap -= piece[1]
        if overlap < 0:
            break
        turns.insert(0, piece)
    return turns


def _split_turn(
    turn: NumberedTurn,
    tokens: int,
    room: int,
    count: Counter,
) -> list[tuple[NumberedTurn, int]]:
    """Return the turn, or its pieces if it is too long."""
    if tokens <= room:
        return [(turn, tokens)]
    label = count([replace(turn, text="").shown])[0]
    texts = split_text(turn.text, room - label - 4, count)
    return list(_count_turn_tokens([replace(turn, text=text) for text in texts], count))


def split_text(text: str, room: int, count: Counter) -> list[str]:
    """Return a text in pieces of at most `room` tokens, cut at the coarsest border possible. Only blanks are lost."""
    room = max(room, 1)
    done: list[str] = []
    waiting = [text]
    while waiting:
        piece = waiting.pop().strip()
        tokens = count([piece])[0] if piece else 0
        if tokens <= room or len(piece) < 2:
            done += [piece] if piece else []
            continue
        at = _find_cut(
            piece, min(int(len(piece) * room * ROOM_USED / tokens), len(piece) - 1)
        )
        waiting += [piece[at:], piece[:at]]
    return done


def _find_cut(text: str, max_chars: int) -> int:
    """Return the last border within the first `max_chars` characters, in their second half if possible."""
    for border in BORDERS:
        at = text.rfind(border, max_chars // 2, max_chars)
        if at > 0:
            return at + len(border)
    return max(1, max_chars)
