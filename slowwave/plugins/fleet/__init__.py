"""Several machines: stores in a bucket of S3, Google Cloud Storage or Azure, and nights on Ray."""

import os
import secrets
from contextlib import AbstractContextManager
from pathlib import Path

from slowwave.schemas.errors import UsageError, name_install
from slowwave.tasks.shards import Executor


def open_ray(folder: Path, address: str) -> AbstractContextManager[Executor]:
    """Return Ray's executor: at the address, else at RAY_ADDRESS, else on this machine.

    Raises:
        UsageError: Ray is not installed.
        ClusterFailed: the address has no cluster.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    # Ray reads these when it is imported; the last one makes its processes listen on loopback only.
    os.environ |= {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    if address == "local":
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        from slowwave.plugins.fleet import on_ray
    except ModuleNotFoundError as missing:
        raise UsageError(f"this needs Ray: {name_install('ray')}") from missing
    return on_ray.open_ray(folder, address)
