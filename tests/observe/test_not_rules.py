"""What sounds like a rule and is none, through a night: each kind in a project of its own."""

import re
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from tests.command_line import typed
from tests.talk_files import session

USER, AGENT = "user", "assistant"
MAIL = (
    "Write back to her, please:\n\n> Hello Jo,\n> I only ever use Emacs and want three"
    " spaces everywhere.\n> Ring me before nine, on 4 June I move.\n> Edda"
)
LOG = (
    "[2026-03-07 11:20:01] INFO: We always use the blue pool because the green one is full\n"
    "[2026-03-07 11:20:02] WARN: Policy decided: workers=9\nthat's from the pool's log"
)
FENCE = (
    "the mixer prints this:\n```\nWARN never run without --dry\n"
    "ERROR we agreed to close after 12 s\n```\nwhat does it want?"
)
TALKS = {
    "question": (
        (USER, "Should kelp be moved to Nomad. I ask myself if that pays."),
        (AGENT, "That depends on the traffic."),
        (USER, "Could we use Valkey for the carts of kelp?"),
        (AGENT, "One could."),
        (USER, "I ask since Ines wanted to know whether kelp should use Pulsar."),
    ),
    "hypothetical": (
        (USER, "Larch keeps its orders in MariaDB."),
        (AGENT, "Yes, schema shop."),
        (USER, "Suppose larch kept its orders in Cassandra. What would that cost?"),
        (AGENT, "More nodes, at least three."),
        (USER, "And if it ran in Zurich we would pay more, but nobody wants that."),
    ),
    "sarcasm": (
        (USER, "The plum export is broken again."),
        (AGENT, "It ran into the limit."),
        (USER, "Great, let's port plum to Fortran, what can go wrong. /s"),
        (AGENT, "I will raise the limit instead."),
        (USER, "haha sure, always release at midnight on Sundays, our new policy, lol"),
    ),
    "momentary": (
        (USER, "The print server of quay is down right now."),
        (AGENT, "I am looking."),
        (USER, "The scanner of quay is stuck at the moment, use the old one."),
        (AGENT, "OK."),
    ),
    "one-off": (
        (USER, "For this upload only, leave out the checksums and push to the mirror."),
        (AGENT, "Pushed."),
        (USER, "Just this once, build it with Ruby 2.7."),
        (AGENT, "Done."),
    ),
    "quoted-mail": (
        (USER, MAIL),
        (AGENT, "Dear Edda, thank you, I will ring before nine."),
        (USER, "Good. In sedge we use tabs, tell her that."),
    ),
    "pasted-log": ((USER, FENCE), (AGENT, "It wants a flag."), (USER, LOG)),
    "units": (
        (USER, "The download limit of tansy is 300 MB."),
        (AGENT, "OK, 300 MB."),
        (USER, "The archive of tansy may take 300 GB."),
        (AGENT, "OK, 300 GB for the archive."),
        (USER, "tansy listens on port 7070 and its health check on port 7071."),
        (AGENT, "OK."),
    ),
    "conditional": (
        (USER, "If the checks of umber are yellow, don't tag. Else tag right away."),
        (AGENT, "OK."),
        (USER, "Only if the guest is Orsted, bills of umber go out in Danish."),
        (AGENT, "OK."),
    ),
    "self-correction": (
        (USER, "The vetch API listens on port 6000, sorry, I mean 6100."),
        (AGENT, "6100, noted."),
        (USER, "And its first account is called boss. Wait, no: it is called warden."),
        (AGENT, "warden, noted."),
    ),
}
MAY_NOT_TELL = {
    "question": "Nomad|Valkey|Pulsar",
    "hypothetical": "Cassandra|Zurich",
    "sarcasm": "Fortran|midnight",
    "momentary": "right now|at the moment",
    "one-off": r"checksums|2\.7",
    "quoted-mail": "three spaces|Emacs|before nine|4 June",
    "pasted-log": "--dry|blue pool|workers=9|12 s",
}
BRIEFED = ("hypothetical", "sarcasm", "quoted-mail")
"""Kinds of which a briefing may not even say that they were asked for."""
TOLD = {
    "hypothetical": "MariaDB",
    "units": "750 MB",
    "conditional": "If the checks of umber are yellow, don't tag",
    "self-correction": "sorry, I mean 6100",
}
CLAIMS = {
    "question": (None, "use Valkey|kelp uses? Pulsar"),
    "hypothetical": ("MariaDB", "Cassandra"),
    "pasted-log": (None, "--dry|blue pool|workers=9|12 s"),
    "units": (r"300 MB[\s\S]*300 GB|300 GB[\s\S]*300 MB", None),
    "conditional": ("Orsted", r"  don't tag|  bills of umber go out"),
}
ASKED = {
    "hypothetical": ("where does larch keep its orders?", "MariaDB"),
    "conditional": ("may I tag in umber?", "yellow"),
    "units": ("what is the download limit of tansy?", "750 MB"),
    "momentary": ("is the print server of quay up?", "up again"),
    "self-correction": ("which port does the vetch API listen on?", "6100"),
    "third-person": ("who is allergic to nuts?", "Omid"),
}
LATER = {
    "momentary": ((USER, "The print server of quay is up again."), (AGENT, "Good.")),
    "units": ((USER, "Make the download limit of tansy 750 MB."), (AGENT, "Done.")),
}
FRIENDS = (
    (USER, "Hello you two! I don't drink coffee."),
    (USER, "And I'm allergic to nuts."),
    (USER, "My aunt hates ferries, she takes the train."),
    (USER, "I like ferries, by the way."),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    files = [
        session(folder, name, 2, talk, f"/home/jo/{name}")
        for name, talk in TALKS.items()
    ]
    files += [
        session(folder, f"{name}-later", 9, talk, f"/home/jo/{name}")
        for name, talk in LATER.items()
    ]
    friends = "/home/jo/third-person"
    files.append(session(folder, "friends", 3, FRIENDS, friends, ("Tove", "Omid")))
    run_night(files, Settings(store=folder / "store"))
    return folder / "store"


def run(store: Path, *words: str, kind: str) -> str:
    result = typed(*words, "--project", f"/home/jo/{kind}", "--store", store)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("kind", MAY_NOT_TELL)
def test_no_hand_out_tells_what_is_no_rule(store: Path, kind: str) -> None:
    shown = run(store, "skill", kind=kind) + run(
        store, "project", "--out", "-", kind=kind
    )
    shown += run(store, "briefing", kind=kind) if kind in BRIEFED else ""
    assert not re.search(MAY_NOT_TELL[kind], shown)


@pytest.mark.parametrize("kind", TOLD)
def test_the_rule_beside_it_is_told(store: Path, kind: str) -> None:
    assert TOLD[kind] in run(store, "skill", kind=kind)


@pytest.mark.parametrize("kind", CLAIMS)
def test_claims_have_what_was_meant(store: Path, kind: str) -> None:
    shown = run(store, "show", "claims", "--superseded", "--limit", "100", kind=kind)
    has, lacks = CLAIMS[kind]
    assert has is None or re.search(has, shown)
    assert lacks is None or not re.search(lacks, shown)


@pytest.mark.parametrize("kind", ASKED)
def test_the_first_answer_is_what_holds(store: Path, kind: str) -> None:
    question, answer = ASKED[kind]
    found = run(store, "recall", question, kind=kind)
    assert answer in re.split(r"(?m)^2\. ", found)[0]
