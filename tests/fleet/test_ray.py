"""Nights on Ray's own test cluster give the tables of a plain night, whatever dies; nothing hangs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from slowwave.engines.llm.protocol import Request
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import open_executor
from slowwave.schemas.settings import Settings
from slowwave.tasks.isolate import do_apart
from slowwave.tasks.shards import HERE, ShardsFailed, ShardStep, split_shards, spread
from tests import llm_scripts
from tests.killed_nights import SAMPLES, SMALL, digests

if not find_spec("ray"):
    pytest.skip(
        "Ray is not installed: pip install 'slowwave[ray]'", allow_module_level=True
    )
open_executor(Path(), "ray:local")  # sets what Ray reads when it is imported
import psutil  # noqa: E402  # Ray brings it
import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from slowwave.plugins.fleet import on_ray  # noqa: E402
from slowwave.plugins.fleet.on_ray import RayExecutor  # noqa: E402

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore:.*fork:Warning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]
MIB = 2**20
LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1"}
ROWS = pa.table(
    {"unit": [f"u{n % 40}" for n in range(2_000)], "number": pa.array(range(2_000))}
)
SCHEMA = pa.schema(
    [("unit", pa.string()), ("number", pa.int64()), ("note", pa.string())]
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A machine with one core and an object store of 80 MB, which may spill however full the disk is."""
    spills = {"local_fs_capacity_threshold": 1.0}
    head = {"num_cpus": 1, "object_store_memory": 80 * MIB, "_system_config": spills}
    made = Cluster(initialize_head=True, head_node_args=head)
    ray.init(made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def grow(cluster: Cluster) -> Iterator[Callable[[int], Any]]:
    """Adds a machine with so many cores, until the test's end."""

    def add(cores: int) -> Any:
        node = cluster.add_node(num_cpus=cores, object_store_memory=80 * MIB)
        cluster.wait_for_nodes()
        return node

    yield add
    for node in [*cluster.worker_nodes]:
        cluster.remove_node(node)


def find_listeners(process: psutil.Process) -> set[str]:
    """Return the addresses at which a process and those that it started listen."""
    pids = {process.pid, *(child.pid for child in process.children(recursive=True))}
    sockets = psutil.net_connections("inet")
    return {
        one.laddr.ip
        for one in sockets
        if one.status == psutil.CONN_LISTEN and one.pid in pids
    }


def make_step(kind: str, do: Callable[..., pa.Table], **given: object) -> ShardStep:
    return ShardStep(kind, repr(given), SCHEMA, partial(do, **given))


def count_up(shard: pa.Table, *, seconds: float = 0) -> pa.Table:
    time.sleep(seconds)
    return shard.append_column("note", pa.nulls(shard.num_rows, pa.string()))


def die(shard: pa.Table, *, unit: str, once: str = "") -> pa.Table:
    """Kill the worker that has this unit: once, where a file is named that then says so, else each time."""
    if unit in shard["unit"].to_pylist() and not (once and Path(once).exists()):
        if once:
            Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return shard.append_column("note", pa.nulls(shard.num_rows, pa.string()))


DEATHS = ["", 0]
"""A folder, and how often a model dies over a gist: it leaves a file there each time."""


def dying(request: Request) -> Any:
    folder, times = Path(str(DEATHS[0])), int(DEATHS[1])
    if (
        llm_scripts.kind(request) == "gist"
        and (dead := len([*folder.iterdir()])) < times
    ):
        (folder / str(dead)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return llm_scripts.faithful(request)


def swell(shard: pa.Table) -> pa.Table:
    return pa.table(
        {
            "unit": shard["unit"],
            "number": shard["number"],
            "note": pa.array(["x" * 40_000] * shard.num_rows, pa.string()),
        }
    )


@pytest.fixture(autouse=True, scope="module")
def sent_by_value() -> None:
    """Workers can't import a test's module: its functions go along."""
    for module in (sys.modules[__name__], llm_scripts):
        ray.cloudpickle.register_pickle_by_value(module)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the shards that this process has had computed."""
    names: list[str] = []
    write = on_ray.replace_file

    def note(path: Path, content: bytes) -> None:
        names.append(path.name)
        write(path, content)

    monkeypatch.setattr(on_ray, "replace_file", note)
    return names


@pytest.mark.parametrize("added", [[], [1], [1, 1], [1, 1, 4]])
def test_any_cluster_gives_the_tables_of_a_plain_night(
    grow: Callable[[int], Any],
    undisturbed: dict[str, str],
    written: list[str],
    tmp_path: Path,
    added: list[int],
) -> None:
    """On 1, 2, 3 and 4 machines with 1, 2, 3 and 7 cores in all."""
    for cores in added:
        grow(cores)
    run_night(
        [SAMPLES], Settings(store=tmp_path, **SMALL), executor="ray:auto"
    ).check_complete()
    assert digests(tmp_path) == undisturbed
    assert {name.split("-")[0] for name in written} == {
        "changes",
        "encode",
        "observe",
        "pairs",
        "sessions",
        "summaries",
    }
    assert not (tmp_path / "default" / "shards").exists()
    assert find_listeners(psutil.Process()) == LOOPBACK


def test_a_worker_killed_over_a_shard_and_a_node_removed(
    cluster: Cluster, grow: Callable[[int], Any], tmp_path: Path
) -> None:
    expected = spread(HERE, make_step("count", count_up), ROWS, "unit")
    killed = make_step("killed", die, unit="u7", once=str(tmp_path / "died"))
    assert spread(RayExecutor(tmp_path / "shards"), killed, ROWS, "unit").equals(
        expected
    )
    assert (tmp_path / "died").exists()
    node, executor, made = grow(4), RayExecutor(tmp_path / "others"), list[pa.Table]()
    slow = make_step("slow", count_up, seconds=1.5)
    night = Thread(target=lambda: made.append(spread(executor, slow, ROWS, "unit")))
    night.start()
    time.sleep(3)
    cluster.remove_node(node, allow_graceful=False)
    night.join(120)
    assert made[0].equals(expected)


def test_what_always_fails_is_found_and_the_rest_is_done_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    executor, done = RayExecutor(tmp_path), dict[str, int]()
    fails = make_step("fails", die, unit="u7")

    def do(units: Any) -> None:
        rows = ROWS.filter(
            pa.array([unit in set(units) for unit in ROWS["unit"].to_pylist()])
        )
        for row in spread(executor, fails, rows, "unit").to_pylist():
            done[row["unit"]] = done.get(row["unit"], 0) + 1

    failed = do_apart([f"u{n}" for n in range(40)], do)
    assert [*failed] == ["u7"]
    assert isinstance(failed["u7"], ray.exceptions.WorkerCrashedError)
    assert done == {f"u{n}": 50 for n in range(40) if n != 7}

    def fail(sessions: Any) -> None:  # over a shard of texts
        if "s3" in sessions:
            raise ShardsFailed(frozenset({"text"}), ValueError())

    assert [*do_apart([f"s{n}" for n in range(9)], fail)] == ["s3"]


def test_an_empty_shard_a_null_column_and_an_object_store_that_spills(
    cluster: Cluster, tmp_path: Path
) -> None:
    few = ROWS.slice(0, 300)
    one_unit = few.set_column(0, "unit", pa.array(["u1"] * 300))
    assert sorted(shard.num_rows for shard in split_shards(one_unit, "unit")) == [
        0,
        300,
    ]
    executor = RayExecutor(tmp_path)
    for rows in (one_unit, few.slice(0, 0), few):
        made = spread(executor, make_step("count", count_up), rows, "unit")
        assert made.schema == SCHEMA
        assert (made.num_rows, made["note"].null_count) == (
            rows.num_rows,
            rows.num_rows,
        )
    # 160 MB.
    big = spread(
        executor, make_step("swell", swell), pa.concat_tables([ROWS] * 2), "unit"
    )
    assert big.num_rows == 4_000
    with pytest.raises(ShardsFailed, match="TypeError: wrong made"):
        spread(executor, ShardStep("wrong", "", ROWS.schema, count_up), few, "unit")


def test_a_model_answers_from_an_actor_which_may_die_twice(
    cluster: Cluster,
    grow: Callable[[int], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The script would kill this process, if it was asked here."""
    grow(1)
    made = {}
    for ray_at, dies in ((None, 0), ("auto", 2), ("auto", 3)):
        store, deaths = tmp_path / f"store{dies}", tmp_path / f"deaths{dies}"
        deaths.mkdir()
        monkeypatch.setattr(sys.modules[__name__], "DEATHS", [str(deaths), dies])
        model = {**SMALL, "gists": "llm", "llm": f"scripted:{__name__}:dying"}
        report = run_night(
            [SAMPLES],
            Settings(store=store, **model),
            executor=ray_at and f"ray:{ray_at}",
        )
        assert len([*deaths.iterdir()]) == dies
        if dies == 3:
            assert any("its actor on Ray is gone" in line for line in report.failures)
            report = run_night(
                [SAMPLES],
                Settings(store=store, **model),
                executor=ray_at and f"ray:{ray_at}",
            )
        report.check_complete()
        made[dies] = digests(store)
    assert made[2] == made[0]
    # Which tells what was mended.
    assert made[3] == {
        **made[0],
        "quarantine": made[3]["quarantine"],
    }


KILLED = """
import os, signal, sys
from pathlib import Path
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.store.store import Store
from tests.killed_nights import SAMPLES, SMALL

def die(*args):  # every shard of the step is there, nothing is written
    os.kill(os.getpid(), signal.SIGKILL)

append = Store.append
Store.append = lambda self, table, rows: die() if table.name == "passages" else append(self, table, rows)
run_night([SAMPLES], Settings(store=Path(sys.argv[1]), **SMALL), executor=f"ray:{sys.argv[2]}")
"""


def test_a_night_killed_before_it_commits_computes_no_shard_twice(
    cluster: Cluster, undisturbed: dict[str, str], written: list[str], tmp_path: Path
) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path), cluster.address]
    assert subprocess.run(words, timeout=300).returncode == -signal.SIGKILL
    kept = {
        path.name for path in (tmp_path / "default" / "shards").glob("encode-*.arrow")
    }
    assert kept
    run_night(
        [SAMPLES], Settings(store=tmp_path, **SMALL), executor="ray:auto"
    ).check_complete()
    assert not kept.intersection(written)
    assert digests(tmp_path) == undisturbed


def test_the_command_starts_ray_on_loopback_alone_and_goes_on_after_ctrl_c(
    undisturbed: dict[str, str], tmp_path: Path
) -> None:
    words = [
        sys.executable,
        "-m",
        "slowwave",
        "run",
        str(SAMPLES),
        "--engine",
        "ray",
        "--plain",
        "--store",
        tmp_path,
    ]
    small = {
        "SLOWWAVE_ENCODER": "hash-384",
        "SLOWWAVE_KEYWORDS__TOP": "0",
        "SLOWWAVE_GISTS": "extractive",
    }
    temporary = Path(gettempdir())
    before = {*temporary.glob("slowwave-ray-*")}
    night = subprocess.Popen(words, env=os.environ | small)
    try:
        while not [*tmp_path.glob("default/shards/*.arrow")]:
            assert night.poll() is None
            time.sleep(0.05)
        listens, folders = (
            find_listeners(psutil.Process(night.pid)),
            {*temporary.glob("slowwave-ray-*")} - before,
        )
        modes = {folder.stat().st_mode & 0o777 for folder in folders}
    finally:
        night.send_signal(signal.SIGINT)
        status = night.wait(120)
    assert (listens, modes) == (LOOPBACK, {0o700})
    assert status not in (0, -signal.SIGINT)
    assert subprocess.run(words, env=os.environ | small, timeout=300).returncode == 0
    assert digests(tmp_path) == undisturbed
