"""Hatch's build hook: it puts the folders of the top level into the package.

In a checkout `slowwave/flows`, `schemas` and `tasks` are links to them; a built wheel holds the files in the links'
place. An editable install finds them through the links, and puts `slowwave` alone on the import path
(`dev-mode-exact`, which refuses mapped `sources`: so they are force-included here).
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("flows", "schemas", "tasks")


class IncludeFolders(BuildHookInterface):  # type: ignore[type-arg]
    """Force-include the folders in a wheel that is not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add each folder to `force_include` of the build, under `slowwave/`."""
        if version != "editable":
            build_data["force_include"] |= {
                folder: f"slowwave/{folder}" for folder in FOLDERS
            }
