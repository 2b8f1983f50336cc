"""Forms of tool calls that all readers of calls share."""

import json

import pytest

from slowwave.context.projects.intentions import read_done
from slowwave.schemas.tool_calls import join_words, list_patched_files
from slowwave.tasks.dead_ends.moves import read_call_moves
from slowwave.tasks.habits.calls import read_call


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ("*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py", ["a.py", "b.py"]),
        ("*** Begin Patch\n*** End Patch", []),
        ("run('*** Begin Patch\\n*** Add File: a.py\\n+x')", ["a.py"]),
        ("run('*** Begin Patch\\\\n*** Add File: a.py\\\\n+x')", ["a.py"]),
    ],
)
def test_all_readers_find_the_files_of_a_patch(given: str, files: list[str]) -> None:
    assert list_patched_files(given) == files
    actions = read_call(tool="apply_patch", given=given, failed=False, workspace="/x")
    moves = read_call_moves(
        tool="apply_patch", given=given, failed=False, workspace="/x"
    )
    [done] = read_done([{"type": "tool_call", "text": given}])
    assert [one.path for one in actions] == [one.path for one in moves] == files
    assert done.paths == tuple(files)


def test_a_shell_gets_its_script_and_other_programs_their_words() -> None:
    assert join_words(["bash", "-lc", "uv lock"]) == "uv lock"
    assert join_words(["git", "commit", "-m", "Lock"]) == "git commit -m Lock"
    assert join_words(["a", 1]) == join_words([]) == join_words(None) == ""
    call = {"type": "tool_call", "text": json.dumps({"command": ["sh", "-c", "ls"]})}
    assert [done.run for done in read_done([call])] == ["ls"]
