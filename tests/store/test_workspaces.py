"""One workspace, however it is written."""

import hashlib
import os
import re
import tomllib
from pathlib import Path

import pytest

from slowwave.schemas.errors import UsageError
from slowwave.text.workspaces import (
    anchor_workspace,
    find_places,
    find_project_root,
    find_workspaces,
    match_workspaces,
    refuse_near_name,
    require_workspaces,
    settle_workspace,
    tell_apart,
    write_alias,
)

REMOTE = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'


def clone(folder: Path, url: str) -> Path:
    """A checkout as git leaves it, as far as it is read."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(REMOTE.format(url))
    return folder


@pytest.mark.parametrize(
    "written",
    [
        "{0}/",
        "{0}/.",
        "{0}/src/..",
        "{0}//",
        "{1}",
        "{0}/src",
        "./tide",
        "tide",
        "~/tide/",
    ],
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
    assert find_workspaces(written.format(here, tmp_path / "link"), known) == (
        str(here),
    )


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:ada/tide.git",
        "ssh://git@GitHub.com:22/ada/tide",
        "https://token@github.com/ada/tide.git/",
    ],
)
def test_checkouts_of_one_remote_are_one_workspace(tmp_path: Path, url: str) -> None:
    one, two = (
        clone(tmp_path / "one", "https://github.com/ada/tide"),
        clone(tmp_path / "two", url),
    )
    fork = clone(tmp_path / "fork", "https://github.com/bob/tide")
    assert find_workspaces(str(two), [str(one), str(fork)]) == (str(one),)


def test_a_work_tree_is_its_checkout_and_a_submodule_is_not(tmp_path: Path) -> None:
    main, tree, module = (
        tmp_path / "main",
        tmp_path / "tree",
        tmp_path / "main" / "module",
    )
    for folder in (
        main / ".git" / "worktrees" / "tree",
        main / ".git" / "modules" / "module",
        tree,
        module,
    ):
        folder.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")
    (main / ".git" / "worktrees" / "tree" / "commondir").write_text("../..\n")
    (module / ".git").write_text("gitdir: ../.git/modules/module\n")
    assert find_workspaces(str(tree), [str(main), str(module)]) == (str(main),)
    assert find_workspaces(str(module), [str(main)]) == ()


def test_what_is_gone_goes_by_its_path_and_what_is_no_path_by_its_name(
    tmp_path: Path,
) -> None:
    assert find_workspaces("/home/nobody/tide/../tide/", ["/home/nobody/tide"]) == (
        "/home/nobody/tide",
    )
    assert find_workspaces("c:/Users/Ada/tide/", ["C:\\Users\\ada\\tide"]) == (
        "C:\\Users\\ada\\tide",
    )
    assert find_workspaces("friends", ["friends", "/friends", "Friends"]) == (
        "friends",
    )
    assert find_workspaces("/home/nobody/tide/src", ["/home/nobody/tide"]) == ()
    assert find_workspaces("\ud800\0", ["friends", "/home"]) == ()


WINDOWS = [
    "C:\\Users\\Ann\\pond",
    "c:/users/ann/pond/",
    "/mnt/c/Users/Ann/pond",
    "/c/Users/Ann/pond",
]
WINDOWS += [
    "\\\\wsl$\\Debian\\mnt\\c\\Users\\Ann\\pond",
    "//wsl.localhost/Debian/mnt/c/Users/Ann/pond",
    "\\\\?\\C:\\Users\\Ann\\pond",  # a long path
    "c-Users-Ann-pond",  # as in ~/.cursor/projects/
]


@pytest.mark.parametrize("written", WINDOWS[:-1])
def test_a_folder_of_windows_is_one_in_all_its_spellings(written: str) -> None:
    assert find_workspaces(written, [*WINDOWS, "D:\\Users\\Ann\\pond"]) == tuple(
        sorted(WINDOWS)
    )


@pytest.mark.parametrize(
    "written",
    ["\\\\nas\\src\\pond", "//nas/src/pond", "\\\\?\\UNC\\NAS\\src\\pond"],
)
def test_a_folder_of_another_machine_is_one_in_all_its_spellings(written: str) -> None:
    known = ["\\\\nas\\src\\pond", "//nas/src/pond", "\\\\nas\\src\\lake"]
    assert len(find_workspaces(written, known)) == 2


# A client would name each pair alike: home-ann-my-app, and no letter of 日本 is ASCII's.
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/home/ann/my-app", "/home/ann/my/app"),
        ("/home/ann/my.app", "/home/ann/my_app"),
        ("/home/ann/日本", "/home/ann"),
        ("/home/ann/日本", "/home/ann/中国"),
        ("/home/ann/日本/x", "home-ann-x"),
    ],
)
def test_two_folders_that_a_client_names_alike_are_two(one: str, other: str) -> None:
    assert match_workspaces(one, [one, other]) == (one,)


def test_a_folder_of_a_linux_in_windows_is_that_of_the_linux() -> None:
    assert (
        find_workspaces("/home/ann/pond", ["\\\\wsl$\\Debian\\home\\ann\\pond"]) != ()
    )


def test_a_project_is_the_checkout_with_its_work_trees_clones_and_folders(
    tmp_path: Path,
) -> None:
    url = "git@github.com:ada/tide.git"
    main, two = clone(tmp_path / "tide", url), clone(tmp_path / "two", url)
    mill = clone(tmp_path / "mill", "git@github.com:ada/mill.git")
    for folder in (main / "api", two / "api", mill / "api"):
        folder.mkdir()
    known = {
        str(main): "",
        str(main / "api"): "api",
        str(main / ".worktrees" / "fix"): "",  # is gone
        str(two / "api"): "api",
        "https://github.com/ada/tide": "",
        re.sub("[^A-Za-z0-9]+", "-", str(main)).strip("-"): "",  # by Cursor
    }
    places = find_places([*known, str(mill / "api"), "tide", None])
    assert {places[name].project for name in known} == {min(known)}
    assert {name: places[name].folder for name in known} == known
    assert places[str(mill / "api")] == (str(mill / "api"), "api")
    assert places["tide"] == ("tide", "")


def test_folders_that_are_gone_are_told_apart_and_a_local_clone_is_its_origin(
    tmp_path: Path,
) -> None:
    main = clone(tmp_path / "tide", "https://github.com/ada/tide.git")
    copy = clone(tmp_path / "copy", str(main))
    alone = tmp_path / "alone"
    (alone / ".git").mkdir(parents=True)
    copy_of_alone = clone(tmp_path / "copy2", str(alone))
    folders = [main, main / "gone1", main / "gone2", copy, alone, copy_of_alone]
    places = find_places(map(str, folders))
    found = [places[str(folder)] for folder in folders]
    assert [one.folder for one in found] == ["", "gone1", "gone2", "", "", ""]
    assert len({one.project for one in found[:4]}) == 1
    assert found[4].project == found[5].project != found[0].project


def test_a_work_tree_that_was_removed_belongs_to_the_checkout_it_lay_in(
    tmp_path: Path,
) -> None:
    main = clone(tmp_path / "tide", "https://github.com/ada/tide.git")
    gone, beside = str(main / ".worktrees" / "fix"), str(tmp_path / "tide-fix")
    assert find_workspaces(str(main), [gone, beside]) == (gone,)


def test_a_clients_own_name_for_a_folder_is_that_folder(tmp_path: Path) -> None:
    main = clone(tmp_path / "pond", "git@github.com:ada/pond.git")
    # As in ~/.cursor/projects/.
    cursor = re.sub("[^A-Za-z0-9]+", "-", str(main)).strip("-")
    gemini = hashlib.sha256(str(main).encode()).hexdigest()  # projectHash
    codex = "https://github.com/ada/pond"  # git.repository_url
    known = [cursor, gemini, codex, f"{cursor}-2", "https://github.com/bob/pond"]
    assert find_workspaces(str(main), known) == tuple(sorted([cursor, gemini, codex]))
    assert find_workspaces(str(main / "src"), [cursor]) == (cursor,)


def test_a_repository_without_a_checkout_is_the_only_folder_that_is_called_like_it() -> (
    None
):
    address = "https://github.com/ada/pond"
    assert find_workspaces("pond", [address, "/home/ada/pond"]) == (
        "/home/ada/pond",
        address,
    )
    assert find_workspaces("pond", [address, "/home/ada/pond", "/home/bob/pond"]) == ()


def test_an_alias_gives_what_was_said_under_the_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "slowwave.toml"))
    (tmp_path / "slowwave.toml").write_text("[read]\nexclude = []\n")
    write_alias("/old/pond", str(tmp_path))
    write_alias("lake", str(tmp_path))
    known = ["/old/pond", "/old/pond/src", "/old/pond2", "lake"]
    assert find_workspaces(str(tmp_path), known) == ("/old/pond", "lake")
    assert find_workspaces("lake", ["/old/pond"]) == ("/old/pond",)
    with pytest.raises(UsageError, match="has an alias of 'lake' already"):
        write_alias("lake", "/elsewhere")


@pytest.mark.parametrize(
    ("old", "stored"),
    [
        ("/old/pond/", "/old/pond"),
        ("/old/pond/", "/old/pond/src"),
        ("C:\\Users\\Ann\\pond", "/mnt/c/Users/Ann/pond"),
        ("c:/users/ann/pond", "C:\\Users\\Ann\\pond\\src"),
        ("//wsl$/Debian/old/pond", "/old/pond"),
    ],
)
def test_an_alias_holds_for_each_spelling_of_the_folder(
    old: str, stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "slowwave.toml"))
    here = clone(tmp_path / "lake", "https://github.com/ada/lake")
    write_alias(old, f"{here}/")
    others = ["/old/pond2", "C:\\Users\\Ann\\pond2"]
    assert find_workspaces(str(here), [stored, *others]) == (stored,)


def test_a_workspace_that_moved_twice_is_where_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(tmp_path / "slowwave.toml"))
    write_alias("pond", "/old/pond")
    write_alias("/old/pond", str(tmp_path))
    known = ["pond", "/old/pond", "lake"]
    assert find_workspaces(str(tmp_path), known) == ("/old/pond", "pond")
    write_alias(str(tmp_path), "pond")  # a circle ends
    assert "pond" in find_workspaces("pond", known)


@pytest.mark.parametrize(
    "header", ["[aliases] # renamed", "[ aliases ]", '["aliases"]']
)
def test_an_alias_joins_the_table_that_there_is(
    header: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slowwave.toml"
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(path))
    path.write_text(f'{header}\nlake = "/ada/lake"\n')
    write_alias("pond", "/ada/pond")
    assert tomllib.loads(path.read_text())["aliases"] == {
        "pond": "/ada/pond",
        "lake": "/ada/lake",
    }


@pytest.mark.parametrize(
    "text",
    [
        'aliases = {lake = "/ada/lake"}\n',
        'aliases.lake = "/ada/lake"\n',
        "aliases = 3\n",
        '[read]\nexclude = ["""\n[aliases]\n"""]\n',
    ],
)
def test_an_alias_that_would_break_the_file_is_not_written(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "slowwave.toml"
    monkeypatch.setenv("SLOWWAVE_CONFIG", str(path))
    path.write_text(text)
    with pytest.raises(UsageError, match="write the alias of 'pond' there"):
        write_alias("pond", "/ada/pond")
    assert path.read_text() == text


def test_settings_kept_at_home_make_no_project_of_all_that_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    clone(tmp_path, "git@github.com:ada/dotfiles")
    (tmp_path / "notes").mkdir()
    assert find_project_root(tmp_path / "notes") is None
    assert find_workspaces(str(tmp_path / "notes"), [str(tmp_path)]) == ()
    gone, other = (str(tmp_path / name) for name in ("gone", "other"))
    assert find_workspaces(gone, [gone, other, str(tmp_path)]) == (gone,)


@pytest.mark.parametrize(
    "config", ["", "no section = 1", "\udcff", '[remote "a"]\nurl\n']
)
def test_a_config_that_says_nothing_leaves_the_folder(
    tmp_path: Path, config: str
) -> None:
    here, other = clone(tmp_path / "a", "x"), clone(tmp_path / "b", "x")
    for folder in (here, other):
        (folder / ".git" / "config").write_text(config, errors="surrogateescape")
    assert find_workspaces(str(here), [str(here), str(other)]) == (str(here),)


def test_an_unknown_one_names_the_nearest() -> None:
    known = ["/home/ada/tidepool", "/home/ada/tidepool-web", "friends", None]
    with pytest.raises(
        UsageError,
        match=r"no project 'tidepol' is known here; the nearest: '/home/ada/tidepool'",
    ):
        require_workspaces("tidepol", known)
    with pytest.raises(UsageError, match=r"no project 'zzz' is known here$"):
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
def test_the_last_part_of_a_path_names_the_workspace_that_alone_ends_so(
    written: str, found: tuple[str, ...]
) -> None:
    assert find_workspaces(written, KNOWN) == found


def test_a_last_part_of_several_lists_them_and_two_names_of_one_folder_are_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        UsageError,
        match=r"2 projects are called 'api': '/home/ada/api', '/home/bob/api/'; write more of the path",
    ):
        require_workspaces("api", KNOWN)
    one, again = (
        clone(tmp_path / "a" / "shop", "https://x.example/ada/shop"),
        tmp_path / "b" / "shop",
    )
    again.parent.mkdir()
    again.symlink_to(one)
    assert find_workspaces("shop", [str(one), str(again)]) == (str(one), str(again))


def test_what_is_new_is_stored_under_the_name_that_is_known_and_what_a_setting_deletes_goes_by_whole_names() -> (
    None
):
    written = ("velobooking", "friends", "new-one", "/home/cy/velobooking")
    stored = ["/home/ada/velobooking", "friends", "new-one", "/home/cy/velobooking"]
    assert [settle_workspace(name, KNOWN) for name in written] == stored
    with pytest.raises(UsageError, match="2 projects are called 'api'"):
        settle_workspace("api", KNOWN)
    assert match_workspaces("velobooking", KNOWN) == ()


def test_a_relative_path_is_anchored_and_a_name_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert os.path.realpath(anchor_workspace(".")) == os.path.realpath(tmp_path)
    assert [anchor_workspace(name) for name in ("friends", ".config", "/a/.")] == [
        "friends",
        ".config",
        "/a/.",
    ]


@pytest.fixture
def kiln(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, as the current folder, with a folder `docs`; another is beside it."""
    here = clone(tmp_path / "code" / "kiln-watch", "https://github.com/ada/kiln")
    clone(tmp_path / "code" / "choirbook", "https://github.com/ada/choir")
    (here / "docs").mkdir()
    monkeypatch.chdir(here)
    return here


def test_a_bare_name_inside_a_checkout_is_not_the_checkout(kiln: Path) -> None:
    choir, docs = str(kiln.parent / "choirbook"), "/home/ada/docs"
    known = [str(kiln), choir, None]
    assert find_workspaces("choirbook", known) == (choir,)
    assert find_workspaces("docs", known) == (str(kiln),)  # a folder that is there
    assert find_workspaces("docs", [*known, docs]) == (docs,)  # the known one first
    for slip in ("nothere", "choirbok", "src/nothere"):
        assert find_workspaces(slip, known) == match_workspaces(slip, known) == ()
    with pytest.raises(UsageError, match=f"the nearest: '{choir}'"):
        require_workspaces("choirbok", known)


def test_what_is_new_is_the_folder_of_that_name_and_a_slip_is_refused(
    kiln: Path,
) -> None:
    known = [str(kiln.parent / "kilnwatch"), str(kiln.parent / "choirbook")]
    assert settle_workspace("kiln-watch", known) == str(kiln)
    assert settle_workspace("docs", known) == str(kiln / "docs")
    refuse_near_name(str(kiln), known)
    refuse_near_name("zzz", known)
    slip = settle_workspace("choirbok", known)
    with pytest.raises(UsageError, match="if it is a new one, give the path"):
        refuse_near_name(slip, known)


def test_projects_of_one_name_are_shown_with_what_tells_them_apart(
    tmp_path: Path,
) -> None:
    one = clone(tmp_path / "code" / "choirbook", "https://x.example/ada/choir")
    other = clone(tmp_path / "clients" / "choirbook", "https://x.example/bob/choir")
    again = clone(tmp_path / "old" / "kiln", "https://x.example/ada/kiln")
    (tmp_path / "kiln").symlink_to(again)  # another name of one project
    known = [one, other, again, tmp_path / "kiln", "/a/b/pond", "/c/b/pond", "/b/pond"]
    assert tell_apart([*map(str, known), "kiln-watch", None]) == {
        str(one): "code/choirbook",
        str(other): "clients/choirbook",
        str(again): "kiln",
        str(tmp_path / "kiln"): "kiln",
        "/a/b/pond": "/a/b/pond",
        "/c/b/pond": "/c/b/pond",
        "/b/pond": "/b/pond",
        "kiln-watch": "kiln-watch",
    }


def test_a_folder_of_a_checkout_is_shown_behind_the_project(tmp_path: Path) -> None:
    lake = clone(tmp_path / "lake", "https://x.example/ada/lake")
    (lake / "web").mkdir()
    # the last is a work tree that is gone
    known = [tmp_path, lake, lake / "web", lake / ".claude" / "worktrees" / "fix"]
    shown = tell_apart(map(str, known))
    expected = [tmp_path.name, "lake", "lake/web", "lake"]
    assert [shown[str(path)] for path in known] == expected


def test_a_shown_name_is_taken_for_that_project_alone(tmp_path: Path) -> None:
    tops = ["a/lake", "b/lake/web", "c/web", "c/docs"]
    one, *_ = (clone(tmp_path / top, f"https://x.example/{top}") for top in tops)
    # a twin: the second clone of a project
    twin = clone(tmp_path / "d" / "lake", "https://x.example/a/lake")
    tree = one / ".claude" / "worktrees" / "fix"
    inside = [folder / name for folder in (one, twin) for name in ("web", "docs")]
    for folder in inside:
        folder.mkdir()
    known = [*(str(tmp_path / top) for top in tops), *map(str, (twin, tree, *inside))]
    shown = tell_apart(known)
    lake = {str(path) for path in (one, twin, tree, *inside)}
    for name in known:
        expected = lake if name in lake else {name}
        assert set(require_workspaces(shown[name], known)) == expected, shown[name]
    assert [shown[name] for name in known] == [
        *("lake", "b/lake/web", "c/web", "c/docs", "lake", "lake"),
        *("a/lake/web", "lake/docs", "d/lake/web", "lake/docs"),
    ]


def test_a_folder_without_git_is_of_the_known_one_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    deep = home / "notes" / "2026" / "may"
    deep.mkdir(parents=True)
    notes = str(home / "notes")
    assert find_workspaces(str(deep), {notes, str(home)}) == (notes,)
    assert settle_workspace(str(deep), {notes}) == notes
    assert settle_workspace(str(deep), {notes}, own=True) == str(deep)
    monkeypatch.chdir(deep.parent)
    assert find_workspaces("may", {notes}) == (notes,)
    # a slip is no folder, and what two known ones end in is neither
    assert find_workspaces("june", {notes}) == ()
    assert find_workspaces("may", {notes, "/a/may", "/b/may"}) == ()
    assert match_workspaces(str(deep), {notes}) == ()
    # the home folder holds the projects and is none
    assert find_workspaces(str(deep), {str(home), str(tmp_path)}) == ()
    lake = clone(home / "notes" / "lake", "https://x.example/ada/lake")
    assert find_workspaces(str(lake), {notes}) == ()
