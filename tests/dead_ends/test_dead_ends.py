"""What is a dead end, and what is not: sessions of a few calls each, by structure alone."""

import json

import pytest

from slowwave.tasks.dead_ends.match import find_named_commands, find_repeated
from slowwave.tasks.dead_ends.rows import choose_line, find_where_worked
from tests.dead_end_sessions import HERE, Step, edit, find, read_session, run

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected"
)


def tell(*steps: Step | str) -> list[tuple[str, str, str | None]]:
    """What was tried, what showed that it failed, and what was done instead."""
    return [(row["attempt"], row["error"], row["instead"]) for row in find(*steps)]


CACHED = "@lru_cache\ndef tide(port, day):"
PLAIN = "def tide(port, day):"
ACL = """resource "aws_s3_bucket_acl" "logs" {
  bucket = aws_s3_bucket.logs.id
  acl    = "log-delivery-write"
}"""
POLICY = """resource "aws_s3_bucket_policy" "logs" {
  bucket = aws_s3_bucket.logs.id
  policy = data.aws_iam_policy_document.logs.json
}"""


def test_a_command_that_failed_and_was_left() -> None:
    assert tell(
        run("poetry add weasyprint@latest", "Exit code 1\nversion solving failed"),
        run('poetry add "weasyprint==61.2"'),
    ) == [
        (
            "poetry add weasyprint@latest",
            "version solving failed",
            "poetry add weasyprint==61.2",
        )
    ]


def test_what_git_restores_after_a_failure() -> None:
    # the command itself went well; what it did to the lock file did not
    assert tell(
        run("pnpm dedupe"),
        run("pnpm install --frozen-lockfile", "Exit code 1\nlockfile is broken"),
        run("git checkout -- pnpm-lock.yaml"),
        edit("package.json", "{}", '{"overrides": {"zod": "3"}}'),
        run("pnpm install --frozen-lockfile"),
    ) == [
        (
            "pnpm dedupe",
            "lockfile is broken",
            'package.json: {"overrides": {"zod": "3"}}',
        )
    ]


def test_an_edit_that_a_later_edit_undoes() -> None:
    assert tell(
        run("pytest"),
        edit("tides.py", PLAIN, CACHED),
        run("pytest", "Exit code 1\nFAILED test_corrections"),
        edit("tides.py", CACHED, PLAIN),
        run("psql -f index.sql"),
    ) == [("@lru_cache", "FAILED test_corrections", "psql -f index.sql")]


def test_what_a_person_refused_by_words_or_by_the_client() -> None:
    by_words = find(
        edit("page.tsx", "import Chart", "const Chart = dynamic(load)"),
        run("npm run build"),
        "it jumps, revert that",
        run("git checkout page.tsx"),
    )
    assert [(row["error"], row["by_person"]) for row in by_words] == [
        ("it jumps, revert that", True)
    ]
    by_client = tell(
        edit("conftest.py", "db()", 'db(scope="session")', REJECTED),
        "leaks. use xdist",
        run("poetry add pytest-xdist"),
    )
    assert by_client == [
        ('db(scope="session")', "leaks. use xdist", "poetry add pytest-xdist")
    ]


def test_a_dependency_that_is_taken_out_again() -> None:
    assert tell(
        run("npm i moment"), "no second date library", run("npm rm moment")
    ) == [("npm i moment", "no second date library", None)]


FAILED = "Exit code 1\nFAILED x"


@pytest.mark.parametrize(
    ("steps", "attempt"),
    [
        # another version of the same dependency took its place
        (
            [
                run("npm i foo@2"),
                run("npm test", FAILED),
                run("npm i foo@1.9"),
                run("npm test"),
            ],
            "npm i foo@2",
        ),
        # a test passed without the options that it failed with
        ([run("pytest -n auto", FAILED), run("pytest")], "pytest -n auto"),
        # sed puts in and takes out
        (
            [
                run("sed -i 's/forks/vmThreads/' vitest.config.ts"),
                run("npm test", FAILED),
                run("sed -i 's/vmThreads/forks/' vitest.config.ts"),
            ],
            "sed -i s/forks/vmThreads/ vitest.config.ts",
        ),
        # one value after another
        (
            [
                edit("c.yml", "pool: forks", "pool: vmThreads"),
                run("npm test", FAILED),
                edit("c.yml", "pool: vmThreads", "pool: threads"),
            ],
            "pool: vmThreads",
        ),
        # the person said no, and other code took its place
        (
            [
                edit("a.py", "return load(k)", "return cache.fetch(k, load)"),
                "no, don't cache there",
                edit("a.py", "return cache.fetch(k, load)", "return batch([k])[0]"),
            ],
            "return cache.fetch(k, load)",
        ),
        # of a block most that is rare goes, some lines stay
        (
            [
                edit("s3.tf", "", ACL),
                run("terraform apply", FAILED),
                edit("s3.tf", ACL, POLICY),
            ],
            'resource "aws_s3_bucket_acl" "logs" {',
        ),
        # a line changed by one word, which another word replaces
        (
            [
                edit("Dockerfile", "FROM node:24", "FROM node:24-alpine"),
                run("docker build .", FAILED),
                edit("Dockerfile", "FROM node:24-alpine", "FROM node:24-slim"),
            ],
            "FROM node:24-alpine",
        ),
        # taken back, and what failed with it works
        (
            [
                edit("a.py", PLAIN, CACHED),
                run("pytest", FAILED),
                edit("a.py", CACHED, PLAIN),
                run("pytest"),
            ],
            "@lru_cache",
        ),
        # a branch is dropped with what is on it
        (
            [
                run("git checkout -b try-async"),
                edit("a.py", "def f(): pass", "async def f(): await g()"),
                run("pytest", FAILED),
                run("git checkout main && git branch -D try-async"),
            ],
            "async def f(): await g()",
        ),
        (
            [
                run("kubectl apply -f hpa.yaml"),
                run("kubectl get pods", FAILED),
                run("kubectl delete -f hpa.yaml"),
            ],
            "kubectl apply -f hpa.yaml",
        ),
    ],
)
def test_kinds_of_dead_ends(steps: list[Step | str], attempt: str) -> None:
    assert [tried for tried, _, _ in tell(*steps, "thanks")] == [attempt]


@pytest.mark.parametrize(
    "steps",
    [
        # a part of the tests, then all
        [run("pytest -k a", FAILED), edit("a.py", "x", "y"), run("pytest")],
        # a check that tells what would change
        [run("terraform fmt -check", FAILED), run("terraform fmt")],
        # a figure that is tuned
        [
            edit("a.py", "timeout = 5", "timeout = 10"),
            run("pytest", FAILED),
            edit("a.py", "timeout = 10", "timeout = 30"),
        ],
        # red, then fixed by going on
        [
            edit("a.py", "x", "def total(lines): return sum(lines)"),
            run("pytest", "E AssertionError"),
            edit("a.py", "return sum(lines)", "return round(sum(lines), 2)"),
            run("pytest"),
        ],
        # a slip of the keyboard
        [run("git comit -m x", "unknown command"), run("git commit -m x")],
        # nothing was found
        [run("grep -rn nothing src", ""), run("rg nothing", "")],
        # the network
        [run("npm install", "ETIMEDOUT"), run("npm install")],
        # more options, the same way
        [run("npm publish", "E402"), run("npm publish --access public")],
        # a print to look, in a test that was red before
        [
            run("pytest", "E 1 != 2"),
            edit("a.py", "y = 2", "print(x)\ny = 2"),
            run("pytest", "E 1 != 2"),
            edit("a.py", "print(x)\ny = 2", "y = 2"),
            run("pytest"),
        ],
        # a print to look, and the test still fails, or passes by another edit
        [
            edit("a.py", "y = 2", "print(x)\ny = 2"),
            run("pytest", "E 1 != 2"),
            edit("a.py", "print(x)\ny = 2", "y = 2"),
            run("pytest", "E 1 != 2"),
            edit("a.py", "y = 2", "y = 1"),
            run("pytest"),
        ],
        # set aside for a moment
        [
            edit("a.py", "x = 1", "x = 2"),
            run("git stash"),
            run("pytest", "E 1 != 2"),
            run("git stash pop"),
        ],
        # a script that a shell fills in, and one that only looks
        [run("cp $(npm root)/a b", "no such file"), run("npm ls")],
        [run('python -c "import x; print(x)"', "ModuleNotFoundError"), run("ls")],
        # done again, and it stood
        [
            edit("a.py", "x = 1", "x = cached(load)"),
            run("pytest", "E no module"),
            run("git checkout a.py"),
            run("pip install cached"),
            edit("a.py", "x = 1", "x = cached(load)"),
            run("pytest"),
        ],
    ],
)
def test_what_is_no_dead_end(steps: list[Step]) -> None:
    assert tell(*steps, "thanks") == []


ROWS = [
    {"kind": "run", "path": None, "words": ["pnpm", "dedupe"]},
    {"kind": "run", "path": None, "words": ["npm", "i", "moment@2"]},
    {"kind": "edit", "path": "conftest.py", "words": ["scope", "session"]},
    {"kind": "check", "path": None, "words": ["pytest", "-n", "auto"]},
    {"kind": "edit", "path": "pyproject.toml", "words": ["ujson", "5"]},
    {
        "kind": "edit",
        "path": "vite.ts",
        "words": ["treeshake", "smallest", "minChunkSize", "90000"],
    },
    {"kind": "edit", "path": "limit.ts", "words": ["90000"]},
    {
        "kind": "run",
        "path": None,
        "words": ["pip", "install", "dredge==2.1"],
        "instead": "pip install dredge==1.6",
    },
    {"kind": "edit", "path": "tides.py", "words": ["lru_cache", "maxsize", "512"]},
    {"kind": "edit", "path": "Dockerfile", "words": ["alpine"]},
    {
        "kind": "check",
        "path": None,
        "words": ["mocha", "-q", "-p", "8"],
        "instead": "npx mocha -q",
    },
    {
        "kind": "run",
        "path": None,
        "words": ["docker", "build", "--squash", "-t", "tides", "."],
        "instead": "docker build -t tides .",
    },
]


@pytest.mark.parametrize(
    ("step", "repeated"),
    [
        (run("cd web && pnpm dedupe --prefer-offline"), [0]),
        (run("pnpm install"), []),
        (run("yarn add moment"), [1]),
        (run("npm ls moment"), []),
        (run("npm i dayjs"), []),
        (edit("package.json", "{", '{ "moment": "^2.30",'), [1]),
        (edit("conftest.py", "def db():", 'db(scope="session")'), [2]),
        (edit("conftest.py", "def db():", "def db(engine):"), []),
        # by its options, in a pipeline, and as a command in place of an edit
        (run("pytest -n 4 tests"), [3]),
        (run("pytest tests"), []),
        (edit("ci.yml", "", "  - run: pnpm dedupe && pnpm build"), [0]),
        (run("pip install ujson"), [4]),
        (edit("other.py", "def db():", 'db(scope="session")'), []),
        # with another number; a number alone is one
        (edit("vite.ts", "{ }", "{ treeshake: true, minChunkSize: 500 }"), [5]),
        (edit("vite.ts", "{ }", "{ port: 90000 }"), []),
        (edit("limit.ts", "8000", "90000"), [6]),
        (edit("limit.ts", "8000", "9000"), []),
        # in a manifest of any name; what was taken instead is no repeat
        (edit("requirements-dev.txt", "dredge==1.6", "dredge==2.1"), [7]),
        (run("uv add 'dredge>=2'"), [7]),
        (run("uv pip install dredge==1.6"), []),
        (edit("requirements.txt", "", "dredge==1.6"), []),
        (edit("requirements.txt", "dredge==2.1\nx==1", "dredge==2.1\nx==2"), []),
        # a dependency is used in code; in prose it is named
        (edit("a.py", "import os", "import dredge\nimport os"), [7]),
        (edit("a.ts", "", "const m = require('moment')"), [1]),
        (edit("a.md", "", "we do not use 'moment' any more"), []),
        (edit("a.py", "", "wait_a_moment()"), []),
        (edit("a.py", "", "from dredge.deep import Bucket"), [7]),
        (edit("a.py", "", "import os, dredge as dr"), [7]),
        (edit("a.rs", "", "use dredge::Bucket;"), [7]),
        (edit("a.ts", "", "import moment from 'moment/min'"), [1]),
        # a word in quotation marks, or behind another one, is no use
        (edit("a.ts", "", "const unit = 'moment'"), []),
        (edit("de.json", "", '"wait": "moment"'), []),
        (edit("compose.yml", "", 'depends_on: ["dredge"]'), []),
        (edit("deploy.sh", "", "start dredge"), []),
        (edit("a.py", "", "# use dredge"), []),
        (edit("a.py", "", 'assert "dredge" not in deps'), []),
        (edit("package.json", "{", '{ "moment-timezone": "^0.5",'), []),
        # in other words in the same file
        (edit("tides.py", "def tide():", "@functools.cache\ndef tide():"), [8]),
        (edit("tides.py", "def tide():", "def tide(harbour):"), []),
        # in a file of the same name
        (edit("worker/Dockerfile", "", "FROM node:24-alpine\nRUN npm ci"), [9]),
        (edit("Dockerfile", "FROM node:24-slim", "FROM node:26-slim"), []),
        # by the long form of an option, without those that were kept
        (run("npx mocha --parallel=4"), [10]),
        (run("npx mocha -q --grep tide"), []),
        # the command that worked, and one like it
        (run("docker build -t tides ."), []),
        (run("cd /x && docker build --pull -t tides ."), []),
        (run("docker build --squash -t tides:2 ."), [11]),
    ],
)
def test_a_call_is_compared_with_what_failed(step: Step, repeated: list[int]) -> None:
    rows = find_repeated(step[0], json.dumps(step[1]), HERE, ROWS)
    assert rows == [ROWS[number] for number in repeated]


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("try pnpm dedupe once more", [0]),
        ("the dates look wrong, use Moment for them", []),
        # it may be used, refused or gone
        ("add dredge again, in the newest version", []),
        ("no dredge please", []),
        ("dredge is gone, right?", []),
        ("run the tests with pnpm", []),
        ("cache the tides", []),
    ],
)
def test_a_prompt_names_a_command_and_no_dependency(
    prompt: str, named: list[int]
) -> None:
    assert find_named_commands(prompt, ROWS) == [ROWS[number] for number in named]


def test_calls_that_are_no_json_or_of_another_form_are_silent() -> None:
    for given in ("", "[]", "null", '{"command": 3}', '{"command": ["a", 1]}', "{"):
        assert find_repeated("Bash", given, None, ROWS) == []


def test_of_a_long_output_the_line_that_is_spoken_of_is_told() -> None:
    output = "Exit code 1\nUsing version 65\npydyf is required\n\n---"
    assert choose_line(output, "pydyf is held below 0.9") == "pydyf is required"
    assert choose_line(output, "") == "Using version 65"
    assert choose_line("", "anything") == ""
    killed = "Linked in 4.0s\nmemory exhausted: 1.6 GB\nin loader"
    assert choose_line(killed, "In this machine it ran out of memory.").startswith(
        "memory"
    )


def test_a_line_that_successes_print_too_shows_no_failure() -> None:
    rows = tell(
        run("cargo run stops", said="Linked in 3.1s\n3 stops"),
        run("rustup target add mips", "Exit code 1\nLinked in 4.0s\nno such target"),
        "Then we leave it.",
        run("cargo run times", said="Linked in 2.9s\n5 times"),
    )
    assert [error for _, error, _ in rows] == ["no such target"]


def test_a_patch_of_codex_is_read() -> None:
    patch = "*** Begin Patch\n*** Update File: conftest.py\n-def db():\n+db(scope='session')\n*** End Patch"
    assert find_repeated("apply_patch", patch, HERE, ROWS) == [ROWS[2]]


def ask(text: str) -> Step:
    """What the model says, as a message without a call."""
    return "", text, None


REFUSED = [
    ask("The schema is in SQL files. Shall I add Prisma for the migrations?"),
    "no prisma please, take drizzle",
]


def test_a_proposal_that_is_refused_by_its_name() -> None:
    [row] = find(*REFUSED)
    assert (row["kind"], row["words"], row["by_person"]) == ("words", ["prisma"], True)
    assert row["attempt"] == "Shall I add Prisma for the migrations?"
    assert row["error"] == "no prisma please, take drizzle"


@pytest.mark.parametrize(
    ("said", "answer", "name"),
    [
        (
            "Shall I add Storybook for the pages?",
            "don't use storybook here",
            "storybook",
        ),
        ("Shall I add Redis?", "we have a table for it. no redis", "redis"),
        (
            "Soll ich Prisma für das Schema nehmen?",
            "Prisma brauchen wir nicht.",
            "prisma",
        ),
        ("¿Quieres que pase la caché a Redis?", "No quiero Redis aquí.", "redis"),
        ("¿Instalo Storybook?", "Storybook no, gracias.", "storybook"),
        ("Je passe le cache sur Redis ?", "Je ne veux pas de Redis ici.", "redis"),
        (
            "J'installe Storybook pour les composants ?",
            "Storybook non merci.",
            "storybook",
        ),
        ("要不要加上 Prisma？", "不要 Prisma，用 Drizzle。", "prisma"),
    ],
)
def test_a_refusal_is_read_in_any_language_and_anywhere_in_the_reply(
    said: str, answer: str, name: str
) -> None:
    [row] = find(ask(said), answer)
    assert (row["kind"], row["words"]) == ("words", [name])


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Soll ich Tailwind einbauen?", "Ja, Tailwind gern."),
        ("Soll ich Celery nehmen?", "Nimm Celery, aber ohne Beat."),
        ("¿Conecto Sentry?", "Sentry ya está, la clave está en el env."),
        ("¿Uso Celery?", "Usa Celery, pero sin Beat."),
        ("Je branche Sentry ?", "Sentry est déjà là, la clé est dans le env."),
        ("J'ajoute Tailwind ?", "Oui, Tailwind ça me va."),
        ("Shall I add Prisma?", "yes prisma, but not the studio"),
        ("要不要加上 Tailwind？", "好，加 Tailwind。"),
        # what is refused is not named
        ("Shall I add Prisma for the migrations?", "no, the SQL files are enough"),
        # a word of every day is no name
        ("Shall I add a car to the list?", "no car, i can't drive"),
        # nothing is proposed
        ("The migrations are Prisma's.", "no prisma is left there, look again"),
        ("Shall I add Prisma for the migrations?", "yes, prisma is fine"),
    ],
)
def test_what_only_looks_like_a_refused_proposal(said: str, answer: str) -> None:
    assert find(ask(said), answer) == []


def test_a_refused_proposal_that_the_person_takes_later_counts_no_more() -> None:
    assert find(*REFUSED, "ok, prisma then", run("npm install prisma")) == []
    [row] = find(*REFUSED)
    later = read_session("ok, prisma then", run("npm install prisma"))
    assert find_where_worked(row, later, [])
    looking = [run(f"{words} prisma") for words in ("rg", "npm ls", "pip show")]
    assert not find_where_worked(row, read_session("hm", *looking), [])


@pytest.mark.parametrize(
    ("step", "is_told"),
    [
        (run("npm install prisma"), True),
        (run("npx prisma init"), True),
        (edit("db.ts", "", "import { PrismaClient } from '@prisma/client'"), True),
        (edit("package.json", "", '"prisma": "6"'), True),
        # what takes it out, only looks for it or tells of it brings nothing in
        (edit("package.json", '"prisma": "6"', ""), False),
        (edit("notes.md", "", "no prisma here"), False),
        (run("rg prisma src"), False),
        (run("npm view prisma version"), False),
        (run("npm install drizzle-orm"), False),
    ],
)
def test_a_call_that_brings_in_what_was_refused_is_warned(
    step: Step, is_told: bool
) -> None:
    rows = find(*REFUSED)
    assert find_repeated(step[0], json.dumps(step[1]), HERE, rows) == rows * is_told
