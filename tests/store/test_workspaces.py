"""One workspace, however it is written."""

import os
from pathlib import Path

import pytest

from slowwave.schemas.errors import UsageError
from slowwave.text.workspaces import (
    anchor_workspace,
    find_project_root,
    find_workspaces,
    match_workspaces,
    require_workspaces,
    settle_workspace,
)

REMOTE = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'


def clone(folder: Path, url: str) -> Path:
    """A checkout as git leaves it, as far as it is read."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(REMOTE.format(url))
    return folder


@pytest.mark.parametrize(
    "written", ["{0}/", "{0}/.", "{0}/src/..", "{0}//", "{1}", "{0}/src", "./tide", "tide", "~/tide/"]
)
def test_a_folder_is_one_workspace_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    here = clone(tmp_path / "tide", "https://github.com/ada/tide.git")
    (here / "src").mkdir()
    (tmp_path / "link").symlink_to(here)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    known = [str(here), str(tmp_path / "other"), "tide-label", None]
    assert find_workspaces(written.format(here, tmp_path / "link"), known) == (str(here),)


@pytest.mark.parametrize(
    "url", ["git@github.com:ada/tide.git", "ssh://git@GitHub.com:22/ada/tide", "https://token@github.com/ada/tide.git/"]
)
def test_checkouts_of_one_remote_are_one_workspace(tmp_path: Path, url: str) -> None:
    one, two = clone(tmp_path / "one", "https://github.com/ada/tide"), clone(tmp_path / "two", url)
    fork = clone(tmp_path / "fork", "https://github.com/bob/tide")
    assert find_workspaces(str(two), [str(one), str(fork)]) == (str(one),)


def test_a_work_tree_is_its_checkout_and_a_submodule_is_not(tmp_path: Path) -> None:
    main, tree, module = tmp_path / "main", tmp_path / "tree", tmp_path / "main" / "module"
    for folder in (main / ".git" / "worktrees" / "tree", main / ".git" / "modules" / "module", tree, module):
        folder.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")
    (main / ".git" / "worktrees" / "tree" / "commondir").write_text("../..\n")
    (module / ".git").write_text("gitdir: ../.git/modules/module\n")
    assert find_workspaces(str(tree), [str(main), str(module)]) == (str(main),)
    assert find_workspaces(str(module), [str(main)]) == ()


def test_what_is_gone_goes_by_its_path_and_what_is_no_path_by_its_name(tmp_path: Path) -> None:
    assert find_workspaces("/home/nobody/tide/../tide/", ["/home/nobody/tide"]) == ("/home/nobody/tide",)
    assert find_workspaces("c:/Users/Ada/tide/", ["C:\\Users\\ada\\tide"]) == ("C:\\Users\\ada\\tide",)
    assert find_workspaces("friends", ["friends", "/friends", "Friends"]) == ("friends",)
    assert find_workspaces("/home/nobody/tide/src", ["/home/nobody/tide"]) == ()
    assert find_workspaces("\ud800\0", ["friends", "/home"]) == ()


def test_settings_kept_at_home_make_no_project_of_all_that_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    clone(tmp_path, "git@github.com:ada/dotfiles")
    (tmp_path / "notes").mkdir()
    assert find_project_root(tmp_path / "notes") is None
    assert find_workspaces(str(tmp_path / "notes"), [str(tmp_path)]) == ()


@pytest.mark.parametrize("config", ["", "no section = 1", "\udcff", '[remote "a"]\nurl\n'])
def test_a_config_that_says_nothing_leaves_the_folder(tmp_path: Path, config: str) -> None:
    here, other = clone(tmp_path / "a", "x"), clone(tmp_path / "b", "x")
    for folder in (here, other):
        (folder / ".git" / "config").write_text(config, errors="surrogateescape")
    assert find_workspaces(str(here), [str(here), str(other)]) == (str(here),)


def test_an_unknown_one_names_the_nearest() -> None:
    known = ["/home/ada/tidepool", "/home/ada/tidepool-web", "friends", None]
    with pytest.raises(UsageError, match=r"no workspace 'tidepol' is known here; the nearest: '/home/ada/tidepool'"):
        require_workspaces("tidepol", known)
    with pytest.raises(UsageError, match=r"no workspace 'zzz' is known here$"):
        require_workspaces("zzz", known)


KNOWN = [
    "/home/ada/velobooking",
    "/home/ada/api",
    "/home/bob/api/",
    "C:\\Users\\ada\\Tide",
    "friends",
    "/srv/friends",
    None,
]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("velobooking", ("/home/ada/velobooking",)),  # as recall prints it
        ("velobooking/", ("/home/ada/velobooking",)),
        ("ada/velobooking", ("/home/ada/velobooking",)),
        ("Velobooking", ("/home/ada/velobooking",)),  # no other is written just so
        ("bob/api", ("/home/bob/api/",)),
        ("tide", ("C:\\Users\\ada\\Tide",)),
        ("friends", ("friends",)),  # a whole name goes before a last part
        ("api", ()),  # two end so
        ("/velobooking", ()),  # a path is a whole one
        ("./velobooking", ()),
        ("booking", ()),
        ("", ()),
        ("/", ()),
    ],
)
def test_the_last_part_of_a_path_names_the_workspace_that_alone_ends_so(written: str, found: tuple[str, ...]) -> None:
    assert find_workspaces(written, KNOWN) == found


def test_a_last_part_of_several_lists_them_and_two_names_of_one_folder_are_one(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"2 workspaces are called 'api': '/home/ada/api', '/home/bob/api/'; write more of the path"
    ):
        require_workspaces("api", KNOWN)
    one, again = clone(tmp_path / "a" / "shop", "https://x.example/ada/shop"), tmp_path / "b" / "shop"
    again.parent.mkdir()
    again.symlink_to(one)
    assert find_workspaces("shop", [str(one), str(again)]) == (str(one), str(again))


def test_what_is_new_is_stored_under_the_name_that_is_known_and_what_a_setting_deletes_goes_by_whole_names() -> None:
    written = ("velobooking", "friends", "new-one", "/home/cy/velobooking")
    stored = ["/home/ada/velobooking", "friends", "new-one", "/home/cy/velobooking"]
    assert [settle_workspace(name, KNOWN) for name in written] == stored
    with pytest.raises(UsageError, match="2 workspaces are called 'api'"):
        settle_workspace("api", KNOWN)
    assert match_workspaces("velobooking", KNOWN) == ()


def test_a_relative_path_is_anchored_and_a_name_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert os.path.realpath(anchor_workspace(".")) == os.path.realpath(tmp_path)
    assert [anchor_workspace(name) for name in ("friends", ".config", "/a/.")] == ["friends", ".config", "/a/."]
