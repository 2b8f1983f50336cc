"""What a checkout says of claims: held then and not now, by real commits; and a night that tells it everywhere."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.tasks.checks import judge
from slowwave.tasks.checks.check import CheckedTexts, Text, check_texts
from slowwave.tasks.checks.checkout import find_checkout, open_git
from slowwave.tasks.checks.references import find_references
from tests.checkouts import LATER, commit, git

MANY = {
    f"{name}/pyproject.toml": f'[project]\nname = "{name}"\ndependencies = ["{package}"]\n'
    for name, package in (("a", "rich"), ("b", "rich"), ("c", "celery==5.2"))
}
SAID = datetime(2026, 6, 1, tzinfo=UTC)
BEFORE = {
    "src/cache.py": "def warm_cache():\n    return CACHE_DIR\n",
    "src/server.py": "PORT = 8080\nRETRIES = 3\n",
    "src/keep.py": "def keep():\n    pass\n",
    "pyproject.toml": '[project]\nname = "demo"\nrequires-python = ">=3.9"\n'
    'dependencies = ["Celery==5.2", "rich>=10,<13"]\n[project.scripts]\ndemo-sync = "a:b"\n',
    "CHANGELOG.md": "warm_cache is new\n",
}
AFTER = {
    "src/store.py": "def load():\n    return 1\n",
    "src/server.py": "PORT = 9090\nRETRIES = 5\n",
    "src/keep.py": "def keep():\n    pass\n",
    "pyproject.toml": '[project]\nname = "demo"\nrequires-python = ">=3.11"\n'
    'dependencies = ["dramatiq==1.1", "rich>=10,<14"]\n',
    "CHANGELOG.md": "warm_cache is gone\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    commit(folder, BEFORE)
    commit(folder, AFTER, LATER)
    return folder


def ask(folder: Path, text: str, at: datetime | None = SAID) -> dict[str, str]:
    """Each thing that a text names with its result, found ones left out."""
    one = Text("o1", None, str(folder), text, (), at)
    with open_git(find_checkout(folder), 60) as git:
        rows = check_texts(git, [one], SAID, "key").rows.to_pylist()
    return {row["name"]: row["result"] for row in rows if row["result"] != "found"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Warm it with `warm_cache`.", {"warm_cache": "gone"}),
        ("The cache is src/cache.py.", {"src/cache.py": "gone"}),
        ("Die Ablage liegt unter CACHE_DIR.", {"CACHE_DIR": "gone"}),
        ("The server listens on 8080.", {"8080": "differs"}),
        ("`RETRIES = 3` is enough.", {"RETRIES": "differs"}),
        ("`CACHE_DIR` and CACHE_DIR = 4.", {"CACHE_DIR": "gone"}),
        ("队列用 Celery 5.2。", {"Celery": "gone"}),
        ("We need rich>=10,<13 for tables.", {"rich": "differs"}),
        ("The oldest supported Python is 3.9.", {"Python": "differs"}),
        ("Run `demo-sync` at night.", {"demo-sync": "gone"}),
        # it holds, was never so, or is the project itself
        ("`keep` is in src/keep.py, with rich and `demo`.", {}),
        ("`frobnicate` is in src/frob.py, on port 7070, by Sidekiq 7.", {}),
        ("RETRIES = 5 and PORT = 9090.", {}),
        # it tells of the change
        ("We went from rich<13 to rich<14.", {}),
    ],
)
def test_what_held_then_and_not_now_is_marked(
    repository: Path, text: str, result: dict[str, str]
) -> None:
    assert ask(repository, text) == result


@pytest.mark.parametrize(
    ("path", "before", "after", "text", "result"),
    [
        ("compose.yml", '- "6390:6379"', '- "6391:6379"', "Redis is on 6390.", "6390"),
        ("a.ts", "const httpPort = 8321", "const httpPort = 1", "It has 8321.", "8321"),
        ("run.sh", "curl localhost:8321", "curl x", "It listens on 8321.", "8321"),
        # no port: `export`, `supported`, and a key of another matter
        (
            "a.ts",
            "export const LIMIT = 8000",
            "export const LIMIT = 9",
            "8000 of us",
            "",
        ),
        ("a.yml", "supported: 8000", "supported: 9", "We have 8000 users.", ""),
        ("a.json", '"limit": 8000', '"limit": 9', "We have 8000 users.", ""),
        ("CMakeLists.txt", "option(FAST_HASH)", "", "Keep FAST_HASH on.", "FAST_HASH"),
        ("notes.txt", "FAST_HASH", "", "Keep FAST_HASH on.", ""),
    ],
)
def test_lines_that_have_a_port_or_a_name(
    tmp_path: Path, path: str, before: str, after: str, text: str, result: str
) -> None:
    commit(tmp_path, {path: f"{before}\n", "keep": "1"})
    commit(tmp_path, {path: f"{after}\n", "keep": "1"}, LATER)
    assert list(ask(tmp_path, text)) == [result] * bool(result)


def test_evidence_of_a_dependency_is_the_line_that_had_it(tmp_path: Path) -> None:
    package = '{"dependencies": {\n"react-dom": "^18.2.0",\n"react": "^18.2.0"\n}}'
    commit(tmp_path, {"web/package.json": package})
    commit(tmp_path, {"web/package.json": package.replace("18.2", "19.0")}, LATER)
    one = Text("o1", None, "w", "We stay on react 18.2.", (), SAID)
    with open_git(find_checkout(tmp_path), 60) as git:
        (row,) = check_texts(git, [one], SAID, "key").rows.to_pylist()
    assert (row["result"], row["path"], row["line"], row["text"]) == (
        "differs",
        "web/package.json",
        3,
        '"react": "^18.2.0"',
    )


def test_what_was_gone_when_it_was_said_is_left_alone(repository: Path) -> None:
    after = datetime(2026, 11, 13, tzinfo=UTC)
    assert ask(repository, "`warm_cache` and src/cache.py went.", after) == {}
    # a commit within a day is the work that the words are about
    same_day = datetime(2026, 11, 12, 2, tzinfo=UTC)
    assert ask(repository, "I took out `warm_cache`.", same_day) == {}
    assert ask(repository, "`warm_cache` fills it.", None) == {"warm_cache": "gone"}


def test_a_rename_names_the_new_file_and_who_tells_of_it_is_left_alone(
    tmp_path: Path,
) -> None:
    text = "\n".join(f"line = {number}" for number in range(40))
    commit(tmp_path, {"a/old_name.py": text})
    head = commit(tmp_path, {"a/new_name.py": text}, LATER)
    one = Text("o1", None, "w", "It lies in a/old_name.py.", (), SAID)
    with open_git(find_checkout(tmp_path), 60) as git:
        (row,) = check_texts(git, [one], SAID, "key").rows.to_pylist()
    assert (row["instead"], row["since_commit"]) == ("a/new_name.py", head)
    assert ask(tmp_path, "a/old_name.py becomes a/new_name.py.") == {}


def test_a_secret_in_the_evidence_is_redacted(tmp_path: Path) -> None:
    commit(tmp_path, {"s.py": 'API_TOKEN = "ghp_' + "a1B2" * 9 + '"\n'})
    one = Text("o1", None, "w", "`API_TOKEN` is read once.", (), SAID)
    with open_git(find_checkout(tmp_path), 60) as git:
        (row,) = check_texts(git, [one], SAID, "key").rows.to_pylist()
    assert (row["result"], row["path"], row["line"]) == ("found", "s.py", 1)
    assert "a1B2" not in row["text"]


@pytest.mark.parametrize(
    "text",
    ["keep.py has it.", "`keep.py` has it.", "See cache.py:3.", "`rich` and rich==1"],
)
def test_each_thing_that_a_text_names_is_one_row(repository: Path, text: str) -> None:
    one = Text("o1", None, "w", text, ("src/keep.py", "keep.py"), SAID)
    with open_git(find_checkout(repository), 60) as git:
        ids = check_texts(git, [one], SAID, "key").rows["check_id"].to_pylist()
    # a store refuses rows of the same key, and with them the step
    assert ids
    assert len(ids) == len(set(ids))


def test_what_the_code_lost_is_said_once(tmp_path: Path) -> None:
    """A name that is a file's too, and the value of a setting that is gone itself, say nothing more."""
    commit(tmp_path, {"big.py": "x\n", "a.py": "WAIT_TIME = 30\n"})
    commit(tmp_path, {"a.py": "DEADLINE = 30\n"}, LATER)
    said = "big.py holds the tables, WAIT_TIME is 30 seconds."
    one = Text("o1", None, "w", said, ("big.py",), SAID)
    with open_git(find_checkout(tmp_path), 60) as git:
        rows = check_texts(git, [one], SAID, "key").rows.to_pylist()
    lost = sorted(row["name"] for row in rows if row["result"] != "found")
    assert lost == ["WAIT_TIME", "big.py"]


def test_names_are_found_by_form_in_any_language() -> None:
    named = {
        one.name for one in find_references("サーバーは `run_all` と src/ä/b.ts です")
    }
    assert {"run_all", "src/ä/b.ts"} <= named
    plain = find_references("Nothing here is named; it rains, and so they say.")
    assert plain == []


def test_older_changes_of_manifests_are_left_unread(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "The queue is Celery 5.2."
    (row,) = [one for one in check(repository, text).rows.to_pylist() if one["value"]]
    assert (row["name"], row["result"]) == ("Celery", "gone")
    monkeypatch.setattr(judge, "MOST_COMMITS", 1)
    assert row["check_id"] not in check(repository, text).unread
    manifest = AFTER["pyproject.toml"].replace("1.1", "1.2")
    commit(repository, AFTER | {"pyproject.toml": manifest}, LATER)
    found = check(repository, text)
    assert row["check_id"] in found.unread
    assert "Celery" not in found.rows["name"].to_pylist()


def test_a_dependency_is_not_gone_where_not_all_manifests_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "many"
    before = {"a/pyproject.toml": MANY["c/pyproject.toml"].replace('"c"', '"a"')}
    commit(folder, MANY | before)
    commit(folder, MANY, LATER)
    text = "The queue is Celery 5.2."
    assert "gone" not in check(folder, text).rows["result"].to_pylist()
    monkeypatch.setattr(judge, "MOST_MANIFESTS", 2)
    found = check(folder, text)
    assert (len(found.rows), bool(found.unread)) == (0, True)


def check(folder: Path, text: str) -> CheckedTexts:
    """What the checkout says of a text."""
    one = Text("o1", None, str(folder), text, (), SAID)
    with open_git(find_checkout(folder), 60) as git:
        return check_texts(git, [one], SAID, "key")


def test_what_a_revert_brings_back_holds_again(repository: Path) -> None:
    text = "Warm it with `warm_cache`, in src/cache.py."
    assert ask(repository, text) == {"warm_cache": "gone", "src/cache.py": "gone"}
    git(repository, "revert", "--no-edit", "HEAD", at=LATER)
    assert ask(repository, text) == {}
    git(repository, "revert", "--no-edit", "HEAD", at=LATER)
    assert ask(repository, text) == {"warm_cache": "gone", "src/cache.py": "gone"}


@pytest.mark.parametrize("name", ["web/pages", "web/pages/", "pages/old"])
def test_a_folder_is_there_as_long_as_one_of_its_files_is(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "demo"
    first, last = {"web/pages/old/a.ts": "a\n"}, {"web/pages/old/b.ts": "b\n"}
    rest = {"web/main.ts": "c\n"}
    text = f"The views are in {name} of the site."
    commit(folder, first | last | rest)
    assert ask(folder, text) == {}
    commit(folder, last | rest, LATER)
    assert ask(folder, text) == {}
    commit(folder, rest, LATER)
    assert ask(folder, text) == {name: "gone"}


def test_a_name_that_came_back_counts_by_its_last_removal(tmp_path: Path) -> None:
    """An older text, said before its file went, does not answer for a text that was said after its return."""
    keep = {"keep.py": "KEPT = 1\n"}
    commit(tmp_path, keep | {"quota_sync.py": "def run():\n    pass\n"})
    commit(tmp_path, keep, "2026-03-10T12:00:00Z")
    job = {"jobs.py": "def quota_sync():\n    pass\n"}
    commit(tmp_path, keep | job, "2026-05-10T12:00:00Z")
    last = commit(tmp_path, keep, LATER)
    said = "The nightly job is `quota_sync`."
    texts = [
        Text("old", None, "w", said, (), datetime(2026, 2, 1, tzinfo=UTC)),
        Text("new", None, "w", said, (), SAID),
    ]
    for asked in (texts, texts[1:]):
        with open_git(find_checkout(tmp_path), 60) as git:
            rows = check_texts(git, asked, SAID, "key").rows.to_pylist()
        assert {row["row_id"]: row["since_commit"] for row in rows} == {
            text.row_id: last for text in asked
        }


def test_a_name_that_only_its_file_had_goes_with_the_file(tmp_path: Path) -> None:
    commit(tmp_path, {"keep.py": "KEPT = 1\n", "quota_sync.py": "run = 1\n"})
    gone = commit(tmp_path, {"keep.py": "KEPT = 1\n"}, "2026-08-10T12:00:00Z")
    commit(tmp_path, {"keep.py": "KEPT = 2\n"}, LATER)
    one = Text("o1", None, "w", "The nightly job is `quota_sync`.", (), SAID)
    with open_git(find_checkout(tmp_path), 60) as git:
        (row,) = check_texts(git, [one], SAID, "key").rows.to_pylist()
    assert (row["since_commit"], row["path"]) == (gone, "quota_sync.py")
