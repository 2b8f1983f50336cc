"""Shell scripts read: which commands, where, for what, and what the end of the script tells of each."""

import json
import random

import pytest

from slowwave.schemas.vocabulary import ActionKind
from slowwave.tasks.habits.calls import read_call
from slowwave.tasks.habits.commands import read_command
from slowwave.tasks.habits.shell import parse_script

SCRIPTS = {
    "cd packages/app && npm run build 2>&1 | tail -3": [
        ("npm run build", "packages/app"),
        ("tail -3", "packages/app"),
    ],
    "CI=1 make -j4 check; echo done > /tmp/x": [
        ("make -j4 check", ""),
        ("echo done", ""),
    ],
    "cat > a.py <<'EOF'\nmake build && x\nEOF\npytest -q": [
        ("cat", ""),
        ("pytest -q", ""),
    ],
    "if [ -f a ]; then\n  cd b\n  make\nfi": [("[ -f a ]", ""), ("make", "b")],
    "for f in *.ts; do prettier $f; done": [("prettier $f", "")],
    "cd ~ && ls": [("ls", None)],
    "cd a && cd ../b && ls": [("ls", "b")],
    'git commit -m "it\'s; done && dusted" # later': [
        ("git commit -m it's; done && dusted", "")
    ],
    "echo 'not closed": [("echo", "")],
    "# what's this?\nls 2>/dev/null > out": [("ls", "")],
    "cat <<A | tee b\nit's\nA\n(make; make install) &": [
        ("cat", ""),
        ("tee b", ""),
        ("make", ""),
        ("make install", ""),
    ],
    'make "a && b" \\\n  c': [("make a && b c", "")],
    "": [],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_read_as_its_commands(script: str) -> None:
    assert [
        (" ".join(one.words), one.folder) for one in parse_script(script) if one.words
    ] == SCRIPTS[script]


@pytest.mark.parametrize(
    ("script", "failed", "told"),
    [
        ("make a && make b", False, [True, True]),
        ("make a && make b", True, [None, None]),  # either may have failed
        (
            "make a | make b",
            False,
            [None, None],
        ),  # a pipe ends as its last command does
        ("make a; make b", False, [None, None]),
        ("cd x && make a", True, [False]),
        ("make a || make b", False, [None, None]),
        ("make a && make b", None, [None, None]),
    ],
)
def test_the_end_of_a_script_tells_what_it_can(
    script: str, failed: bool | None, told: list[bool | None]
) -> None:
    assert [
        one.ok
        for one in read_call("Bash", json.dumps({"command": script}), failed, "/w")
    ] == told


COMMANDS = {
    "uv run --group dev pytest -q tests/api": ("uv run --group dev pytest", "test"),
    "python -m pytest": ("python -m pytest", "test"),
    "npm run test:unit -- --watch": ("npm run test:unit", "test"),
    "npm test": ("npm test", "test"),
    "pnpm lint": ("pnpm lint", "lint"),
    "npx tsc --noEmit -p .": ("npx tsc --noEmit", "lint"),
    "npx tsc -p tsconfig.build.json": ("npx tsc", "build"),
    "ruff format --check .": ("ruff format --check", "lint"),
    "ruff format .": ("ruff format", "format"),
    "cargo test --workspace": ("cargo test", "test"),
    "make check": ("make check", "test"),  # by GNU's coding standards
    "make docs": ("make docs", None),
    "make": ("make", "build"),
    "./gradlew test": ("./gradlew test", "test"),
    "git -C sub commit -m x": ("git commit", "vcs"),
    "docker compose -f dev.yaml up -d": ("docker compose up", "run"),
    "bash scripts/seed.sh --dry-run": (None, None),  # a script's runs are no habit
    "./scripts/seed.sh": (None, None),
    "timeout 60s node --test test/": ("timeout 60s node --test", "test"),
    "python - x": (None, None),
    "mkdir -p a/b": (None, None),
    "git status": (None, None),
    "rg -n 'npm test'": (None, None),
}


@pytest.mark.parametrize("script", COMMANDS)
def test_a_command_has_a_form_and_a_role(script: str) -> None:
    (one,) = parse_script(script)
    told = read_command(one)
    assert (told.form, told.role) == COMMANDS[script]


def test_what_a_call_does_by_each_tool() -> None:
    def told(
        tool: str, given: str, workspace: str = "/w"
    ) -> list[tuple[str, str | None]]:
        return [
            (one.kind, one.path or one.line)
            for one in read_call(tool, given, None, workspace)
        ]

    assert told("MultiEdit", '{"file_path": "/w/src/a.py"}') == [("edit", "src/a.py")]
    assert told("replace", '{"file_path": "/elsewhere/a.py"}') == [("edit", None)]
    assert told(
        "str_replace_based_edit_tool", '{"command": "view", "path": "a.py"}'
    ) == [("read", "a.py")]
    assert told("shell", '{"command": ["bash", "-lc", "make test | tail -2"]}') == [
        ("run", "make test")
    ]
    assert told("Bash", r'{"command": "sed -i \"s/a/b/\" x.py y.py"}') == [
        ("edit", "x.py"),
        ("edit", "y.py"),
    ]
    assert told("bash", r'{"command": "cd src && echo hi > a.txt"}') == [
        ("edit", "src/a.txt")
    ]
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b/c.py\n-y\n*** End Patch"
    assert told("apply_patch", patch) == [("edit", "a.py"), ("edit", "b/c.py")]
    assert told("Edit", '{"file_path": "C:\\\\w\\\\src\\\\a.py"}', r"C:\w") == [
        ("edit", "src/a.py")
    ]
    assert told("calendar_add", '{"title": "x"}') == [("other", None)]
    assert told("Bash", "[1]") == []


def test_nothing_that_is_no_script_raises() -> None:
    draw = random.Random(23)
    pieces = [
        "'",
        '"',
        "`",
        "$(",
        ")",
        "<<",
        "EOF",
        "\n",
        "&&",
        "|",
        ";",
        ">",
        "cd",
        " ",
        "\\",
        "make",
        "é",
        "-c",
        "#",
    ]
    for _ in range(2_000):
        script = "".join(draw.choices(pieces, k=draw.randint(0, 30)))
        for one in read_call("Bash", json.dumps({"command": script}), None, "/w"):
            assert one.kind is ActionKind.RUN or one.command is None, script
