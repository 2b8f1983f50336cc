"""Find the dead ends of a session in its moves, by structure alone.

1. What was taken back: an edit that git restores or that a later edit undoes, a command whose files git restores, a
   dependency that is removed again; each after something failed or the person spoke.
2. What the person refused: a call, or what the turn before did where the next turn does otherwise.
3. A command that failed, never worked in the session, and was left.
4. Options of a test or a build that failed, if it passed next without them.
5. What the model proposed in words and the person refused by its name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise, product

from rapidfuzz import fuzz
from rapidfuzz.distance import DamerauLevenshtein

from slowwave.schemas.vocabulary import CommandRole
from slowwave.tasks.dead_ends.moves import Move, MoveKind, match_program
from slowwave.tasks.observe.coding import PROPOSAL
from slowwave.tasks.observe.statements import list_clauses, list_reply
from slowwave.tasks.observe.units import SpokenSentence
from slowwave.text.rarity import get_lexicon, weigh_word
from slowwave.text.sentences import split_sentences
from slowwave.text.words import TERM, extract_content_words, find_text_language

GONE = 0.6
"""Share of the names that an edit brought in of which another edit has to take out at least so much to undo it."""
RARE_GONE = 0.5
"""The same, where a rare name counts more, of an edit after which something failed."""
SAME = 0.9
"""Share of an edit's names that another one has, at least, to be the same edit."""
UNLIKE = 70
"""Likeness of two texts, of 100, below which the one is not a correction of the other."""
REWRITTEN = 5
"""Names from which an edit counts as written anew if most of them go, though nothing comes back."""
REFUSING = 200
"""Characters of what a person says in which a sentence that refuses begins."""
Refuses = Callable[[SpokenSentence], bool]
"""Returns True if a sentence of a person's, or a clause of it, refuses something. It is read only where all else speaks
for it, since reading costs.
"""
RARE = 3.0
SELDOM = 6.5
"""Rarity of a word with a capital, and of another one, from which it is the name of something."""
FLAGS = re.compile(r"-[A-Za-z]{1,3}")
"""Options of a letter each: how much is shown, mostly."""
TYPO = 2
"""Letters in which a misspelt word differs from the right one, at most."""
SWAPPED = 2
"""Names that an edit puts in place of others, at most, to be a swap."""
FIGURE = re.compile(r"\d+")
STATUS = re.compile(r"^Exit code \d+$|^\W*$")
"""Lines of a result that tell nothing."""
STASH = ("git", "stash")
DOING = (MoveKind.EDIT, MoveKind.RUN)
"""Moves that may be an attempt, or what was done instead."""
LOOKING = (MoveKind.CHECK, MoveKind.RUN, MoveKind.LOOK)
"""Moves after which something is known of an attempt."""
PROVING = (CommandRole.TEST, CommandRole.BUILD)
"""Commands that fail by what they prove, not by what they would change."""
NEAR = 1
"""Turns that may lie between an attempt and what takes it back, unless git names the file."""


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """What was tried and left."""

    attempt: Move
    failure: str
    """Id of the message that shows it."""
    reason: str
    """What failed said, or the person's words."""
    is_by_person: bool
    after: str
    """What the model or the person said next: it tells which line of a long output matters."""
    instead: Move | None
    words: tuple[str, ...]
    """The words of a command, or the names that an edit brought in."""
    at: datetime | None


def find_in_session(moves: Sequence[Move], refuses: Refuses) -> list[DeadEnd]:
    """Return the dead ends of a session, in order of their attempts; of one attempt one alone."""
    undone = [*_find_undone(moves)]
    explained = {n for start, end, _ in undone for n in range(start, end + 1)}
    refused = [*_find_refused(moves, explained, refuses)]
    explained.update(start for start, _, _ in refused)
    failed = [*_find_failed(moves, explained), *_find_options(moves)]
    failed += _find_refused_words(moves, refuses)
    found: dict[str, tuple[int, DeadEnd]] = {}
    for start, end, dead_end in (*undone, *refused, *failed):
        if not _worked_later(
            moves=moves, attempt=dead_end.attempt, end=end, explained=explained
        ):
            found.setdefault(dead_end.attempt.message, (start, dead_end))
    return [
        dead_end for _, dead_end in sorted(found.values(), key=lambda pair: pair[0])
    ]


def _worked_later(
    moves: Sequence[Move],
    attempt: Move,
    end: int,
    explained: set[int],
) -> bool:
    """Return True if the same was done again in the session, and stood."""
    return any(
        moves[n].ok and n not in explained and _is_alike(attempt, moves[n])
        for n in range(end + 1, len(moves))
    )


Place = tuple[int, int, DeadEnd]
"""Place of the attempt, of what ends it, and the dead end."""


def _find_undone(moves: Sequence[Move]) -> Iterator[Place]:
    """Yield the approaches that were taken back."""
    taken: set[int] = set()
    for at, move in enumerate(moves):
        if move.ok is False:
            continue
        if move.kind is MoveKind.UNDO:
            tried = _find_restored(moves, at, taken)
        elif move.kind is MoveKind.EDIT:
            tried = _find_inverse(moves, at, taken)
        elif move.kind is MoveKind.RUN:
            tried = _find_other_version(moves, at, taken)
        else:
            continue
        if not tried:
            continue
        failure = _find_failure(moves, tried[-1], at)
        if failure is None or not _is_news(
            moves=moves, tried=tried, end=at, failure=failure
        ):
            continue
        taken.update(tried)
        if move.kind is MoveKind.UNDO:  # all of these files is as it was
            taken.update(n for n in range(at) if _restores(move, moves[n]))
        is_own = move.kind is MoveKind.RUN or (
            move.kind is MoveKind.EDIT and bool(move.added)
        )
        own = move if is_own else None
        instead = own or _find_next(moves, at)
        if instead and _is_alike(moves[tried[0]], instead):
            continue
        yield (
            tried[0],
            at,
            _build(moves=moves, tried=tried, failure=failure, instead=instead),
        )


def _find_other_version(
    moves: Sequence[Move],
    at: int,
    taken: set[int],
) -> list[int]:
    """Return the place of the command that made a dependency of the same names, which is made one of other versions."""
    names = _list_added(moves[at])
    for n in range(at - 1, -1, -1):
        earlier = moves[n]
        if moves[at].turn - earlier.turn > NEAR:
            return []
        is_same = earlier.kind is MoveKind.RUN and _list_added(earlier) == names
        if is_same and earlier.ok and names and n not in taken:
            is_other = earlier.words != moves[at].words
            return [n] if is_other and _fails_between(moves, n, at) else []
    return []


def _list_added(move: Move) -> set[str]:
    """Return the names that a command makes dependencies."""
    size = match_program(move.words, "adds")
    return {
        get_name(word) for word in move.words[size:] if size and word[:1] not in "-"
    }


def _is_alike(attempt: Move, other: Move) -> bool:
    """Return True if two moves are one approach: the same command, or an edit of the same file with the same names."""
    if attempt.kind is MoveKind.WORDS:
        return other.brings_in(attempt.words)
    if attempt.kind is not other.kind:
        return False
    if attempt.kind is MoveKind.EDIT:
        is_same_file = attempt.path == other.path
        shares = (
            get_share(attempt.added, other.added),
            get_share(other.added, attempt.added),
        )
        return is_same_file and min(shares) >= SAME
    return attempt.words == other.words


def _find_restored(
    moves: Sequence[Move],
    at: int,
    taken: set[int],
) -> list[int]:
    """Return the places of what an undoing command takes back; the first is the attempt."""
    undo = moves[at]
    before = [n for n in range(_find_begun(moves, at), at) if n not in taken]
    if match_program(undo.words, "reverts"):
        return _find_reverted(moves, before, undo)
    if _is_set_aside(moves, at):
        return []
    if match_program(undo.words, "drops"):
        return _find_on_branch(moves, at)
    added = _find_added(moves, before, undo)
    if added:
        return added
    edits = [
        n for n in before if moves[n].ok is not False and _restores(undo, moves[n])
    ]
    if edits:
        last = moves[edits[-1]].turn
        return [n for n in edits if moves[n].turn == last]
    if match_program(undo.words, "removes"):
        return [n for n in before if _made(moves[n], undo.targets)][-1:]
    is_branch = undo.targets and not any("." in target for target in undo.targets)
    if "--abort" in undo.words or is_branch:
        return []
    return _find_commands_before_failure(moves, before, undo)


def _find_reverted(
    moves: Sequence[Move],
    before: Sequence[int],
    undo: Move,
) -> list[int]:
    """Return the place of the command of the same program that another one takes back: one with the same arguments, if
    there is one.
    """
    ran = [n for n in before if moves[n].kind is MoveKind.RUN and moves[n].ok]
    same = [n for n in ran if moves[n].words[:1] == undo.words[:1]]
    given = {*undo.words[2:]}
    about = [n for n in same if given.intersection(moves[n].words[1:])]
    return (about or same)[-1:]


def _find_on_branch(moves: Sequence[Move], at: int) -> list[int]:
    """Return the places of the edits since the branch was made that a command drops; of the last turn that has some."""
    made = [n for n in range(at) if moves[n].words[-1:] == moves[at].words[-1:]]
    begun = [n for n in made if not match_program(moves[n].words, "drops")][:1]
    edits = [
        n
        for n in range(begun[0] if begun else at, at)
        if _restores(moves[at], moves[n])
    ]
    return [n for n in edits if moves[n].turn == moves[edits[-1]].turn]


def _is_set_aside(moves: Sequence[Move], at: int) -> bool:
    """Return True if git sets files aside that are taken up again."""
    if moves[at].words[:2] != STASH:
        return False
    following = [move for move in moves[at:] if move.words[:2] == STASH]
    return any(move.kind is not MoveKind.UNDO for move in following)


def _find_added(
    moves: Sequence[Move],
    before: Sequence[int],
    undo: Move,
) -> list[int]:
    """Return the places of the commands that added the dependencies that a command takes out."""
    if not (match_program(undo.words, "removes") or match_program(undo.words, "adds")):
        return []
    gone = {get_name(target) for target in undo.targets}
    found = []
    for n in before:
        size = match_program(moves[n].words, "adds")
        names = _list_added(moves[n])
        if size and moves[n].kind is MoveKind.RUN and gone & names:
            found.append(n)
    return found


def _restores(undo: Move, move: Move) -> bool:
    """Return True if a move is an edit of a file that an undoing command gives back."""
    is_named = not undo.targets or _is_among(move.path, undo.targets)
    return move.kind is MoveKind.EDIT and is_named


def _find_commands_before_failure(
    moves: Sequence[Move],
    before: Sequence[int],
    undo: Move,
) -> list[int]:
    """Return the last command that worked before something failed, with its earlier tries."""
    near = [n for n in before if undo.turn - moves[n].turn <= NEAR]
    fails = [
        n for n in near if moves[n].ok is False and moves[n].kind is not MoveKind.LOOK
    ]
    if not fails:
        return []
    ran = [
        n
        for n in near
        if n < fails[-1] and moves[n].kind is MoveKind.RUN and moves[n].ok
    ]
    if not ran:
        return []
    last = moves[ran[-1]].words
    return [n for n in ran if moves[n].words[:2] == last[:2]]


def _find_begun(moves: Sequence[Move], at: int) -> int:
    """Return the place after the last commit: what was committed is not taken back by restoring a file."""
    if moves[at].words[1:2] in (("revert",), ("reset",)):
        return 0
    return next(
        (n + 1 for n in range(at - 1, -1, -1) if moves[n].kind is MoveKind.COMMIT), 0
    )


def _is_among(path: str | None, targets: Sequence[str]) -> bool:
    """Return True if a path is one of some, or lies below one; each may be relative to another folder."""
    return path is not None and any(
        path == target
        or path.endswith(f"/{target}")
        or target.endswith(f"/{path}")
        or path.startswith(f"{target.rstrip('/')}/")
        for target in targets
        if target
    )


def _made(move: Move, targets: Sequence[str]) -> bool:
    """Return True if a command's output names a file that is deleted later."""
    names = {target.rpartition("/")[2] for target in targets} - {""}
    return (
        move.kind is MoveKind.RUN
        and bool(move.ok)
        and any(name in move.output and name not in move.line for name in names)
    )


def _find_inverse(
    moves: Sequence[Move],
    at: int,
    taken: set[int],
) -> list[int]:
    """Return the place of the edit that a later edit of its file undoes, or replaces by something unlike it after
    something failed or the person spoke.
    """
    later = moves[at]
    for n in range(at - 1, -1, -1):
        earlier = moves[n]
        if (
            n in taken
            or earlier.kind is not MoveKind.EDIT
            or earlier.path != later.path
            or earlier.ok is False
            or later.turn - earlier.turn > NEAR
        ):
            continue
        is_left = later.turn > earlier.turn or _fails_between(moves, n, at)
        if _undoes(earlier, later) or (is_left and _replaces_text(earlier, later)):
            return [n]
    return []


def _replaces_text(earlier: Move, later: Move) -> bool:
    """Return True if an edit takes out all lines that an earlier one brought in, or most of what is rare in them, and
    writes something unlike them.
    """
    brought = earlier.list_fresh_lines()
    fresh = later.list_fresh_lines()
    if not brought or not fresh:
        return False
    gone = {line.strip() for line in later.old.splitlines()}
    is_gone = gone.issuperset(brought) and not set(brought) & set(
        later.text.splitlines()
    )
    is_mostly_gone = (
        len(earlier.added) >= REWRITTEN
        and weigh_share(earlier.added, later.removed) >= RARE_GONE
    )
    alike = fuzz.ratio("\n".join(brought), "\n".join(fresh))
    is_unlike = (is_gone or is_mostly_gone) and alike < UNLIKE
    return is_unlike or _swaps_again(earlier, later)


def _swaps_again(earlier: Move, later: Move) -> bool:
    """Return True if an edit put a few names in place of others, and a later one puts others in place of these: no
    figures, and no slip put right.
    """
    fresh = earlier.added
    is_swap = _changes_line(earlier) and 0 < len(fresh) <= SWAPPED
    if not is_swap or not fresh <= later.removed or not later.added:
        return False
    return not any(
        name[0].isdigit() or _is_misspelt(name, other)
        for name in fresh
        for other in later.added
    )


def _changes_line(move: Move) -> bool:
    """Return True if an edit takes out a line of what stood there."""
    kept = {line.strip() for line in move.text.splitlines()}
    return any(line.strip() not in kept for line in move.old.splitlines())


def _is_refused_at(
    moves: Sequence[Move],
    at: int,
    refuses: Refuses,
) -> bool:
    """Return True if the person says no at a place."""
    if moves[at].kind is not MoveKind.PERSON:
        return False
    is_reply = at > 0 and moves[at - 1].kind is MoveKind.MODEL
    before = moves[at - 1].line if is_reply else ""
    return any(map(refuses, list_reply(before, moves[at].line, REFUSING)))


def _fails_between(
    moves: Sequence[Move],
    start: int,
    end: int,
) -> bool:
    """Return True if a check or command failed between two places."""
    return any(
        move.ok is False and move.kind is not MoveKind.LOOK
        for move in moves[start + 1 : end]
    )


def _undoes(earlier: Move, later: Move) -> bool:
    """Return True if an edit takes out what an earlier one brought in, and brings back what that took out."""
    gone = get_share(earlier.added, later.removed)
    if gone < GONE:
        return False
    if earlier.removed:
        back = get_share(earlier.removed, later.added)
        return back >= GONE or len(earlier.added) >= REWRITTEN
    return len(earlier.added) >= REWRITTEN or not later.added


def weigh_share(names: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of some names that is among others, a rare one counting more; 0 of none."""
    total = sum(weigh_word(name.lower()) for name in names)
    shared = sum(weigh_word(name.lower()) for name in names & others)
    return shared / total if total else 0.0


def get_share(names: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of some names that is among others; 0 of none."""
    return len(names & others) / len(names) if names else 0.0


def _find_failure(
    moves: Sequence[Move],
    start: int,
    end: int,
) -> int | None:
    """Return the place of what shows that an attempt failed: the last failure, else the person's last words, else what
    the model said of what it saw, or the last check.
    """
    between = range(start + 1, end)
    fails = [
        n
        for n in between
        if moves[n].ok is False and moves[n].kind is not MoveKind.LOOK
    ]
    if fails:
        return fails[-1]
    said = [n for n in between if moves[n].kind is MoveKind.PERSON]
    if said and moves[end].turn - moves[start].turn <= NEAR:
        return said[-1]
    checks = [n for n in between if moves[n].kind in LOOKING]
    if not checks:
        return None
    if moves[end].kind is MoveKind.UNDO:
        told = [n for n in between if moves[n].kind is MoveKind.MODEL and n > checks[0]]
        return told[-1] if told else checks[-1]
    by_test = [n for n in checks if moves[n].kind is MoveKind.CHECK]
    return by_test[-1] if by_test and moves[start].removed else None


def _is_news(
    moves: Sequence[Move],
    tried: Sequence[int],
    end: int,
    failure: int,
) -> bool:
    """Return False if an edit that a later edit undoes may have been there only to look: the same check failed before,
    or it was never seen to work.
    """
    if moves[end].kind is MoveKind.UNDO:
        names = {(moves[n].path or "").rpartition("/")[2] for n in tried} - {""}
        deletes = bool(match_program(moves[end].words, "removes"))
        return not (deletes and any(name in moves[failure].line for name in names))
    if moves[failure].kind is MoveKind.PERSON:
        return True
    is_swapped = _swaps_again(moves[tried[0]], moves[end])
    before = [n for n in range(tried[0]) if moves[n].words == moves[failure].words]
    worked = moves[before[-1]].ok if before else None
    attempt = moves[tried[0]]
    is_replaced = bool(attempt.removed) or _replaces_text(attempt, moves[end])
    is_other = moves[end].kind is MoveKind.RUN
    is_left = is_replaced or is_other or is_swapped
    return worked is not False and (
        worked or is_left or _works_without(moves, end, failure)
    )


def _works_without(
    moves: Sequence[Move],
    end: int,
    failure: int,
) -> bool:
    """Return True if what failed works as soon as an edit is taken back, without another edit of its file."""
    for move in moves[end + 1 :]:
        if move.kind is MoveKind.EDIT and move.path == moves[end].path:
            return False
        if move.words and move.words == moves[failure].words:
            return move.ok is True
    return False


def _find_next(moves: Sequence[Move], at: int) -> Move | None:
    """Return the next move in the same turn that worked, without looks and checks."""
    turn = moves[at].turn
    for move in moves[at + 1 :]:
        if move.turn != turn:
            return None
        if move.kind in DOING and move.ok and move.message != moves[at].message:
            return move
    return None


def _find_refused(
    moves: Sequence[Move],
    explained: set[int],
    refuses: Refuses,
) -> Iterator[Place]:
    """Yield the calls that the person refused."""
    for at, move in enumerate(moves):
        if move.kind in DOING and move.is_refused and at not in explained:
            said = next(
                (n for n in range(at, len(moves)) if moves[n].kind is MoveKind.PERSON),
                None,
            )
            if said is not None:
                yield (
                    at,
                    said,
                    _build(
                        moves=moves,
                        tried=[at],
                        failure=said,
                        instead=_find_next(moves, said),
                    ),
                )
    for said, move in enumerate(moves):
        if move.kind is MoveKind.PERSON:
            done = [
                n
                for n in range(said)
                if moves[n].kind in DOING and moves[n].turn == move.turn - 1
            ]
            next_done = _find_next(moves, said)
            if (
                done
                and done[-1] not in explained
                and next_done is not None
                and _replaces(moves[done[-1]], next_done)
                and _is_refused_at(moves, said, refuses)
            ):
                yield (
                    done[-1],
                    said,
                    _build(
                        moves=moves, tried=[done[-1]], failure=said, instead=next_done
                    ),
                )


def _replaces(attempt: Move, other: Move) -> bool:
    """Return True if a command takes the place of another one: the same program with other words."""
    return (
        attempt.kind is MoveKind.RUN
        and other.kind is MoveKind.RUN
        and attempt.words[:1] == other.words[:1]
        and not is_same_way(attempt, other)
    )


def _find_refused_words(moves: Sequence[Move], refuses: Refuses) -> Iterator[Place]:
    """Yield the proposals that the model made in words, and that the person's next words refuse by name.

    A clause of the reply has a name of the proposal, and refuses when it is read alone: "no prisma please, take
    drizzle" refuses Prisma, not Drizzle.
    """
    for at, (before, move) in enumerate(pairwise(moves)):
        if before.kind is not MoveKind.MODEL or move.kind is not MoveKind.PERSON:
            continue
        proposals = [
            line
            for line in _list_proposals(before.line)
            if _list_names(line, move.line)
        ]
        if not proposals:
            continue
        reply = list_reply(before.line, move.line, REFUSING)
        clauses = [clause for one in reply for clause in list_clauses(one)]
        for line, clause in product(proposals, clauses):
            names = _list_names(line, clause.text)
            if names and refuses(clause):
                built = _build(moves=moves, tried=[at], failure=at + 1, instead=None)
                attempt = replace(before, kind=MoveKind.WORDS, line=line, words=names)
                refused = replace(built, attempt=attempt, words=names, after="")
                yield at, at + 1, refused


def _list_proposals(text: str) -> Iterator[str]:
    """Yield the sentences of a text that ask or propose something."""
    for sentence in split_sentences(text):
        line = text[sentence.start : sentence.end]
        if line.endswith(("?", "？")) or PROPOSAL.search(line):
            yield line


def _list_names(line: str, clause: str) -> tuple[str, ...]:
    """Return the names in a sentence that a clause has too, in lower case: rare words, or words with a capital."""
    lexicon = get_lexicon(find_text_language(line))
    said = set(map(lexicon.stem, extract_content_words(clause)))
    inside = TERM.findall(line)[1:]
    capitals = {word.casefold() for word in inside if word[0].isupper()}
    named = set[str]() if lexicon.has_capital_nouns else capitals
    return tuple(
        word
        for word in extract_content_words(line)
        if lexicon.stem(word) in said
        and lexicon.weigh(word) >= (RARE if word in named else SELDOM)
        and not word.isdigit()
    )


def _find_failed(moves: Sequence[Move], explained: set[int]) -> Iterator[Place]:
    """Yield the commands that failed, never worked in the session, and were left; tries in a row are one."""
    done: set[int] = set()
    for at, move in enumerate(moves):
        if (
            at in explained
            or at in done
            or move.kind is not MoveKind.RUN
            or move.ok is not False
            or move.is_refused
            or any(
                other.kind is MoveKind.RUN and other.ok and is_same_way(move, other)
                for other in moves
            )
        ):
            continue
        tries = [
            n
            for n in range(at, len(moves))
            if moves[n].kind is MoveKind.RUN
            and moves[n].ok is False
            and moves[n].turn == move.turn
            and moves[n].words[:2] == move.words[:2]
        ]
        done.update(tries)
        last = tries[-1]
        if any(
            is_same_way(moves[n], other) for n in tries for other in moves if other.ok
        ):
            continue
        if (
            not any(
                other.turn > move.turn or other.kind is MoveKind.MODEL
                for other in moves[last + 1 :]
            )
            and _find_next(moves, last) is None
        ):
            continue  # the session ends with it
        yield (
            at,
            last,
            _build(
                moves=moves, tried=tries, failure=last, instead=_find_next(moves, last)
            ),
        )


def _find_options(moves: Sequence[Move]) -> Iterator[Place]:
    """Yield the tests and builds that failed and passed next without some options."""
    tries = [n for n, move in enumerate(moves) if move.kind in (*DOING, MoveKind.CHECK)]
    for at, then in pairwise(tries):
        failed = moves[at]
        passed = moves[then]
        if (
            failed.ok is False
            and passed.ok
            and failed.kind is passed.kind is MoveKind.CHECK
            and failed.turn == passed.turn
            and failed.role in PROVING
            and _drops_options(failed.words, passed.words)
        ):
            yield at, then, _build(moves=moves, tried=[at], failure=at, instead=passed)


def _drops_options(words: Sequence[str], fewer: Sequence[str]) -> bool:
    """Return True if the second words are the first without some options and their values."""
    left = list(fewer)
    dropped: list[str] = []
    for before, word in pairwise(("", *words)):
        if left and left[0] == word:
            left.pop(0)
        elif word.startswith("-") or (dropped and dropped[-1] == before):
            dropped.append(word)
        else:
            return False
    return not left and bool(dropped)


def is_same_way(failed: Move, other: Move) -> bool:
    """Return True if a command is another one again: the same words, a misspelt one put right, or more options."""
    words, others = (
        tuple(word for word in move.words if not FLAGS.fullmatch(word))
        for move in (failed, other)
    )
    if words == others:
        return True
    if len(words) == len(others):
        return all(map(_is_misspelt, words, others))
    # words that stay in order, with options and their values between them
    rest = iter(others)
    return all(word in rest for word in words) and all(
        word in words or word.startswith("-") or before.startswith("--")
        for before, word in pairwise(("", *others))
    )


def _is_misspelt(word: str, other: str) -> bool:
    """Return True if two words are one, or differ by a slip: not in a figure, which is another version."""
    if word == other:
        return True
    figures = [letter for letter in word if letter.isdigit()]
    others = [letter for letter in other if letter.isdigit()]
    near = DamerauLevenshtein.distance(word, other, score_cutoff=TYPO) <= TYPO
    return figures == others and near and min(len(word), len(other)) > TYPO + 1


def get_name(word: str) -> str:
    """Return a dependency's name, without its version: `moment@2` is `moment`, `@acme/ui@1` is `@acme/ui`."""
    for place, letter in enumerate(word):
        if place and letter in "@=<>~!^[;:":
            return word[:place]
    return word


def _build(
    moves: Sequence[Move],
    tried: Sequence[int],
    failure: int,
    instead: Move | None,
) -> DeadEnd:
    """Return a dead end of its places."""
    attempt = moves[tried[0]]
    failed = moves[failure]
    is_said = failed.kind in (MoveKind.PERSON, MoveKind.MODEL)
    said = (
        move.line
        for move in moves[failure + 1 :]
        if move.kind in (MoveKind.MODEL, MoveKind.PERSON)
    )
    words = (
        tuple(
            sorted(
                {
                    name
                    for n in tried
                    for name in moves[n].added
                    if moves[n].message == attempt.message
                }
            )
        )
        if attempt.kind is MoveKind.EDIT
        else attempt.words
    )
    return DeadEnd(
        attempt=attempt,
        failure=failed.message if is_said else failed.result or failed.message,
        reason=failed.line if is_said else _drop_usual(failed, moves),
        is_by_person=failed.kind is MoveKind.PERSON,
        after=next(said, ""),
        instead=instead,
        words=words,
        at=attempt.at,
    )


def _drop_usual(failed: Move, moves: Sequence[Move]) -> str:
    """Return the output of a failed move without lines that a successful one printed too, but for their figures; all of
    it if nothing is left.
    """
    usual = {
        _mask_figures(line)
        for move in moves
        if move.ok and move.message != failed.message
        for line in move.output.splitlines()
    }
    lines = failed.output.splitlines()
    left = [line for line in lines if _mask_figures(line) not in usual]
    is_told = any(line.strip() and not STATUS.match(line.strip()) for line in left)
    return "\n".join(left) if is_told else failed.output


def _mask_figures(line: str) -> str:
    return FIGURE.sub("0", line.strip())
