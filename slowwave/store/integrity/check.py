"""A whole space compared with the seals of its releases, and a lost row of the ledger put back."""

from pathlib import Path
from typing import NamedTuple

import lance

from slowwave.schemas.tables import MESSAGES, RELEASES
from slowwave.store.integrity.seals import Damage, find_damage, list_sealed, read_lost_rows
from slowwave.store.integrity.whole import restore_last_whole
from slowwave.store.lock import writer_lock
from slowwave.store.other_versions import read_ledger
from slowwave.store.releases import make_ledger_rows
from slowwave.store.trouble import translate_write_errors


class Checked(NamedTuple):
    """What `check_store` found."""

    damage: list[Damage]
    sealed: int
    """Releases with a seal."""
    unsealed: int
    """Kept releases without one: made before there were seals, and not checked."""


def check_store(folder: Path, *, read: bool = True) -> Checked:
    """Compare a space with the seals of its releases; without `read` sizes alone.

    Raises:
        StoreMissing: there is no such store or space.
        StoreUnreadable: its ledger can't be read at all.
    """
    releases = {release.number: release for release in read_ledger(folder)}
    sealed = list_sealed(folder)
    tags = folder / f"{MESSAGES.name}.lance" / "_refs" / "tags"
    unsealed = [
        one for number, one in releases.items() if number not in sealed and (tags / f"{one.name}.json").exists()
    ]
    damage = find_damage(folder, {number: vars(one) for number, one in releases.items()}, read=read)
    return Checked(list(damage), len(sealed), len(unsealed))


def repair_ledger(root: Path, space: str) -> list[str]:
    """Put the rows that the ledger of releases has lost back from their seals; returns their names.

    Raises:
        StoreMissing, StoreUnreadable, StoreLocked, StoreUnwritable: as every writer.
    """
    folder = root / space
    with writer_lock(folder, "check", "check"), translate_write_errors(folder):
        lost = read_lost_rows(folder, {release.number for release in read_ledger(folder)})
        if lost:
            restore_last_whole(folder, RELEASES, 1)
            lance.write_dataset(make_ledger_rows(lost), str(folder / f"{RELEASES.name}.lance"), mode="append")
    return [f"r{row['number']}" for row in lost]
