"""Whatever is written to a path that a person names is a new file: a link that somebody planted is never followed."""

from pathlib import Path

import pytest

from slowwave.flows.export import export_learnings
from slowwave.flows.metrics import write_metrics_after
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.store.backup.archive import back_up
from slowwave.store.private import open_new, replace_file
from tests.talk_files import session


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim.txt"
    path.write_text("precious")
    return path


def test_no_write_follows_a_planted_link(tmp_path: Path, victim: Path) -> None:
    storage = {"metrics_file": tmp_path / "metrics.prom"}
    settings = Settings(
        store=tmp_path / "store",
        encoder="hash-384",
        keywords={"top": 0},
        storage=storage,
    )
    run_night(
        [session(tmp_path, "s1", 2, [("user", "We sail at nine from now on.")])],
        settings,
    )
    for name in (".page.html.new", "space.tar.zst.part", "metrics.prom.new"):
        (tmp_path / name).symlink_to(victim)
    replace_file(tmp_path / "page.html", b"page")
    back_up(settings.store, settings.space, tmp_path / "space.tar.zst")
    with write_metrics_after(settings):
        pass
    assert victim.read_text() == "precious"
    assert (tmp_path / "page.html").read_bytes() == b"page"
    assert (tmp_path / "metrics.prom").stat().st_size > 100
    (tmp_path / "learnt.json").symlink_to(tmp_path / "nowhere.json")
    with pytest.raises(UsageError, match="is there already"):
        export_learnings(settings, tmp_path / "learnt.json")
    assert not (tmp_path / "nowhere.json").exists()


def test_a_new_file_is_opened_over_nothing(victim: Path) -> None:
    link = victim.with_name("link")
    link.symlink_to(victim)
    for path in (link, victim):
        with pytest.raises(FileExistsError):
            open_new(path)
