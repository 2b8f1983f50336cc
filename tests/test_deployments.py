"""What deployments/ ships for containers names only what there is, and runs with few rights."""

import re
import shutil
import subprocess
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
    (extras,) = re.findall(r"'\.\[([\w,-]+)\]'", text)
    assert set(extras.split(",")) <= set(
        re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.M)
    )
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


def test_hadolint_finds_nothing() -> None:
    if (tool := shutil.which("hadolint")) is None:
        pytest.skip("hadolint is not installed: nobody else has read the Containerfile")
    told = subprocess.run(
        [tool, CONTAINERFILE], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (0, "")
