"""Nights, a reprocessing and a forgetting at once, and readers meanwhile: each waits its turn, none sees a half."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.faults import CANARY, digest_newest, make_settings, write_talk
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.memory import Memory
from slowwave.schemas.errors import StoreLocked
from slowwave.store.repair import check_store
from slowwave.tasks.forget.canaries import pick_canaries
from slowwave.tasks.forget.proof import scan_files
from slowwave.tasks.forget.select import Wanted


def test_writers_take_turns_and_readers_see_whole_releases(tmp_path: Path) -> None:
    talk, settings = (
        write_talk(tmp_path / "talk.jsonl", 4),
        make_settings(tmp_path / "store"),
    )
    run_night([talk], settings)
    done, wrong, refused = threading.Event(), list[str](), list[str]()

    def read() -> None:
        memory, last = Memory.open(settings.store, encoder=HashEncoder()), 0
        while not done.is_set():
            found = memory.recall("What does the gauge at Hoy read?")
            # A forgetting drops older releases under those who read them: that is told, and nothing is half there.
            if not (found or memory.warnings) or memory.release.number < last:
                wrong.append(
                    f"{len(found)} hits of {memory.release.name} after r{last}: {memory.warnings}"
                )
            last = memory.release.number
            time.sleep(0.2)

    def write(act: Callable[[], object]) -> None:
        while True:
            try:
                act()
                return
            except StoreLocked as locked:
                refused.append(str(locked))
                time.sleep(0.2)
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
                return

    acts: list[Callable[[], object]] = [
        lambda: run_night([write_talk(tmp_path / "more.jsonl", 6)], settings),
        lambda: run_reprocess("observe", Selection(), settings),
        lambda: run_forget(Wanted(sessions=("s0",)), settings),
        lambda: run_night([talk], settings),
    ]
    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(act,)) for act in acts]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert refused
    assert check_store(settings.store / "default").damage == []
    assert scan_files([settings.store], pick_canaries([CANARY], [])).found == {}
    after = digest_newest(settings.store)
    assert run_night([talk], settings).release is None
    assert digest_newest(settings.store) == after
