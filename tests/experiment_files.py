"""A small experiment: eight days' talk, a question about each."""

import json
from pathlib import Path

from slowwave.store.store import Store
from tests.talk_files import session

FACTS = ["heron", "otter", "badger", "lynx", "marten", "weasel", "beaver", "stoat"]


def write_experiment(folder: Path, space: str, search: str = "") -> Path:
    """Eight days' talk, a question about each, an experiment over them, and an empty store that keeps its trials."""
    Store.open(folder / "store", create=True)
    told, questions = folder / "told", []
    told.mkdir(exist_ok=True)
    for day, animal in enumerate(FACTS, 1):
        said = [
            ("user", f"We decided that the {animal} service stores its tickets in region number {day}."),
            ("assistant", "Noted."),
        ]
        session(told, f"s{day}", day, said)
        questions.append({"query": f"Where does the {animal} service store tickets?", "gold": [f"s{day}-0"]})
    (folder / "questions.json").write_text(json.dumps(questions))
    file = folder / "try.toml"
    file.write_text(
        f'name = "ferry"\ntarget = "context"\n[data]\nkind = "questions"\npaths = ["told"]\n'
        f'questions = "questions.json"\n[search]\n{search}\n[space]\n{space}\n'
    )
    return file
