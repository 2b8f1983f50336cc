"""Fail every write, fsync, rename and unlink of a night, one after the other, and look at what came of it.

    python -m bench.faults                                      every call of a night and of a forgetting, some hours
    python -m bench.faults --stride 40                          each 40th
    python -m bench.faults --write docs/reliability.md          puts the table into the page

A small night is done over a store that has a release. In it the n-th call fails with EIO; or the disk is full from the
n-th on (ENOSPC); or nothing reaches the disk any more from the n-th on, as after a kill; or after that the power is
lost, with what was not synced. Each time: readers must see the old release or the new one, whole; the next night must
end with the tables of a night that nothing disturbed; ids are unique; what a claim cites is there; what was to be
forgotten is in no byte. Rows of readers' or the mended tables that are missing or other are counted.
"""

import contextlib
import errno
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from bench.fault_disk import FULL, ONCE, STOP, Disk, NoFaults
from bench.harness import Figures, Row, run
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.schemas.errors import NoRelease, SlowwaveError, StoreMissing, UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    ACTIONS,
    CLAIMS,
    MARKS,
    MESSAGES,
    RELEASED,
    Table,
)
from slowwave.store import Store
from slowwave.store.manifest import compute_table_digest
from slowwave.store.releases import Snapshot
from slowwave.store.repair import check_store
from slowwave.tasks.forget.canaries import pick_canaries
from slowwave.tasks.forget.proof import scan_files
from slowwave.tasks.forget.select import Wanted
from slowwave.text.marked import replace_marked

COMPARED = (*RELEASED, ACTIONS, MARKS)
CANARY = "the amaranth gyrfalcon of Ulverstone"
SAID = (
    "We take the ferry to Hoy on {} May, the cabin number is {}.",
    "Ann paid {} euros for the {}th cabin, and the gauge at Hoy reads 1.83 m too high.",
    "We decided to poll the gauge every {} minutes and to keep the last {} readings.",
)
DISKS = {
    "EIO": (errno.EIO, ONCE),
    "ENOSPC": (errno.ENOSPC, FULL),
    "killed": (errno.EIO, STOP),
}
LOSSES = {
    "nothing": "nothing is left of what was not synced",
    "names": "files that were not synced are empty",
    "some": "some files that were not synced are there",
}
CALLS = ("write", "fsync", "rename", "unlink", "create")


def measure(
    *,
    stride: int = 1,
    start: int | None = None,
    case: Sequence[str] = (),
    write: Path | None = None,
) -> Figures:
    """Break the runs and return a row a fault; the status tells whether an invariant did not hold.

    `stride` fails each n-th call only, `start` leaves out calls before the first, by chance if it is not given, and
    `case` is of *first night*, *night*, *forgetting*.
    """
    try:
        outcomes = measure_apart(case, stride, start)
    except NoFaults as why:
        return Figures([], notes=[f"no faults were made: {why}"])
    rows = [outcome.as_row() for outcome in outcomes]
    if write:
        said = f"One call in {stride} of each run was made to fail, the first drawn by chance."
        write.write_text(
            replace_marked(write.read_text("utf-8"), f"{said}\n\n{format_table(rows)}"),
            "utf-8",
        )
    broken = [line for outcome in outcomes for line in outcome.broken]
    return Figures(rows, notes=broken, failed=bool(broken))


def format_table(rows: Sequence[Row]) -> str:
    """Return rows as a table in Markdown: a name, figures, and how the run ended."""
    head = [f"| {' | '.join(rows[0])} |", "|---|--:|--:|--:|--:|---|"]
    return "\n".join(
        [*head, *(f"| {' | '.join(map(str, row.values()))} |" for row in rows)]
    )


@dataclass
class Outcome:
    """What came of one kind of fault."""

    fault: str
    times: int = 0
    told: Counter[str] = field(default_factory=Counter)
    """How the run that was hit ended: the error it raised, or `done`."""
    lost: int = 0
    wrong: int = 0
    seconds: float = 0.0
    """An earlier release can no longer be read."""
    broken: list[str] = field(default_factory=list)
    """What no invariant allows, with the fault's place."""

    def as_row(self) -> Row:
        """Return its line of the table."""
        told = ", ".join(f"{count} {name}" for name, count in self.told.most_common())
        counts = {"times": self.times, "rows lost": self.lost, "rows wrong": self.wrong}
        return {
            "fault": self.fault,
            **counts,
            "seconds unavailable": round(self.seconds),
            "how the run ended": told,
        }


Rows = dict[str, dict[str, Any]]
Run = Callable[[Path], object]


@dataclass
class Case:
    """A run over a store of one release, and its result if nothing disturbs it."""

    name: str
    base: Path
    run: Run
    mend: Run
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    """How many of each kind it makes."""


def write_talk(path: Path, sessions: int) -> Path:
    """Write sessions of three messages each, the first with the canary in it."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(sessions):
            for k, text in enumerate(SAID):
                said = text.format(n + 4, 240 + n) + (
                    f" We named the boat {CANARY}." if n == 0 and k == 0 else ""
                )
                line = {
                    "session_id": f"s{n}",
                    "message_id": f"s{n}-{k}",
                    "role": "user",
                    "speaker": "Ben",
                }
                file.write(
                    json.dumps(
                        {
                            **line,
                            "content": said,
                            "ts": f"2026-11-{n + 3:02}T10:0{k}:00Z",
                        }
                    )
                    + "\n"
                )
    return path


def make_settings(root: Path) -> Settings:
    """Return the settings of a small night."""
    return Settings(store=root, encoder="hash-384", keywords={"top": 0})


def make_cases(folder: Path, names: Sequence[str], disk: Disk) -> list[Case]:
    """Return a first night, a night with news, and a forgetting; each with what it makes when nothing fails.

    Args:
        folder: where to make their stores.
        names: which of them; none of them for all.
        disk: counts their calls.
    """
    first, both = (
        write_talk(folder / "first.jsonl", 3),
        write_talk(folder / "both.jsonl", 4),
    )
    empty, base = folder / "empty", folder / "base"
    empty.mkdir()
    run_night([first], make_settings(base))
    first.unlink()

    def night(root: Path) -> None:
        run_night([both], make_settings(root)).check_complete()

    def forget(root: Path) -> None:
        run_forget(Wanted(sessions=("s0",)), make_settings(root))

    def finish(root: Path) -> None:
        with contextlib.suppress(UsageError):  # its messages are gone already
            forget(root)
        run_night([], make_settings(root)).check_complete()

    cases = [
        Case("first night", empty, night, night),
        Case("night", base, night, night),
        Case("forgetting", base, forget, finish),
    ]
    cases = [case for case in cases if not names or case.name in names]
    for case in cases:
        root = folder / f"undisturbed {case.name}"
        shutil.copytree(case.base, root)
        case.before = digest_released(root)
        disk.watch(root)
        case.run(root)
        case.calls = disk.counts
        case.after, case.newest = digest_released(root), digest_newest(root)
        case.rows = read_rows(root)
    return cases


def digest_released(root: Path) -> dict[str, str]:
    """Return a digest of every table of the live release, as a reader has it; none before the first release."""
    try:
        live = Snapshot(root)
    except (StoreMissing, NoRelease):
        return {}
    return {
        table.name: compute_table_digest(table, live.read(table)) for table in RELEASED
    }


def digest_newest(root: Path) -> dict[str, str]:
    """Return a digest of every table as a writer has it."""
    store = Store.open(root)
    return {
        table.name: compute_table_digest(table, store.read(table)) for table in COMPARED
    }


def read_rows(root: Path) -> dict[str, Rows]:
    """Return the rows of every table by key, what may differ from night to night left out."""
    store = Store.open(root)
    return {table.name: _by_key(table, store.read(table)) for table in COMPARED}


def _by_key(table: Table, rows: pa.Table) -> Rows:
    return {
        row[table.key]: {k: v for k, v in row.items() if k not in table.volatile}
        for row in rows.to_pylist()
    }


def check_reader(case: Case, root: Path) -> str:
    """Return the fault in what a reader sees now; empty if it is one of the two releases, whole."""
    try:
        seen = digest_released(root)
    except (SlowwaveError, OSError) as error:
        return f"a reader sees no release: {error}" if case.before else ""
    return (
        ""
        if seen in (case.before, case.after)
        else "a reader sees a release that nobody made"
    )


def check_mended(case: Case, root: Path, outcome: Outcome, where: str) -> None:
    """Run again without faults, and hold every table against those of the undisturbed run."""
    try:
        case.mend(root)
    except Exception as error:  # whatever it is, it is what is looked for
        outcome.broken.append(
            f"{where}: the next run fails: {type(error).__name__}: {error}"
        )
        return
    store = Store.open(root)
    if digest_newest(root) != case.newest or digest_released(root) != case.after:
        found = read_rows(root)
        lost = {t: rows.keys() - found[t].keys() for t, rows in case.rows.items()}
        wrong = {
            t: [k for k, row in found[t].items() if case.rows[t].get(k) != row]
            for t in found
        }
        outcome.lost += sum(map(len, lost.values()))
        outcome.wrong += sum(map(len, wrong.values()))
        names = sorted(t for t in found if lost[t] or wrong[t])
        outcome.broken.append(
            f"{where}: other tables after the next run: {', '.join(names) or 'released'}"
        )
    held = store.read(MESSAGES, ["message_id"])["message_id"].to_pylist()
    cited = store.read(CLAIMS, ["message_ids"])["message_ids"].to_pylist()
    if len(set(held)) != len(held) or not {
        key for keys in cited for key in keys
    } <= set(held):
        outcome.broken.append(f"{where}: an id twice, or a claim of what is not there")
    outcome.broken += [f"{where}: {damage}" for damage in check_store(store.dir).damage]
    if case.name == "forgetting" and (
        found := scan_files([store.dir], pick_canaries([CANARY], [])).found
    ):
        outcome.broken.append(f"{where}: what was forgotten is in {', '.join(found)}")


def run_faulty(case: Case, root: Path, disk: Disk) -> str:
    """Run on the disk as it is armed; how it ended."""
    try:
        case.run(root)
    except SlowwaveError as error:
        return type(error).__name__
    except OSError:
        return "OSError"
    except Exception as error:
        return f"a traceback: {type(error).__name__}"
    finally:
        disk.arm(None)
    return "done"


def fail_calls(
    case: Case, folder: Path, disk: Disk, stride: int, start: int
) -> Iterator[Outcome]:
    """Fail each n-th call in each of the ways; yield what came of each kind of fault."""
    for name, (error, mode) in DISKS.items():
        for kind in (
            ("any",) if mode == STOP else CALLS if mode == ONCE else ("write", "create")
        ):
            outcome = Outcome(
                f"{case.name}: {name} at the n-th {'change' if kind == 'any' else kind}"
            )
            for nth in range(1 + start, case.calls[kind] + 1, stride):
                root = folder / f"{name}-{kind}-{nth}"
                shutil.copytree(case.base, root)
                disk.watch(root)
                disk.arm(kind, nth, error, mode)
                outcome.told[run_faulty(case, root, disk)] += 1
                outcome.times += 1
                # What is done from here on need not wait for the true disk.
                disk.watch(folder)
                judge(case, root, outcome, f"{name} {kind} {nth}")
                shutil.rmtree(root)
            yield outcome


def judge(case: Case, root: Path, outcome: Outcome, where: str) -> None:
    """Look at a store as a reader, then let the next run mend it, and look again."""
    begun = time.perf_counter()
    trouble = check_reader(case, root)
    check_mended(case, root, outcome, where)
    if trouble:
        outcome.broken.append(f"{where}: {trouble}")
        outcome.seconds += time.perf_counter() - begun


def lose_power(
    case: Case, folder: Path, disk: Disk, stride: int, start: int
) -> Iterator[Outcome]:
    """Lose the power at each n-th change of the disk, and start again; yield what came of it, for each way to lose."""
    outcomes = {
        keeps: Outcome(f"{case.name}: power lost at the n-th change; {LOSSES[keeps]}")
        for keeps in LOSSES
    }
    total = case.calls["any"]
    for nth in [*range(1 + start, total + 1, stride), total + 1]:
        root, shadow = folder / f"power-{nth}", folder / f"shadow-{nth}"
        shutil.copytree(case.base, root)
        shadow.mkdir()
        disk.watch(root, shadow)
        disk.keep(root)
        disk.arm("any", nth, errno.EIO, STOP)
        told = run_faulty(case, root, disk)
        disk.watch(folder)
        for keeps, outcome in outcomes.items():
            image, where = folder / f"image-{nth}-{keeps}", f"power {nth} {keeps}"
            disk.build_lost(root, image, shadow, keeps, random.Random(nth))
            outcome.times += 1
            outcome.told[told] += 1
            with patch("slowwave.store.lock.read_boot", lambda: "another start"):
                if told == "done":
                    outcome.broken += check_kept(case, image, where)
                judge(case, image, outcome, where)
            shutil.rmtree(image)
        shutil.rmtree(root)
        shutil.rmtree(shadow)
    yield from outcomes.values()


def check_kept(case: Case, root: Path, where: str) -> Iterator[str]:
    """Yield the losses of a run that ended well before the power went."""
    with contextlib.suppress(SlowwaveError):  # check_reader reports it
        if digest_released(root) != case.after:
            yield f"{where}: what was released is lost"
    if (
        case.name == "forgetting"
        and scan_files([root], pick_canaries([CANARY], [])).found
    ):
        yield f"{where}: what was forgotten is back"


def break_runs(
    folder: Path, names: Sequence[str], stride: int, start: int
) -> list[Outcome]:
    """Break the runs of these names, and return what came of it. This process can start no other afterwards.

    Raises:
        NoFaults: faults can't be made here.
    """
    os.environ |= {"XDG_CACHE_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    disk, outcomes = Disk(), list[Outcome]()
    for case, part in product(
        make_cases(folder, names, disk), (fail_calls, lose_power)
    ):
        for outcome in part(case, folder, disk, stride, start):
            outcomes.append(outcome)
            lines = [
                f"{outcome.fault}: {outcome.times} times, {len(outcome.broken)} broken",
                *outcome.broken[:5],
            ]
            print("\n    ".join(lines), file=sys.stderr, flush=True)
    return outcomes


def measure_apart(
    names: Sequence[str], stride: int = 1, start: int | None = None
) -> list[Outcome]:
    """Do the same in a process of its own, in memory if it has room: nothing waits for a disk.

    Raises:
        NoFaults: faults can't be made here.
    """
    first = random.randrange(stride) if start is None else start
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(
            prefix="slowwave-faults-", dir=memory if memory.is_dir() else None
        ) as folder,
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        return pool.submit(break_runs, Path(folder), names, stride, first).result()


if __name__ == "__main__":
    run(measure)
