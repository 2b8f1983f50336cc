"""What the scripted engine answers in the tests: `SLOWWAVE_LLM=scripted:tests.llm_scripts:faithful` and others.

`faithful` makes of every message of some length one claim whose quote stands in it; the others do one thing wrong.
"""

import re
from collections.abc import Sequence
from typing import Any

from slowwave.engines.llm.protocol import ChatMessage, Completion, Request, make_failure

TURN = re.compile(
    r"^\[(\d+)\] [^\n]*?(?:\d\d:\d\d|user|assistant|Ada|Ben): ([^\n]+)", re.MULTILINE
)
ENTRY = re.compile(r"^entry (\d+)(?: \([^\n)]*\))?: ", re.MULTILINE)
LATER = re.compile(r"^pair (\d+), later[^\n]*?\d\d:\d\d: ([^\n]+)", re.MULTILINE)
EARLIER_CLAIM = re.compile(
    r"^pair (\d+), earlier[^\n]*?\d\d:\d\d: ([^\n]+)", re.MULTILINE
)
FIRST_NEW = re.compile(r"first new topic has the\s+number (\d+)")


class DictCache(dict[str, Completion]):
    """Answers kept in memory."""

    def known(self, ids: Sequence[str]) -> dict[str, Completion]:
        return {i: self[i] for i in ids if i in self}

    keep = dict.update


def make_user_prompt(text: str, system: str = "") -> tuple[ChatMessage, ...]:
    opening: tuple[ChatMessage, ...] = (
        ({"role": "system", "content": system},) if system else ()
    )
    return (*opening, {"role": "user", "content": text})


def kind(request: Request) -> str:
    """What is asked, by the answer's fields."""
    names = frozenset(request.schema["properties"]) if request.schema else frozenset()
    known = {
        frozenset({"claims"}): "claims",
        frozenset({"drops"}): "drops",
        frozenset({"summary", "keywords"}): "gist",
        frozenset({"text"}): "account",
        frozenset({"title", "text"}): "master",
        frozenset({"merges"}): "merges",
        frozenset({"pairs"}): "changes",
        frozenset({"new_topics", "placements"}): "topics",
    }
    return known[names]


def material(request: Request) -> str:
    """The turn with the transcript."""
    return request.messages[-1]["content"]


def verdict(number: int | str, new: str, answer: str, old: str = "") -> dict[str, Any]:
    """What a model says of one pair of claims."""
    return {"pair": int(number), "new": new[:120], "old": old[:120], "answer": answer}


def claim(number: int, quote: str, **more: Any) -> dict[str, Any]:
    """One claim as a model answers it."""
    return {
        "messages": [number],
        "quote": quote,
        "category": "fact",
        "summary": f"It was said that {quote}",
        "detail": "",
        "files": [],
        "confidence": "high",
        "lasts": True,
        **more,
    }


def claims(request: Request) -> list[dict[str, Any]]:
    """A claim for every message of more than five words, in a category of its pack."""
    assert request.schema
    category = request.schema["properties"]["claims"]["items"]["properties"][
        "category"
    ]["enum"][0]
    most = request.schema["properties"]["claims"]["maxItems"]
    found = [
        (int(n), text[:160])
        for n, text in TURN.findall(material(request))
        if len(text.split()) > 5
    ]
    return [claim(n, text, category=category) for n, text in found][:most]


def faithful(request: Request) -> Any:
    """A model that does what it is asked."""
    match kind(request):
        case "claims":
            return {"claims": claims(request)}
        case "drops":
            return {"drops": []}
        case "changes":
            return {
                "pairs": [
                    verdict(n, "", "unrelated")
                    for n, _ in LATER.findall(material(request))
                ]
            }
        case "gist":
            return {"summary": "A message in few words.", "keywords": ["message"]}
        case "account":
            return {"text": "An account of what was said, in plain prose."}
        case "master":
            return {
                "title": "What it is about",
                "text": "An account of the whole conversation.",
            }
        case "merges":
            return {"merges": []}
    first = int(FIRST_NEW.findall(request.messages[0]["content"])[0])
    entries = [int(n) for n in ENTRY.findall(material(request))]
    topic = {"name": "daily life", "purpose": "What people do day by day."}
    return {
        "new_topics": [topic],
        "placements": [{"entry": n, "topic": first} for n in entries],
    }


def another(request: Request) -> Any:
    """Another model, which words its claims otherwise."""
    answer = faithful(request)
    if kind(request) == "claims":
        return {
            "claims": [
                {**one, "summary": f"It was told that {one['quote']}"}
                for one in answer["claims"]
            ]
        }
    return answer


another.model = "another"  # type: ignore[attr-defined]


def refusing(request: Request) -> Any:
    """A model that declines everything."""
    return "I'm sorry, but I can't help with that."


def lying(request: Request) -> Any:
    """A model that makes quotes up, and cites messages that are not there."""
    if kind(request) != "claims":
        return faithful(request)
    return {
        "claims": [
            claim(1, "the moon is made of green cheese"),
            claim(97, "I never said anything of the kind"),
        ]
    }


def absent(request: Request) -> Any:
    """A server that went away."""
    return make_failure(request, "unavailable", "no server answered")


def troubled(request: Request) -> Any:
    """A model that does another thing wrong each time, by what it is asked; every third answer is good."""
    troubles: list[Any] = [
        "",
        "[]",
        '{"cla',
        "no JSON at all",
        '{"claims": ' + " " * 500,
        (),
        Completion(request.id, "{", finish_reason="length"),
        {"claims": [{"summary": "no quote"}]},
        make_failure(request, "poison", "the engine died of it"),
    ]
    number = int.from_bytes(
        request.messages[-1]["content"].encode()[-40:], "big"
    ) + len(material(request))
    return faithful(request) if number % 3 == 0 else troubles[number % len(troubles)]


def changing(request: Request) -> Any:
    """A model to which everything later changes everything earlier, in the later one's own words."""
    if kind(request) != "changes":
        return faithful(request)
    return {
        "pairs": [
            verdict(n, text, "changes") for n, text in LATER.findall(material(request))
        ]
    }


def elaborating(request: Request) -> Any:
    """A model that says more of a visit than was said."""
    if kind(request) != "claims":
        return faithful(request)
    return {
        "claims": [
            {
                **one,
                "detail": f"{one['quote']} So ornithology it is."
                * ("visit" in one["quote"]),
            }
            for one in claims(request)
        ]
    }


def mumbling(request: Request) -> Any:
    """One that says so too, in words that nobody said."""
    if kind(request) != "changes":
        return faithful(request)
    words = "as everybody knows it is different by now"
    return {
        "pairs": [
            verdict(n, words, "changes") for n, _ in LATER.findall(material(request))
        ]
    }


def replacing(request: Request) -> Any:
    """One that shows what of the earlier claim is over, too."""
    if kind(request) != "changes":
        return faithful(request)
    earlier = dict(EARLIER_CLAIM.findall(material(request)))
    return {
        "pairs": [
            verdict(n, text, "changes", old=earlier[n])
            for n, text in LATER.findall(material(request))
        ]
    }
