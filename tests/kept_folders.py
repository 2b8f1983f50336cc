"""Folders that are made once: for a file's tests, which change them, or for all workers, which copy from them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def make_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """Return a folder that the first of pytest-xdist's workers that needs it fills. Whoever changes it copies it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    done = folder.with_name(f"{name}.done")
    with FileLock(f"{folder}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def restore(folder: Path, kept: str) -> Path:
    """Put a copy of what was kept beside the folder in its place: nights know their files by path."""
    shutil.rmtree(folder)
    return Path(shutil.copytree(folder.with_name(kept), folder))
