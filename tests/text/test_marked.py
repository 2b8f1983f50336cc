"""Our block between its marks; whatever stands around it stays, byte for byte."""

from pathlib import Path

import pytest

from slowwave.schemas.errors import UsageError
from slowwave.text.marked import (
    HASH_MARKS,
    MARKS,
    find_marked,
    read_as_it_is,
    remove_marked,
    replace_marked,
    write_whole,
)

AROUND = [
    b"",
    b"# Mine\n",
    b"# Mine",
    b"\n",
    b"# Mine\r\nand\r\n",
    b"\xef\xbb\xbf# Mine\xff\n\n\n",
    b"a\x0cb\xe2\x80\xa8c\n",
]


@pytest.mark.parametrize("mine", AROUND)
@pytest.mark.parametrize("marks", [MARKS, HASH_MARKS])
def test_what_is_put_in_and_taken_out_leaves_the_bytes(
    tmp_path: Path, mine: bytes, marks: tuple[str, str]
) -> None:
    path = tmp_path / "CLAUDE.md"
    path.write_bytes(mine)
    once = replace_marked(read_as_it_is(path), "- one\n- two", marks)
    assert write_whole(path, once)
    assert path.read_bytes().startswith(mine)
    path.write_bytes(path.read_bytes() + b"after\xff")
    twice = replace_marked(read_as_it_is(path), "- three", marks)
    write_whole(path, twice)
    assert (
        path.read_bytes().startswith(mine),
        path.read_bytes().endswith(b"after\xff"),
    ) == (True, True)
    assert (b"- three" in path.read_bytes(), b"- one" in path.read_bytes()) == (
        True,
        False,
    )
    assert not write_whole(path, replace_marked(read_as_it_is(path), "- three", marks))
    write_whole(path, remove_marked(read_as_it_is(path), marks))
    # Two lines of a person's do not become one.
    end = b"\n" if mine and not mine.endswith(b"\n") else b""
    assert path.read_bytes() == mine + end + b"after\xff"


def test_lines_around_a_block_stay_lines_where_nothing_stood_between_them_and_it() -> (
    None
):
    assert (
        remove_marked(f"# Mine\n{MARKS[0]}\nx\n{MARKS[1]}\nbelow\n")
        == "# Mine\nbelow\n"
    )
    assert (
        remove_marked(f"# Mine\r\n{MARKS[0]}\r\nx\r\n{MARKS[1]}\r\nbelow")
        == "# Mine\r\nbelow"
    )


@pytest.mark.parametrize(
    "text",
    [f"{MARKS[0]}\n", f"{MARKS[1]}\n{MARKS[0]}\n", f"{MARKS[0]}\n{MARKS[1]}\n" * 2],
)
def test_marks_that_are_no_pair_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not one pair"):
        replace_marked(text, "x")


def test_a_mark_within_a_line_is_none() -> None:
    assert find_marked(f"I wrote `{MARKS[0]}` and {MARKS[1]}.\n") is None


def test_a_bounded_file_is_not_written_through_a_link_out_of_its_folder(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("x")
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "AGENTS.md").symlink_to(outside)
    (folder / "CLAUDE.md").symlink_to("own.md")
    with pytest.raises(UsageError, match="is a link out of the project"):
        write_whole(folder / "AGENTS.md", "y", bounded=True)
    assert outside.read_text() == "x"
    assert write_whole(folder / "CLAUDE.md", "y", bounded=True)
    assert (folder / "own.md").read_text() == "y"


def test_a_file_is_written_whole_through_its_link_with_its_rights(
    tmp_path: Path,
) -> None:
    target = tmp_path / "AGENTS.md"
    target.write_text("x")
    target.chmod(0o640)
    (tmp_path / "CLAUDE.md").symlink_to(target)
    assert write_whole(tmp_path / "CLAUDE.md", "y")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("y", 0o640)
    assert (tmp_path / "CLAUDE.md").is_symlink()
    with pytest.raises(UsageError, match="is not a file"):
        read_as_it_is(Path("/dev/null"))
    assert {path.name for path in tmp_path.iterdir()} == {"AGENTS.md", "CLAUDE.md"}
    (tmp_path / "work" / ".git").mkdir(parents=True)
    # No link leads out of the checkout.
    assert write_whole(tmp_path / "work" / ".." / "beside.md", "z")
