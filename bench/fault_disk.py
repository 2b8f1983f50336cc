"""A disk that fails on order, inside this process, and what a loss of power would have left on it (`disk_faults.c`)."""

import ctypes
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("disk_faults.c")
KINDS = ("any", "write", "fsync", "rename", "unlink", "create")
"""As the library numbers them: what changes a folder's names by a rename or a link is a rename."""
ONCE, FULL, STOP = 0, 1, 2
"""One call fails; from that call on writes do, as on a full disk; nothing is changed any more, as after a kill."""


DIR = 4
"""What readdir calls a folder."""


class NoFaults(Exception):
    """Faults can't be made here: no C compiler, no Linux, or no right to filter system calls."""


class Disk:
    """Every system call of this process that changes a file below one folder, counted, and failed on order.

    It lasts as long as the process, whose children can't run.
    """

    def __init__(self) -> None:
        """Compile the library and put its filter over the process.

        Raises:
            NoFaults: it can't be.
        """
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
            raise NoFaults(
                f"system calls are filtered on Linux, x86-64 or arm64: this is {platform.platform()}"
            )
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise NoFaults("there is no C compiler: `cc`, or what CC names")
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "disk_faults.so")
            words = [
                compiler,
                "-O2",
                "-shared",
                "-fPIC",
                "-o",
                str(library),
                str(SOURCE),
            ]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoFaults(
                    f"{SOURCE.name} does not compile: {done.stderr.strip()[-300:]}"
                )
            self._library = ctypes.CDLL(str(library))
        self._library.faults_count.restype = ctypes.c_long
        if error := self._library.faults_start():
            raise NoFaults(f"system calls can't be filtered: {os.strerror(error)}")
        self.shadow = Path()

    def watch(self, folder: Path, shadow: Path | None = None) -> None:
        """Look at what lies below a folder, and at nothing else; with a shadow, keep there what is made durable."""
        self.shadow = shadow or Path()
        self._library.faults_watch(
            os.fsencode(folder), os.fsencode(shadow) if shadow else b""
        )
        self.arm(None)

    def arm(
        self, kind: str | None, nth: int = 0, error: int = 0, mode: int = ONCE
    ) -> None:
        """Count anew; fail the n-th call of a kind, or kill the process with an `error` of -1. None fails nothing."""
        number = -1 if kind is None else KINDS.index(kind)
        self._library.faults_arm(number, ctypes.c_long(nth), error, mode)

    @property
    def counts(self) -> dict[str, int]:
        """Calls of each kind since `arm`."""
        return {
            kind: int(self._library.faults_count(number))
            for number, kind in enumerate(KINDS)
        }

    def keep(self, folder: Path) -> None:
        """Take all that lies in a folder for durable."""
        for path in [folder, *folder.rglob("*")]:
            copy = self.shadow / str(path.stat().st_ino)
            if path.is_dir():
                names = "".join(
                    f"{o.stat().st_ino} {DIR if o.is_dir() else 8} {o.name}\n"
                    for o in path.iterdir()
                )
                copy.with_suffix(".names").write_text(names)
            else:
                shutil.copyfile(path, copy)

    def build_lost(
        self, folder: Path, image: Path, shadow: Path, keeps: str, chance: random.Random
    ) -> None:
        """Write the folder as a loss of power would leave it now.

        Args:
            folder: the one that is watched.
            image: where to write.
            shadow: what was synced.
            keeps: of what was not synced, `nothing`; `names`, of files that are empty (as ext4 and XFS leave them); or
                `some` of it, each file by itself.
            chance: for `some`.
        """
        self.shadow = shadow
        if keeps == "nothing":
            self._build_from_shadow(folder.stat().st_ino, image)
        else:
            self._build_from_names(folder, image, chance if keeps == "some" else None)

    def _build_from_names(
        self, folder: Path, image: Path, chance: random.Random | None
    ) -> None:
        image.mkdir()
        for path in sorted(folder.iterdir()):
            lot = chance.random() if chance else 0.5
            if path.is_dir():
                self._build_from_names(path, image / path.name, chance)
            elif lot > 0.5:
                shutil.copyfile(path, image / path.name)
            elif lot > 0.25 or (self.shadow / str(path.stat().st_ino)).exists():
                self._copy_synced(path.stat().st_ino, image / path.name)

    def _build_from_shadow(self, inode: int, image: Path) -> None:
        image.mkdir()
        names = self.shadow / f"{inode}.names"
        for line in names.read_text().splitlines() if names.exists() else ():
            number, kind, name = line.split(" ", 2)
            if name in (".", ".."):
                continue
            if int(kind) == DIR:
                self._build_from_shadow(int(number), image / name)
            else:
                self._copy_synced(int(number), image / name)

    def _copy_synced(self, inode: int, path: Path) -> None:
        if (copy := self.shadow / str(inode)).exists():
            shutil.copyfile(copy, path)
        else:
            path.touch()
