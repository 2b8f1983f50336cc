"""Find the damage in a space: its files, then the chains of its messages."""

from slowwave.schemas.settings import Settings
from slowwave.store.repair import Checked, check_store
from slowwave.text.words import count_noun


def find_damage(
    settings: Settings, *, quick: bool
) -> tuple[Checked, str | None, list[str]]:
    """Check a space's files, and then the messages' chains if the files are whole and `quick` is off.

    Returns:
        What was compared; the number of messages and sessions in words, None if they were not compared; and the damage,
        a line each.

    Raises:
        StoreMissing: the store or space does not exist.
    """
    checked = check_store(settings.store / settings.space, read=not quick)
    damage = [str(problem) for problem in checked.damage]
    if quick or damage:
        return checked, None, damage
    from slowwave.store.store import Store
    from slowwave.tasks.ingest.vault import find_broken_chains

    chains, broken = find_broken_chains(Store.open(settings.store, settings.space))
    messages = f"{count_noun(chains['messages'], 'message')} in {count_noun(chains['sessions'], 'session')}"
    return checked, messages, [str(problem) for problem in broken]
