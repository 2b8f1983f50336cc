"""What deployments/ ships for containers names only what there is, and runs with few rights."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prefect import settings as prefect

from slowwave.schemas.settings import Settings

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "deployments" / "Containerfile"


def test_image_and_services_name_only_what_there_is_and_have_few_rights() -> None:
    text = CONTAINERFILE.read_text()
    copied = [
        name
        for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
        for name in line.split()
    ]
    assert {"pyproject.toml", "slowwave", "deployments/automations.yaml"} <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    assert {f"!{name}" for name in copied} <= set(
        (ROOT / ".dockerignore").read_text().splitlines()
    )
    assert "--no-deps -r requirements.txt\n" in text  # complete, and without torch
    assert "\nUSER $UID\n" in text

    compose = yaml.safe_load((ROOT / "deployments" / "compose.yaml").read_text())
    given = {
        name
        for service in compose["services"].values()
        for name in service["environment"]
    }
    given |= set(re.findall(r"\b([A-Z_]+)=", text))
    assert all(hasattr(prefect, name) for name in given if name.startswith("PREFECT_"))
    assert {name[9:].lower() for name in given if name.startswith("SLOWWAVE_")} <= set(
        Settings.model_fields
    )
    for service in compose["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["healthcheck"]["test"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_what_the_image_copies_is_enough_to_build_slowwave(tmp_path: Path) -> None:
    text = CONTAINERFILE.read_text().rpartition("\nFROM ")[0]
    for names, target in re.findall(r"^COPY (?!--)(.+) (\S+)$", text, re.MULTILINE):
        for name in names.split():
            place = tmp_path / (name if target == "./" else target)
            place.parent.mkdir(exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, place)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "built"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    assert [*(tmp_path / "built").glob("slowwave-*.whl")]


def test_hadolint_finds_nothing() -> None:
    if (tool := shutil.which("hadolint")) is None:
        pytest.skip("hadolint is not installed: nobody else has read the Containerfile")
    told = subprocess.run(
        [tool, CONTAINERFILE], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (0, "")
