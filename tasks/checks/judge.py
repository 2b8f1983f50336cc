"""Compare what texts name with a checkout: what is there, what was there and is not any more, what is otherwise.

What HEAD lacks is looked up in its history, newest first and no further back than the texts. What the history does not
hold either was never in the code, and nothing is said of it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property, partial
from typing import NamedTuple

from rapidfuzz import fuzz, process

from slowwave.schemas.vocabulary import CheckKind, CheckResult
from slowwave.tasks.checks.branches import Seen, judge_branches
from slowwave.tasks.checks.checkout import (
    BIG_FILE,
    Checkout,
    Commit,
    Entry,
    Git,
    decode,
)
from slowwave.tasks.checks.manifests import (
    READERS,
    Facts,
    collect_facts,
    find_reader,
    holds_version,
    normalise_package,
)
from slowwave.tasks.checks.references import Reference

PROSE = (".md", ".mdx", ".rst", ".txt", ".adoc", ".org", ".html", ".svg", ".po")
"""Ends of files that talk about code: they name what is gone too."""
BUILDS = ("CMakeLists.txt", "meson_options.txt")
"""Files of code whose names end as prose does."""
MOST_MANIFESTS = 400
MOST_COMMITS = 40
"""Commits of manifests that are looked through."""
MOST_LINES = 300
LONGEST_LINE = 200
ALIKE = 60.0
"""`rapidfuzz.fuzz.ratio` from which an added line stands in the place of a removed one."""
NOT_WORDS = bytes(
    code if (chr(code).isalnum() and code < 128) or code in b"_$" else 32
    for code in range(256)
)
"""All bytes but those of names become spaces."""
NOT_DASHED = NOT_WORDS[:45] + b"-" + NOT_WORDS[46:]
PORT_KEY = (
    r"(?:(?<![A-Za-z])(?:port|Port|PORT)[sS]?(?![a-z])|(?<=[a-z0-9])Ports?(?![a-z])"
    r"|(?i:expose|listen|bind|addr|host|url))"
)
"""What a line that has a port's number calls it: `port` as a word of a name, not as part of `export`."""
HUNK = re.compile(rb"@@ -(\d+)")
SPLIT = re.compile(r"\.|::|#")


class CitedLine(NamedTuple):
    """A line of a file that shows a reference."""

    path: str = ""
    line: int = 0
    """From 1; 0 for a path alone."""
    text: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a checkout says of a reference."""

    result: CheckResult
    path: str = ""
    line: int = 0
    """From 1; 0 for a path alone."""
    text: str = ""
    """The line."""
    since: Commit | None = None
    """The commit since which it is so; None if it is there."""
    instead: str = ""
    """What stands in its place, if that is known."""


@dataclass
class Questions:
    """The references that are still open, by what is asked of the code."""

    open: set[Reference]
    verdicts: dict[Reference, Verdict] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    """Words of names that the code has."""
    unread: set[Reference] = field(default_factory=set)
    """Those that were not looked up to the end."""

    def of(
        self,
        *kinds: CheckKind,
    ) -> list[Reference]:
        """Return the open ones of some kinds, in order."""
        return sorted(one for one in self.open if one.kind in kinds)

    def list_missing(
        self,
        reference: Reference,
    ) -> list[str]:
        """Return the words of a name that the code does not have."""
        return [word for word in _split_name(reference.name) if word not in self.there]

    def answer(
        self,
        reference: Reference,
        verdict: Verdict,
    ) -> None:
        """Set the verdict of one."""
        self.verdicts[reference] = verdict
        self.open.discard(reference)

    def leave(
        self,
        references: Iterable[Reference],
    ) -> None:
        """Look up no further what is open of some references."""
        self.unread |= self.open.intersection(references)
        self.open -= self.unread


class Judged(NamedTuple):
    """What a checkout says of references."""

    verdicts: dict[Reference, Verdict]
    unread: frozenset[Reference]
    """Those that a bound or the deadline left open: nothing new is known of them."""


def judge_references(
    git: Git,
    said: Mapping[Reference, float],
    exclude: Collection[str] = (),
    earlier: Mapping[str, Seen] | None = None,
) -> Judged:
    """Return the verdicts of references; none of what the code never had. What is left open by the deadline, or by the
    bound of what is read, is `unread`.

    Args:
        git: over the checkout.
        said: the references, each with the seconds since 1970 when it was first named.
        exclude: globs of files that programs write.
        earlier: branches that earlier nights saw.
    """
    questions = Questions(set(said))
    entries = git.list_tree()
    _find_files(questions, entries, str(git.checkout.root))
    facts, pinned = _compare_facts(questions, git, entries)
    gone = _find_branches(
        questions=questions,
        checkout=git.checkout,
        earlier=earlier or {},
        entries=entries,
    )
    code = [entry for entry in entries if _is_code(entry, exclude)]
    asked = questions.of(CheckKind.NAME, CheckKind.SETTING, CheckKind.PORT)
    certain = [one for one in asked if not one.is_guess]
    scan = partial(_scan_code, questions=questions, git=git, code=code, entries=entries)
    scan(waiting=[*certain, *gone])
    if git.cuts:  # what was not found may be there
        questions.leave([*questions.open])
        return Judged(questions.verdicts, frozenset({*questions.unread, *gone}))
    since = min((said[one] for one in questions.open), default=0.0)
    _mark_gone_branches(questions, gone)
    deleted = _find_deleted(questions, git, since)
    _follow_facts(questions=questions, git=git, left=pinned, facts=facts, since=since)
    _answer_removed(
        questions=questions, git=git, since=since, deleted=deleted, scan=scan
    )
    if git.cuts:
        questions.leave([*questions.open])
    return Judged(questions.verdicts, frozenset(questions.unread))


def _answer_removed(
    questions: Questions,
    git: Git,
    since: float,
    deleted: Mapping[Reference, Verdict],
    scan: Callable[..., None],
) -> None:
    """Answer what a commit took out of the code; of guesses only what no other line of the code says.

    A name is answered by its last removal, of its file or of a line: it may have come back after an earlier one, and a
    text said in between relies on that.
    """
    removed = {
        **deleted,
        **_find_removed(questions=questions, git=git, since=since, deleted=deleted),
    }
    guesses = [one for one in removed if one.is_guess]
    cuts = git.cuts
    if guesses:
        scan(waiting=guesses)
    may_be_there = guesses if git.cuts > cuts else []
    for one in questions.open.intersection(removed).difference(may_be_there):
        questions.answer(one, removed[one])


def _find_branches(
    questions: Questions,
    checkout: Checkout,
    earlier: Mapping[str, Seen],
    entries: Iterable[Entry],
) -> dict[Reference, Verdict]:
    """Answer the branches that there are; return the verdicts of those that were there once, unless code has the name.

    A path of the tree, perhaps without its ending, is meant as a file: docs/setup as docs/setup.md.
    """
    asked = questions.of(CheckKind.BRANCH)
    if not asked:
        return {}
    known = judge_branches(checkout, [one.name for one in asked], earlier)
    files = {one.name for one in questions.verdicts if one.kind is CheckKind.FILE}
    names = {one.name for one in asked if "/" in one.name}
    for entry in entries if names else ():
        folder, slash, file = entry.path.rpartition("/")
        files.update(names & {*_list_ends(folder + slash + file.partition(".")[0])})
    gone = {}
    for one in asked:
        questions.open.discard(one)
        match known.get(one.name):
            case str() as reference:
                questions.answer(one, Verdict(CheckResult.FOUND, reference))
            case Seen() as seen if one.name not in files:
                gone[one] = Verdict(
                    CheckResult.GONE,
                    seen.reference,
                    since=seen.last,
                    instead=seen.renamed,
                )
    return gone


def _mark_gone_branches(
    questions: Questions,
    gone: Mapping[Reference, Verdict],
) -> None:
    """Answer the branches that are gone; of a word without a slash only if the code does not have it in any spelling.

    A branch is often called as what was made on it.
    """
    for one, verdict in gone.items():
        parts = [set(_list_spellings(part)) for part in SPLIT.split(one.name) if part]
        if "/" in one.name or not all(part & questions.there for part in parts):
            questions.answer(one, verdict)


def _list_spellings(word: str) -> list[str]:
    """Return a word as code may have it: of `retry-queue` also retry_queue, retryQueue, RetryQueue, RETRY_QUEUE."""
    parts = [part for part in re.split("[-_+]", word) if part]
    titles = [part[:1].upper() + part[1:] for part in parts]
    camel = "".join([*parts[:1], *titles[1:]])
    plain = ["_".join(parts), "".join(parts), camel, "".join(titles)]
    return [*plain, plain[0].lower(), plain[0].upper()]


def _is_code(
    entry: Entry,
    exclude: Collection[str],
) -> bool:
    """Return True for a file of code or settings that is worth reading."""
    return (
        0 < entry.size <= BIG_FILE
        and not _is_prose(entry.path)
        and not any(fnmatch(entry.path, glob) for glob in exclude)
    )


def _is_prose(path: str) -> bool:
    """Return True for a file that talks about code."""
    return path.lower().endswith(PROSE) and not path.endswith(BUILDS)


def clean_path(
    path: str,
    root: str,
) -> str:
    """Return a path as a tree has it: relative, without `./` and a line's number; empty for one outside."""
    inside = path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else path
    inside = re.sub(r":\d+(?:[:-]\d+)?$", "", inside).strip("\"'`,;")
    if inside.startswith(("/", "~")) or ".." in inside.split("/"):
        return ""
    return inside.removeprefix("./").rstrip("/")


def _list_ends(path: str) -> Iterator[str]:
    """Yield a path and each of its ends: `a/b/c`, `b/c`, `c`."""
    yield path
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def _find_files(
    questions: Questions,
    entries: Sequence[Entry],
    root: str,
) -> None:
    """Answer the paths that the tree has, whole or at their end; folders too."""
    paths = {entry.path for entry in entries}
    folders = {path.rpartition("/")[0] for path in paths}
    for folder in list(folders):
        folders.update(folder[: at.start()] for at in re.finditer("/", folder))
    wanted = {clean_path(one.name, root) for one in questions.of(CheckKind.FILE)}
    found: dict[str, str] = {}
    for path in sorted((paths | folders) - {""}, key=lambda path: (len(path), path)):
        for end in _list_ends(path):
            if end in wanted:
                found.setdefault(end, path)
    for one in questions.of(CheckKind.FILE):
        clean = clean_path(one.name, root)
        if not clean:
            questions.open.discard(one)
        elif clean in found:
            questions.answer(one, Verdict(CheckResult.FOUND, found[clean]))


def _list_manifests(entries: Iterable[Entry]) -> list[str]:
    """Return the paths of manifests, those nearest to the root first."""
    paths = [
        entry.path
        for entry in entries
        if 0 < entry.size <= BIG_FILE and find_reader(entry.path.rpartition("/")[2])
    ]
    return sorted(paths, key=lambda path: (path.count("/"), path))


def _read_files(
    git: Git,
    commit: str,
    paths: Sequence[str],
) -> dict[str, bytes]:
    """Return files of a commit by path; of those that are too big or missing nothing."""
    names = [f"{commit}:{path}" for path in paths]
    small = [
        path
        for path, size in zip(paths, git.read_sizes(names), strict=False)
        if size is not None and size <= BIG_FILE
    ]
    contents = git.read_blobs(f"{commit}:{path}" for path in small)
    return {
        path: content
        for path, content in zip(small, contents, strict=False)
        if content is not None
    }


def _name_fact(reference: Reference) -> tuple[CheckKind, str]:
    is_package = reference.kind is CheckKind.DEPENDENCY
    name = normalise_package(reference.name) if is_package else reference.name
    return reference.kind, name


def _holds(
    reference: Reference,
    facts: Facts,
) -> bool:
    """Return True if manifests have a dependency in the version that is named, or a script."""
    versions = facts.get(_name_fact(reference))
    if versions is None:
        return False
    return not reference.value or holds_version(reference.value, versions)


def _compare_facts(
    questions: Questions,
    git: Git,
    entries: Iterable[Entry],
) -> tuple[Facts, list[Reference]]:
    """Answer the dependencies and scripts that hold; return the facts, and the others, which the history may know."""
    paths = _list_manifests(entries)
    manifests = _read_files(git, "HEAD", paths[:MOST_MANIFESTS])
    facts = collect_facts(manifests)
    left = []
    for one in questions.of(CheckKind.DEPENDENCY, CheckKind.SCRIPT):
        if _holds(one, facts):
            place = _cite_manifest(one.name, manifests)
            questions.answer(one, _build_found(place))
        else:
            left.append(one)
    if len(paths) > MOST_MANIFESTS:  # another one may have it
        questions.leave(left)
    return facts, left


def _cite_manifest(
    name: str,
    manifests: Mapping[str, bytes],
) -> CitedLine:
    """Return the first line of a manifest that has a name; an empty one if no manifest has it."""
    spelt = re.escape(name.lower()).replace(r"\-", "[-_.]")
    # of `react` neither react-dom nor @types/react
    pattern = re.compile(rf"(?<![\w/]){spelt}(?![a-z0-9-])".encode())
    for path, content in manifests.items():
        if match := pattern.search(content.lower()):
            return _cite(path, content, match.start())
    return CitedLine()


def _cite(
    path: str,
    content: bytes,
    at: int,
) -> CitedLine:
    """Return the line of a file at an offset."""
    start = content.rfind(b"\n", 0, at) + 1
    end = content.find(b"\n", at)
    line = content[start : end if end >= 0 else None]
    number = content.count(b"\n", 0, at) + 1
    return CitedLine(path, number, _shorten(line))


def _build_found(place: CitedLine) -> Verdict:
    """Return the verdict that a reference is there, with the line that shows it."""
    return Verdict(CheckResult.FOUND, path=place.path, line=place.line, text=place.text)


def _shorten(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()[:LONGEST_LINE]


def _split_name(name: str) -> list[str]:
    """Return the words of a name as code may have them: of `a.b` both, of `--no-cache` no_cache."""
    parts = [part.strip("-@").replace("-", "_") for part in SPLIT.split(name)]
    return [part for part in parts if part]


Matcher = Callable[[bytes], re.Match[bytes] | None]


def _scan_code(
    questions: Questions,
    git: Git,
    code: Sequence[Entry],
    entries: Sequence[Entry],
    waiting: Sequence[Reference],
) -> None:
    """Answer the names, settings and ports that some file of code has. Files' own names are names in code too."""
    scan = _Scan(questions, _find_stems(entries))
    scan.expect(waiting)
    blobs = git.read_blobs(entry.blob for entry in code)
    for entry, content in zip(code, blobs, strict=False):
        if not scan.words and not scan.lines:
            break
        if content is not None and b"\0" not in content[:8_000]:
            scan.read(entry.path, content)
    questions.there |= scan.places.keys() | scan.stems.keys()
    for one in waiting:
        if one.kind is CheckKind.NAME:
            scan.answer_name(one)


def _find_stems(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the names of files and folders without their ends, as code has them, each with a path."""
    stems: dict[str, str] = {}
    for entry in entries:
        for part in entry.path.split("/"):
            stems.setdefault(part.partition(".")[0].replace("-", "_"), entry.path)
    return stems


@dataclass
class _Scan:
    """What is looked for in files of code, and where it was found."""

    questions: Questions
    stems: dict[str, str]
    words: set[bytes] = field(default_factory=set)
    """Words that are still to be found."""
    lines: dict[bytes, list[tuple[Reference, Matcher]]] = field(default_factory=dict)
    """By a word that its line has, what is still to be found in a line."""
    places: dict[str, CitedLine] = field(default_factory=dict)
    """The first place of each word."""

    def expect(
        self,
        references: Iterable[Reference],
    ) -> None:
        """Look for the words of names and branches, and for the lines of settings and ports."""
        for one in references:
            if one.kind is CheckKind.NAME:
                self._expect_words(_split_name(one.name))
            elif one.kind is CheckKind.BRANCH:
                for part in SPLIT.split(one.name):
                    self._expect_words(_list_spellings(part))
            else:
                self._expect_line(one)

    def _expect_words(
        self,
        words: Iterable[str],
    ) -> None:
        """Look for words, but for those that files are called."""
        self.words |= {word.encode() for word in words if word not in self.stems}

    def _expect_line(
        self,
        reference: Reference,
    ) -> None:
        """Look for a setting or a port."""
        for word in _list_keys(reference, ()):
            pair = reference, build_line_pattern(reference).search
            self.lines.setdefault(word, []).append(pair)

    def answer_name(
        self,
        name: Reference,
    ) -> None:
        """Answer a name if the code has all its words, with the place of the last one."""
        parts = _split_name(name.name)
        if not parts or self.questions.list_missing(name):
            return
        last = parts[-1]
        place = self.places.get(last) or CitedLine(self.stems[last])
        self.questions.answer(name, _build_found(place))

    def read(
        self,
        path: str,
        content: bytes,
    ) -> None:
        """Record the first place of each searched word in a file, and answer the references whose line it has."""
        tokens = list_tokens(content)
        for token in self.words & tokens:
            spelt = _spell(token.decode()).encode()
            at = re.search(rb"(?<![\w$])" + spelt + rb"(?![\w$])", content)
            start = at.start() if at else 0
            self.places[token.decode()] = _cite(path, content, start)
            self.words.discard(token)
        for token in self.lines.keys() & tokens:
            self._read_lines(token, path, content)

    def _read_lines(
        self,
        token: bytes,
        path: str,
        content: bytes,
    ) -> None:
        for one, match in self.lines[token]:
            if one.value.encode() in content and (found := match(content)):
                place = _cite(path, content, found.start())
                self.questions.answer(one, _build_found(place))
        still = [pair for pair in self.lines[token] if pair[0] in self.questions.open]
        if still:
            self.lines[token] = still
        else:
            del self.lines[token]


def list_tokens(content: bytes) -> set[bytes]:
    """Return the words of code; of `no-cache` also no_cache."""
    tokens = set(content.translate(NOT_WORDS).split())
    if b"-" in content:
        dashed = set(content.translate(NOT_DASHED).split())
        tokens.update(
            word.strip(b"-").replace(b"-", b"_") for word in dashed if b"-" in word
        )
    return tokens


def build_line_pattern(reference: Reference) -> re.Pattern[bytes]:
    """Return a pattern of a line that gives a setting its value, or has a port's number beside what is called so."""
    value = re.escape(reference.value)
    if reference.kind is CheckKind.PORT:
        number = rf"(?<![\w.]){value}(?![\w.])"
        # localhost:8080, and 8080:80 as containers publish a port
        before = rf"^.*(?:{PORT_KEY}.*|:){number}"
        after = rf"^.*{number}(?::\d|.*{PORT_KEY})"
        return re.compile(rf"(?:{before}|{after})".encode(), re.MULTILINE)
    key = "[-_]".join(map(re.escape, re.split("[-_]", _last_word(reference.name))))
    typed = r"(?:\s*:\s*[\w\[\]., |\"']{1,60}?)?"
    pattern = rf"""(?<![\w]){key}["'\])]*{typed}\s*[:=,]\s*[\w.(]{{0,40}}?["'(]*(?<![\w.]){value}(?![\w]|\.\d)"""
    return re.compile(pattern.encode(), re.MULTILINE)


def _last_word(name: str) -> str:
    return (_split_name(name) or [name])[-1]


def _find_deleted(
    questions: Questions,
    git: Git,
    since: float,
) -> dict[Reference, Verdict]:
    """Answer the paths that a commit deleted; return the verdicts of the names whose file it deleted."""
    root = str(git.checkout.root)
    wanted: dict[str, list[Reference]] = defaultdict(list)
    for one in questions.of(CheckKind.FILE):
        wanted[clean_path(one.name, root)].append(one)
    for one in questions.of(CheckKind.NAME):
        for word in questions.list_missing(one):
            wanted[f"{word} "].append(one)
    named = dict[Reference, Verdict]()
    if not wanted:
        return named
    log = git.log("--diff-filter=D", "--name-only", "-z", since=since)
    for commit, names in log:
        renames: dict[str, str] | None = None
        for path in _split_paths(names):
            for key in wanted.keys() & _list_path_keys(path):
                if renames is None:
                    renames = git.find_renames(commit.id)
                instead = renames.get(path, "")
                verdict = Verdict(CheckResult.GONE, path, since=commit, instead=instead)
                for one in wanted.pop(key):
                    if one.kind is CheckKind.NAME:
                        named.setdefault(one, verdict)
                    else:
                        questions.answer(one, verdict)
        if not wanted:
            break
    return named


def _split_paths(names: bytes) -> list[str]:
    """Return the paths that `git log --name-only -z` prints of a commit."""
    parts = (raw.strip(b"\n") for raw in names.split(b"\0"))
    return [decode(part) for part in parts if part]


def _list_path_keys(path: str) -> set[str]:
    """Return the keys that may mean a path: it, its folders, the ends of these, and its name in code (with a space
    behind).
    """
    stem = path.rpartition("/")[2].partition(".")[0].replace("-", "_")
    folders = (path[: at.start()] for at in re.finditer("/", path))
    ends = (end for folder in folders for end in _list_ends(folder))
    return {*_list_ends(path), *ends, f"{stem} "}


def _follow_facts(
    questions: Questions,
    git: Git,
    left: Sequence[Reference],
    facts: Facts,
    since: float,
) -> None:
    """Answer the dependencies and scripts that manifests had, by the commit since which they don't hold. An older
    commit than the last MOST_COMMITS is left unread.
    """
    waiting = [one for one in left if one in questions.open]
    if not waiting:
        return
    globs = [f":(glob)**/{name}" for name in READERS]
    globs += [":(glob)**/*requirements*.txt", ":(glob)**/constraints*.txt"]
    log = git.log("--name-only", "-z", since=since, paths=globs)
    for number, (commit, names) in enumerate(log):
        if number == MOST_COMMITS:
            questions.leave(waiting)
            break
        paths = [
            path for path in _split_paths(names) if find_reader(path.rpartition("/")[2])
        ]
        manifests = _read_files(git, f"{commit.id}^", paths[:MOST_MANIFESTS])
        before = collect_facts(manifests)
        for one in list(waiting):
            if not _holds(one, before):
                continue
            now = facts.get(_name_fact(one))
            result = CheckResult.GONE if now is None else CheckResult.DIFFERS
            instead = " ".join(filter(None, [one.name, *sorted(now)])) if now else ""
            place = _cite_manifest(one.name, manifests)
            verdict = Verdict(
                result,
                path=place.path,
                line=place.line,
                text=place.text,
                since=commit,
                instead=instead,
            )
            questions.answer(one, verdict)
            waiting.remove(one)
        if not waiting:
            break


def _find_removed(
    questions: Questions,
    git: Git,
    since: float,
    deleted: Mapping[Reference, Verdict],
) -> dict[Reference, Verdict]:
    """Return the verdicts of the names, settings and ports that a commit took out of the code, the newest one's.

    A name whose file was `deleted` is looked for in the commits since then.
    """
    waiting: dict[Reference, _Wanted] = {}
    by_key: dict[bytes, list[Reference]] = defaultdict(list)
    for one in questions.of(CheckKind.NAME, CheckKind.SETTING, CheckKind.PORT):
        missing = questions.list_missing(one) if one.kind is CheckKind.NAME else []
        waiting[one] = _Wanted(one, missing)
        for key in _list_keys(one, missing):
            by_key[key].append(one)
    verdicts: dict[Reference, Verdict] = {}
    # an added file takes nothing out
    log = git.log("-p", "-U0", "--diff-filter=a", since=since) if waiting else ()
    for commit, diff in log:
        _drop_deleted(waiting, deleted, commit)
        words = set(diff.translate(NOT_WORDS).split())
        near: dict[bytes, list[Reference]] = {}
        for key in by_key.keys() & words:
            still = [one for one in by_key[key] if one in waiting]
            near[key] = [one for one in still if waiting[one].may_be_among(words)]
        if any(near.values()):
            found = _read_removals(commit=commit, diff=diff, near=near, wanted=waiting)
            verdicts.update(found)
            for one in found:
                del waiting[one]
        if not waiting:
            break
    return verdicts


def _drop_deleted(
    waiting: dict[Reference, "_Wanted"],
    deleted: Mapping[Reference, Verdict],
    commit: Commit,
) -> None:
    """Look no further for the names whose file a commit deleted."""
    for one, verdict in deleted.items():
        if verdict.since == commit:
            waiting.pop(one, None)


@dataclass(frozen=True)
class _Wanted:
    """What of a reference a commit may have taken out."""

    reference: Reference
    missing: Sequence[str]
    """The words of a name that HEAD does not have."""

    @cached_property
    def find(self) -> Matcher:
        """Finds it in a line."""
        return _build_pattern(self.reference, self.missing).search

    @cached_property
    def spellings(self) -> list[set[bytes]]:
        """Sets of words: a text that has the reference has all words of one of these sets."""
        one = self.reference
        is_port = one.kind is CheckKind.PORT
        names = [] if is_port else self.missing or [_last_word(one.name)]
        value = set(one.value.encode().translate(NOT_WORDS).split())
        parts = [some for name in names for some in ({name}, {*name.split("_")} - {""})]
        return [value | {word.encode() for word in some} for some in parts] or [value]

    def may_be_among(
        self,
        words: set[bytes],
    ) -> bool:
        """Return False if a text of some words certainly does not have it."""
        return any(one <= words for one in self.spellings)


def _read_removals(
    commit: Commit,
    diff: bytes,
    near: Mapping[bytes, Sequence[Reference]],
    wanted: Mapping[Reference, _Wanted],
) -> dict[Reference, Verdict]:
    """Return the verdicts of what a commit took out.

    Args:
        commit: the commit.
        diff: its changes.
        near: what may be among them, by a word that its line has.
        wanted: how each is found in a line.
    """
    verdicts: dict[Reference, Verdict] = {}
    for hunk in _split_hunks(diff):
        if _is_prose(hunk.path):
            continue
        for at, line in enumerate(hunk.removed):
            keys = near.keys() & set(line.translate(NOT_WORDS).split())
            here = {one for key in keys for one in near[key]} - verdicts.keys()
            for one in sorted(here):
                find = wanted[one].find
                if find(line) and not any(map(find, hunk.added)):
                    verdicts[one] = _build_removal(
                        one=one, commit=commit, hunk=hunk, at=at
                    )
    return verdicts


def _build_pattern(
    one: Reference,
    missing: Sequence[str],
) -> re.Pattern[bytes]:
    """Return a pattern of a line that has a reference; of a name one of its words that are missing."""
    if one.kind is not CheckKind.NAME:
        return build_line_pattern(one)
    spelt = "|".join(dict.fromkeys(map(_spell, missing)))
    return re.compile(rf"(?<![\w$])(?:{spelt})(?![\w$])".encode())


def _list_keys(
    one: Reference,
    missing: Sequence[str],
) -> set[bytes]:
    """Return words of which a line has one if it has the reference; of a name those that are missing."""
    if one.kind is CheckKind.PORT:
        return {one.value.encode()}
    words = missing or [_last_word(one.name)]
    return {part.encode() for word in words for part in (word, word.split("_")[-1])}


def _spell(word: str) -> str:
    """Return a pattern of a word as code spells it: `no_cache` and `no-cache`."""
    return "[-_]".join(map(re.escape, word.split("_"))) if word.strip("_") else word


class _Hunk(NamedTuple):
    """Lines of a file that a commit took out, and those that it put in their place."""

    path: str
    number: int
    """The number of the first line that went."""
    removed: list[bytes]
    added: list[bytes]


def _build_removal(
    one: Reference,
    commit: Commit,
    hunk: _Hunk,
    at: int,
) -> Verdict:
    """Return the verdict of a line that a commit took out, with the added line that is most like it."""
    removed = _shorten(hunk.removed[at])
    lines = [_shorten(other) for other in hunk.added[:MOST_LINES]]
    nearest = process.extractOne(removed, lines, scorer=fuzz.ratio, score_cutoff=ALIKE)
    is_name = one.kind is CheckKind.NAME
    result = CheckResult.GONE if is_name or not nearest else CheckResult.DIFFERS
    instead = nearest[0] if nearest else ""
    return Verdict(
        result=result,
        path=hunk.path,
        line=hunk.number + at,
        text=removed,
        since=commit,
        instead=instead,
    )


def _split_hunks(diff: bytes) -> Iterator[_Hunk]:
    """Yield the hunks that take lines out."""
    hunk = _Hunk(path="", number=0, removed=[], added=[])
    is_header = True
    for line in [*diff.split(b"\n"), b"diff --git "]:
        match = HUNK.match(line)
        if match or line.startswith(b"diff --git "):
            if hunk.removed:
                yield hunk
            is_header = match is None
            hunk = _Hunk(
                path=hunk.path,
                number=int(match[1]) if match else 0,
                removed=[],
                added=[],
            )
        elif is_header and line.startswith(b"--- "):
            path = line[4:].rstrip(b"\t").strip(b'"').removeprefix(b"a/")
            hunk = hunk._replace(path=path.decode("utf-8", "replace"))
        elif not is_header and line.startswith(b"-"):
            hunk.removed.append(line[1:])
        elif not is_header and line.startswith(b"+"):
            hunk.added.append(line[1:])
