"""Prompts and category packs: files that a person can read and edit, versioned by their hash.

A prompt is `prompts/NAME.md`: the constant part under `=== system ===`, the material under `=== user ===`, so that an
engine can cache equal beginnings. `$name` stands for a value, `$$` for a dollar sign. A pack is `packs/NAME.toml`: a
name, a sentence about the conversations, categories with their meanings, and what to leave out. A file of the same name
in the folder of `extract.prompts` replaces the one that ships, and that folder may hold additional packs.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from slowwave.engines.llm.protocol import AnswerModel, ChatMessage, Request
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.llm.chunks import Counter
from slowwave.text.fence import fence_entries

A = TypeVar("A", bound=AnswerModel)
T = TypeVar("T")
SHIPPED = Path(__file__).parent
SYSTEM = "=== system ==="
USER = "=== user ==="
TEMPLATE_TOKENS = 80
"""Tokens that the chat template and the fence add, at most."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A request and its subject."""

    request: Request
    about: T


class HasRequest(Protocol):
    """An object that has a request."""

    @property
    def request(self) -> Request:
        """The request."""


Q = TypeVar("Q", bound=HasRequest)


def index_questions(questions: Iterable[Q]) -> dict[str, Q]:
    """Return questions by the ids of their requests."""
    return {question.request.id: question for question in questions}


def list_requests(questions: Iterable[HasRequest]) -> list[Request]:
    """Return the questions' requests."""
    return [question.request for question in questions]


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """An answer that could not be used, or a claim in it."""

    row_id: str
    """The request's id, or `<request>#<claim>`."""
    reason: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's two turns, as templates."""

    name: str
    system: Template
    user: Template
    digest: str

    def render_messages(self, **values: object) -> tuple[ChatMessage, ...]:
        """Return the turns with their values. A `$` in a value is kept as it is."""
        return (
            {"role": "system", "content": self.system.substitute(values)},
            {"role": "user", "content": self.user.substitute(values)},
        )


class Example(BaseModel):
    """Example messages as a prompt shows them, and the claims made from them as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transcript: str
    answer: str


class Pack(BaseModel):
    """Categories of claims for one kind of conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    about: str
    categories: dict[str, str] = Field(min_length=1)
    ignore: tuple[str, ...] = ()
    example: Example | None = None

    @property
    def digest(self) -> str:
        """Hash of all fields."""
        return compute_content_id("pack", self.model_dump_json())


@dataclass(frozen=True, slots=True)
class Library:
    """The prompts and packs in use: files in `folder` replace those that ship."""

    folder: Path | None = None

    def load_prompt(self, name: str) -> Prompt:
        """Return a prompt by its name.

        Raises:
            UsageError: the prompt does not exist, lacks a part, or has a `$` that is none of its values.
        """
        path, text = self._read_text(f"{name}.md", f"prompts/{name}.md")
        return _parse_prompt(name, path, text)

    def build_request(
        self,
        prompt: str,
        name: str,
        entries: Sequence[str],
        answer: type[AnswerModel],
        tokens: int,
        **values: object,
    ) -> Request:
        """Return a request with the id `name`: a prompt with its values and the fenced entries.

        Raises:
            UsageError: as `load_prompt`.
        """
        messages = self.load_prompt(prompt).render_messages(
            **values, **fence_entries(entries)
        )
        return Request(name, messages, answer, max_tokens=tokens)

    def count_room(
        self, prompt: str, window: int, count: Counter, tokens: int, **values: object
    ) -> int:
        """Return the tokens that a context window leaves for entries, beside the prompt and `tokens` of answer."""
        empty = self.load_prompt(prompt).render_messages(**values, **fence_entries([]))
        return (
            window
            - sum(count([message["content"] for message in empty]))
            - tokens
            - TEMPLATE_TOKENS
        )

    def load_pack(self, name: str) -> Pack:
        """Return a pack by its name.

        Raises:
            UsageError: the pack does not exist or is invalid; the message says why.
        """
        return _parse_pack(
            name, self._read_text(f"packs/{name}.toml", f"packs/{name}.toml")[1]
        )

    def compute_digest(self, names: Iterable[str], packs: Iterable[str] = ()) -> str:
        """Return a hash of these prompts and packs. It is part of a step's key, so an edit makes the step's rows
        pending.
        """
        prompts = [self.load_prompt(name).digest for name in names]
        return compute_content_id(
            *prompts, *(self.load_pack(pack).digest for pack in packs)
        )

    def _read_text(self, own: str, shipped: str) -> tuple[Path, str]:
        """Return path and text of the first file that exists: a person's own, else the one that ships."""
        candidates = [
            *([self.folder.expanduser() / own] if self.folder else []),
            SHIPPED / shipped,
        ]
        for path in candidates:
            if path.is_file():
                return path, path.read_text(encoding="utf-8")
        raise UsageError(
            f"no {shipped.split('/')[0][:-1]} at {' or '.join(map(str, candidates))}"
        )


@lru_cache(maxsize=64)
def _parse_prompt(name: str, path: Path, text: str) -> Prompt:
    """Return the prompt in a file's text."""
    where = f"prompt {name!r} at {path}"
    head, separator, user = text.partition(USER)
    _, opened, system = head.partition(SYSTEM)
    if not separator or not opened:
        raise UsageError(
            f"{where} needs the lines {SYSTEM!r} and {USER!r}, in this order"
        )
    # A `$` must name a value that the shipped prompt uses too, or be doubled.
    shipped = SHIPPED / "prompts" / f"{name}.md"
    turns = (Template(system.strip()), Template(user.strip()))
    values = set(
        Template(shipped.read_text(encoding="utf-8")).get_identifiers()
        if shipped.is_file()
        else ()
    )
    used = {value for turn in turns for value in turn.get_identifiers()}
    if not all(turn.is_valid() for turn in turns) or (values and used - values):
        allowed = ", ".join(f"${value}" for value in sorted(values))
        raise UsageError(
            f"{where} has a $ that is none of its values ({allowed}): write $$ for a dollar sign"
        )
    if "fenced" in values - used:
        raise UsageError(
            f"{where} shows no transcript: put $fenced where it is to stand"
        )
    return Prompt(
        name, system=turns[0], user=turns[1], digest=compute_content_id("prompt", text)
    )


@lru_cache(maxsize=64)
def _parse_pack(name: str, text: str) -> Pack:
    """Return the pack in a file's text."""
    try:
        return Pack(**tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError, TypeError) as error:
        raise UsageError(f"pack {name!r} is not a pack: {error}") from error


@lru_cache(maxsize=256)
def limit_answer(answer: type[A], /, **most: int) -> type[A]:
    """Return the answer's form with a maximum length for the fields in `most`: items of a list, or characters."""
    fields: dict[str, Any] = {}
    for name, limit in most.items():
        field = answer.model_fields[name]
        fields[name] = (
            Annotated[field.annotation, *field.metadata, Field(max_length=limit)],
            ...,
        )
    return create_model(answer.__name__, __base__=answer, **fields)


def format_bullets(items: Iterable[str]) -> str:
    """Return a list with a line for each item."""
    return "\n".join(f"- {' '.join(item.split())}" for item in items)
