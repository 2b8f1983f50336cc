"""The forms of answers: what of them is sent to constrained decoding, and that two compilers of it admit what is right.

The compilers come with vLLM (`make test-vllm`); without them their tests are skipped.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import Field

from slowwave.engines.llm.checks import check_completion
from slowwave.engines.llm.protocol import (
    KEYWORDS,
    AnswerModel,
    Completion,
    Request,
    build_json_schema,
)
from slowwave.plugins.talk.web.search import WebVerdict
from tests.llm.test_golden_prompts import PROMPTS

FORMS: dict[str, Any] = {name: ask().answer for name, ask in PROMPTS.items()} | {
    "web": WebVerdict
}
HARD = 'KeyError: "x"\nC:\\data\\new\ttab é 記憶 😀'
"""A text that no model can copy unless strings admit escapes: 34 characters."""


def full(schema: Any) -> Any:
    """The largest answer that a schema admits, with `HARD` in every string."""
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][-1]
    if schema["type"] == "object":
        return {name: full(inner) for name, inner in schema["properties"].items()}
    if schema["type"] == "array":
        return [full(schema["items"])] * schema["maxItems"]
    return {"string": HARD, "boolean": True, "integer": schema.get("maximum")}[
        schema["type"]
    ]


def wrong(schema: Any, value: Any) -> dict[str, Any]:
    """Answers that differ from a right one in one way each: a number, a choice, an item too many, a field."""
    found = {
        "one more field": {**value, "more": 1},
        "one field less": dict(list(value.items())[1:]),
    }
    for name, inner in schema["properties"].items():
        if inner["type"] == "array":
            found[f"one item more in {name}"] = {
                **value,
                name: [*value[name], value[name][0]],
            }
            if inner["items"]["type"] == "object":
                parts = wrong(inner["items"], value[name][0]).items()
                found |= {
                    f"{name}: {what}": {**value, name: [part]} for what, part in parts
                }
        elif "enum" in inner or "const" in inner:
            found[f"another {name}"] = {**value, name: "another"}
        elif inner["type"] == "integer":
            found |= {
                f"{name} {n}": {**value, name: n} for n in (-1, inner["maximum"] + 1)
            }
    return found


def admits_guidance(schema: Any, text: str) -> bool:
    """What vLLM's guidance backend does with `disable_any_whitespace`."""
    llguidance = pytest.importorskip("llguidance")
    grammar = llguidance.LLMatcher.grammar_from_json_schema(
        json.dumps(schema), defaults={"whitespace_flexible": False}
    )
    tokenizer = llguidance.LLTokenizer("byte")
    assert llguidance.LLMatcher.validate_grammar(grammar, tokenizer) == ""
    matcher, tokens = (
        llguidance.LLMatcher(tokenizer, grammar),
        tokenizer.tokenize_str(text),
    )
    return bool(
        matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()
    )


def admits_xgrammar(schema: Any, text: str) -> bool:
    """What vLLM's xgrammar backend does with `disable_any_whitespace`: a blank after each `,` and `:` of the JSON."""
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    spaced = json.dumps(json.loads(text), ensure_ascii=False)
    return bool(
        _is_grammar_accept_string(
            xgrammar.Grammar.from_json_schema(schema, any_whitespace=False), spaced
        )
    )


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def find_keywords(schema: Any) -> set[str]:
    """The keywords of a schema and of those in it; names of properties are none."""
    inner = [
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]
    return {*schema, *(keyword for part in inner for keyword in find_keywords(part))}


@pytest.mark.parametrize("name", FORMS)
def test_a_schema_holds_only_what_every_backend_enforces(name: str) -> None:
    form = FORMS[name]
    assert find_keywords(build_json_schema(form)) <= set(KEYWORDS)
    extra = find_keywords(build_json_schema(form, lengths=True)) - set(KEYWORDS)
    assert extra <= {"minLength", "maxLength"}


@pytest.mark.parametrize(
    ("admits", "lengths"),
    [(admits_guidance, True), (admits_guidance, False), (admits_xgrammar, False)],
)
@pytest.mark.parametrize("name", FORMS)
def test_a_compiler_admits_every_right_answer_and_no_wrong_one(
    name: str, admits: Callable[[Any, str], bool], lengths: bool
) -> None:
    form = FORMS[name]
    schema = build_json_schema(form, lengths=lengths)
    value = full(schema)
    form.model_validate_json(dump(value))
    assert admits(schema, dump(value))
    for what, bad in wrong(schema, value).items():
        assert not admits(schema, dump(bad)), what


class Quoted(AnswerModel):
    title: str = Field(max_length=5, min_length=2, pattern="^[a-z]+$")
    """A property of this name is no keyword."""


def test_a_string_with_lengths_admits_escapes_and_counts_characters() -> None:
    schema = build_json_schema(Quoted, lengths=True)
    assert schema["properties"] == {
        "title": {"type": "string", "minLength": 2, "maxLength": 5}
    }
    admitted = {
        text: admits_guidance(schema, f'{{"title":"{text}"}}') for text in TEXTS
    }
    assert admitted == TEXTS


TEXTS = {
    r"a\"b\\c": True,  # 5 characters
    r"\n\n\n\n\n": True,
    r"\n\n\n\n\n\n": False,  # 6
    "記憶記憶記": True,
    "記憶記憶記憶": False,
    "a": False,  # 1
    "a\tb": False,  # a raw tab, which JSON forbids
    "a\x0bb": False,
    r"a\u000bb": True,
    r"\u00e9\u00e9": False,  # llguidance wants é itself
}


def test_blanks_between_the_parts_of_an_answer_are_refused() -> None:
    schema = build_json_schema(Quoted)
    assert not any(
        admits_guidance(schema, text)
        for text in ('{"title": "ab"}', '{"title":"ab"}\n', '{\n"title":"ab"}')
    )


class Inner(AnswerModel):
    quote: str = Field(max_length=10)
    n: int


class Outer(AnswerModel):
    parts: list[Inner]
    words: list[str]


def check(value: Any, form: type[AnswerModel] = Outer) -> Completion:
    return check_completion(Request("q", (), form), Completion("q", dump(value)))


def test_a_text_longer_than_its_field_is_cut_to_it_and_the_answer_kept() -> None:
    done = check(
        {
            "parts": [{"quote": 'say "x" twice', "n": 1}, {"quote": "short", "n": 2}],
            "words": ["a" * 99],
        }
    )
    assert (done.error, done.flags) == (None, ("shortened",))
    assert [part.quote for part in done.value.parts] == ['say "x" tw', "short"]
    assert done.value.words == ["a" * 99]  # no limit
    again = check_completion(Request("q", (), Outer), done)  # out of the cache
    assert (again.value, again.flags) == (done.value, ("shortened",))
    # Wrong in another way too.
    assert (
        check({"parts": [{"quote": "x" * 11, "n": "1"}], "words": []}).error == "schema"
    )
