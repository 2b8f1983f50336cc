"""What a hook reads of the running session's transcript, whatever its path leads to."""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from slowwave.cli.agents.running_session import (
    READ_BYTES,
    _cut_to_end,
    find_shown,
    read_told,
)
from slowwave.context.projects.intentions import Intention

WAITING = Intention(
    id="a" * 32,
    text="once 1.0 is out drop the shim",
    workspace="/x",
    session="s",
    said_at=None,
    due=None,
    files=(),
    versions=(("", "1.0"),),
    names=(),
)


def list_paths(folder: Path) -> Sequence[str]:
    """A pipe, a folder, a file that is gone, and names that no file has."""
    pipe = folder / "pipe.jsonl"
    os.mkfifo(pipe)
    return [str(pipe), str(folder), str(folder / "gone"), "a\0b", "x" * 5_000]


def test_a_transcript_that_is_no_file_tells_nothing(tmp_path: Path) -> None:
    for path in list_paths(tmp_path):
        assert read_told(path, ["[abc]"]) == set()
        assert find_shown([WAITING], path, "/x") == []


def test_the_copy_of_a_transcripts_end_is_private(tmp_path: Path) -> None:
    transcript = tmp_path / "long.jsonl"
    transcript.write_bytes(b"0" * (READ_BYTES + 1))
    transcript.chmod(0o644)
    with _cut_to_end(transcript) as path:
        assert path != transcript
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "unit", ["0.0, 1.0, ", '{"x":1.0,"y":0.5},', "a" * 50 + "=1.0,", "v1" + "." * 200]
)
def test_a_long_output_is_read_quickly(unit: str) -> None:
    text = unit * (READ_BYTES // len(unit))
    began = time.process_time()
    assert not WAITING.has_version(text)
    assert time.process_time() - began < 0.05
