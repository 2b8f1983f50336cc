"""The smallest inputs of each measurement in `bench/`, written into a folder."""

import json
import shutil
import tarfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LABELLED = ROOT / "data" / "labelled"
PLAIN = ("--encoder", "hash-384")

Words = list[object]
"""Of a command line."""


def runs(folder: Path) -> dict[str, list[tuple[Words, *tuple[str, ...]]]]:
    """What each measurement is called with, and what its answer then holds."""
    talk = decided(folder, 13)
    ferry = some(folder, "amendments_fresh.jsonl", slice(22))
    pay = some(folder, "amendments_fresh4.jsonl", slice(24))
    told, pairs, boat = (
        locomo(folder),
        some(folder, "pairs.tsv", slice(4, 12)),
        asked_by_id(folder),
    )
    # Without a model: 2.
    return {
        "recall.abstention": [([told, "--stride", 1, *PLAIN], "have an answer")],
        "all": [([], "recall.locomo no")],
        "cost": [(["--messages", 20, *PLAIN], "1% news, % of the first night")],
        "startup": [(["--times", 1, *PLAIN], "recall by the reader")],
        "recall.changes": [
            (
                [pay, some(folder, "newer_first.jsonl", slice(2)), "--misses"],
                "what changed",
            ),
            ([boat, *PLAIN], "1.000"),
            (
                [pay, "--llm", "scripted:tests.llm_scripts:mumbling", "--json"],
                '"retired": 0,',
            ),
        ],
        "recall.blocks": [
            ([told, "--sample", 2, *PLAIN], "stale first"),
            ([talk, "--store", folder / "blocks", *PLAIN], "session known"),
            ([boat, "--json", *PLAIN], "noise"),
            (
                [boat.with_suffix(".queries.json"), "--talks", boat, "--json", *PLAIN],
                '"block": 1.0',
            ),
        ],
        # Two refused proposals, asked for in their own words and by a question: never without the refusal.
        "recall.objections": [
            (
                [some(folder, "objections.jsonl", slice(2)), "--json", *PLAIN],
                '"a block of 250 tokens",\n    "asked": 4,\n    "shown": 4,\n    "alone": 0',
            )
        ],
        "recall.evidence": [
            ([boat, "--json", *PLAIN], '"ranking": "all kinds"'),
            (
                [
                    boat,
                    "--together",
                    "--run-on",
                    "--store",
                    folder / "evidence",
                    *PLAIN,
                ],
                "evidence among",
            ),
        ],
        "branches": [([], "unseen")],
        "recall.weeks": [([weeks(folder), *PLAIN, "--json"], '"later first": 1')],
        "recall.languages": [([LABELLED / "languages_zh.jsonl", *PLAIN], "in English")],
        "nights.both_kinds": [
            (
                [talk, "--llm", "scripted:tests.llm_scripts:faithful", "--json"],
                '"night": "with"',
            ),
            (
                [
                    ROOT / "data" / "samples" / "codex",
                    "--llm",
                    "off",
                    "--draw",
                    20,  # of 20 some are told in the words that were rated
                    "--json",
                ],
                '"rating": "useful"',
            ),
        ],
        "nights.checks": [([archives(folder)], "skipped: @trpc/server")],
        "nights.large_checkout": [
            (["--files", 40, "--commits", 3, "--statements", 5], "CPU s")
        ],
        "nights.dead_ends": [([LABELLED / "ends"], "told before")],
        "nights.newcomer": [
            ([LABELLED / "newcomers" / "vesna", *PLAIN], "in three"),
            (
                [
                    LABELLED / "newcomers" / "quill",
                    "--answers",
                    LABELLED / "newcomers" / "answers.json",
                    *PLAIN,
                ],
                "in three",
            ),
        ],
        "nights.intentions": [([LABELLED / "ends", *PLAIN], "tellings")],
        "nights.dedupe": [
            ([pairs, *PLAIN], "rules and vectors"),
            ([pairs, "--no-encoder", "--json"], "rules alone"),
        ],
        "experiment": [([experiment(folder, told), *PLAIN], "training")],
        "faults": [(["--stride", 5_000, "--start", 0, "--case", "night"], "fault")],
        "fit.changes": [
            ([ferry, pay, "--none", told, "--authors", "--json"], "amendments_fresh4")
        ],
        "fit.common": [([], "conversations")],
        "fit.reader": [
            (
                [
                    some(folder, "statements_wren.jsonl", slice(8)),
                    some(folder, "statements_koi.jsonl", slice(8)),
                ],
                "told",
            )
        ],
        "fit.layers": [
            (
                [
                    some(folder, "statements_wren.jsonl", slice(8)),
                    some(folder, "statements_koi.jsonl", slice(8)),
                    "--without",
                    "wren",
                ],
                "told",
            )
        ],
        "fit.kappa": [([], "all kinds")],
        "fit.sealed": [([some(folder, "statements_koi.jsonl", slice(8))], "settled")],
        "nights.scanners": [([rules(folder), "--lines", 20], "kinds")],
        "nights.trust": [(["--each", 1, *PLAIN], "unmarked")],
        "fit.prompts": [([], "writer c")],
        "fit.secrets": [
            ([], "without a secret, masked", "webhook"),
        ],
        "gpu": [(["--messages", 4, "--json"], '"part": "keywords"')],
        "golden": [([talk, "--write", folder / "golden.json"], "none differs")],
        "house": [([modules(folder)], "longest chain")],
        "recall.outline": [([told, "--budgets", 300, *PLAIN], "in order")],
        "recall.locomo": [([told, *PLAIN], "plain RRF")],
        "nights.night": [([talk, *PLAIN], "nothing changed")],
        "nights.observe": [([told], "random")],
        "packages": [([], "slowwave[night]")],
        "recall.precision": [([LABELLED / "precision.jsonl", *PLAIN], "must not be")],
        "recall.scale": [
            (
                [folder / "scale", "--rows", 300, "--queries", 2, "--swaps", 1, *PLAIN],
                "0 errors",
            )
        ],
        "nights.redaction": [([rules(folder), "--json"], '"redacted": 1.0')],
        "recall.sessions": [
            ([talk, told, "--store", folder / "sessions", *PLAIN], "Memory.sessions")
        ],
        "year": [
            (
                ["--nights", 3, "--each", "--svg", folder / "year.svg"],
                "times as much CPU",
            )
        ],
        "nights.topics": [
            ([some(folder, "topics.tsv", slice(12)), "--orders", 1, *PLAIN], "purity")
        ],
        "fit.worth": [
            ([ROOT / "data" / "samples", *flag], "tidepool")
            for flag in ([], ["--standing"])
        ],
        "nights.worth": [
            ([ROOT / "data" / "samples" / "generic"], "friends"),
            ([talk, "--json"], '"claims": 0'),
        ],
    }


def archives(folder: Path) -> Path:
    """Two versions of one package, of which the second lost a file."""
    for version, name in (("0.23.0", "_compat.py"), ("0.28.1", "_main.py")):
        path = folder / "httpx" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n", encoding="utf-8")
        with tarfile.open(folder / f"httpx-{version}.tar.gz", "w:gz") as packed:
            packed.add(path, f"httpx-{version}/httpx/{name}")
    return folder


def experiment(folder: Path, told: Path) -> Path:
    """Two values of a setting, tried on the questions of two conversations."""
    file = folder / "experiment.toml"
    file.write_text(
        f'files = ["{told.name}"]\n[space]\n"context.hits" = [1, 50]\n',
        encoding="utf-8",
    )
    return file


def rules(folder: Path) -> Path:
    """Rules for secrets as gitleaks writes them: an issuer's name before a secret, a stop word."""
    named = r"(?i)[\w.-]{0,50}?(?:adobe)(?:[ \t\w.-]{0,20})=['\"]{0,5}([a-f0-9]{31}1)(?:[;]|$)"
    (folder / "rules.toml").write_text(
        f"[[rules]]\nid = 'n'\nregex = '''{named}'''\nentropy = 2\n[[rules.allowlists]]\nstopwords = ['docs']\n"
    )
    return folder / "rules.toml"


def modules(folder: Path) -> Path:
    """A checkout of three modules, of which one imports another."""
    for name, text in (
        ("one", "LEAST = 1\n"),
        ("two", "from slowwave.one import LEAST\n"),
        ("three", ""),
    ):
        (folder / "checkout" / "slowwave").mkdir(parents=True, exist_ok=True)
        (folder / "checkout" / "slowwave" / f"{name}.py").write_text(text)
    return folder / "checkout"


def some(folder: Path, name: str, lines: slice) -> Path:
    """Some lines of a labelled file, in a file of their own."""
    held = (LABELLED / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / name).write_text("".join(held[lines]), encoding="utf-8")
    return folder / name


def weeks(folder: Path) -> Path:
    """A sentence told twice with another value, as a marked pair."""
    talk = asked_by_id(folder)
    home = folder / "boat"
    home.mkdir(exist_ok=True)
    shutil.copy2(talk, home / "boat.jsonl")
    pair = {
        "kind": "changed",
        "earlier": "m1",
        "later": "m2",
        "old": "pier 4",
        "new": "pier 9",
        "query": "Where is the boat moored?",
    }
    (home / "boat.pairs.json").write_text(json.dumps([pair]), encoding="utf-8")
    return home


def asked_by_id(folder: Path) -> Path:
    """One sentence told twice with another value, and a question of which the second telling holds."""
    told = [
        ("m1", "The boat is moored at pier 4.", "2026-03-01"),
        ("m2", "The boat is moored at pier 9.", "2026-04-01"),
    ]
    lines = [
        {
            "session_id": f"s-{key}",
            "message_id": key,
            "role": "user",
            "content": text,
            "ts": f"{day}T09:00:00Z",
        }
        for key, text, day in told
    ]
    talk = folder / "boat.jsonl"
    talk.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    query = {
        "workspace": None,
        "query": "At which pier is the boat moored?",
        "current": ["m2"],
        "stale": ["m1"],
    }
    query["gold"] = query["current"]
    talk.with_suffix(".queries.json").write_text(json.dumps([query]), encoding="utf-8")
    return talk


def decided(folder: Path, case: int) -> Path:
    """A session with a decision and one without, beside a report on the first."""
    report = (
        (LABELLED / "bug_reports.jsonl").read_text(encoding="utf-8").splitlines()[case]
    )
    sessions = json.loads(report)["session_id"], "i18n-1034"
    lines = (LABELLED / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if json.loads(line)["session_id"] in sessions]
    talk, asks = (
        folder / f"decisions-{case}.jsonl",
        folder / f"bug_reports-{case}.jsonl",
    )
    talk.write_text("\n".join(rows) + "\n", encoding="utf-8")
    asks.write_text(report + "\n", encoding="utf-8")
    return talk


def locomo(folder: Path) -> Path:
    """Two conversations of two sessions, as LoCoMo has them."""
    path = folder / "locomo.json"
    path.write_text(
        json.dumps(
            [
                _conversation(
                    "Ana",
                    "I moved to Porto in March with my dog Biscuit.",
                    "Rita bakes bread on Sundays.",
                ),
                _conversation(
                    "Ben",
                    "I broke my ankle while skiing in Andorra.",
                    "Carlos bought our red van in May.",
                ),
            ]
        )
    )
    return path


def _conversation(name: str, *said: str) -> dict[str, object]:
    sessions: dict[str, object] = {}
    questions, facts, events = [], {}, {}
    for n, text in enumerate(said, 1):
        turns = [
            (name, text),
            ("Cleo", "That is good to know, tell me more."),
            (name, f"It was {n} years ago, I think."),
        ]
        sessions[f"session_{n}_date_time"] = f"1:0{n} pm on {n} May, 2023"
        sessions[f"session_{n}"] = [
            {"speaker": who, "dia_id": f"D{n}:{at}", "text": words}
            for at, (who, words) in enumerate(turns, 1)
        ]
        asks = f"What do we know of {text.split()[-2]}?"
        questions.append(
            {
                "question": asks,
                "answer": text.split()[0],
                "category": n,
                "evidence": [f"D{n}:1"],
            }
        )
        facts[f"session_{n}_claim"] = {name: [[text, f"D{n}:1"]]}
        events[f"events_session_{n}"] = {name: [text], "date": f"{n} May, 2023"}
    told = {"qa": questions, "observation": facts, "event_summary": events}
    return {"sample_id": name, "conversation": sessions, **told}
