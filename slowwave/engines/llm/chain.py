"""A fallback chain: what one engine can't answer the next one is asked. A model's failure degrades, and says so."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowwave.engines.llm.protocol import (
    LLM,
    Completion,
    EngineUnavailable,
    Request,
    Sampling,
    add_flag,
    index_by_id,
    make_failure,
)


class ChainLLM:
    """Asks `engines` in order; an answer of any but the first bears the flag `fallback` and its own model's name.

    An engine that turns out to be unavailable is not asked again by this object; `notes` says what happened, for the
    report. The chain's name, model and sampling are those of its first engine.
    """

    def __init__(self, engines: Sequence[LLM]) -> None:
        if not engines:
            raise ValueError("a chain needs at least one engine")
        self.engines = tuple(engines)
        self.down: dict[int, EngineUnavailable] = {}
        self.notes: list[str] = []

    @property
    def name(self) -> str:
        """The first engine's kind."""
        return self.engines[0].name

    @property
    def model(self) -> str:
        """The first engine's model."""
        return self.engines[0].model

    @property
    def sampling(self) -> Sampling:
        """The first engine's sampling."""
        return self.engines[0].sampling

    @property
    def context_window(self) -> int:
        """That of the first engine that is available.

        Raises:
            EngineUnavailable: none is.
        """
        for place, engine in self._list_available():
            try:
                return engine.context_window
            except EngineUnavailable as error:
                self._note_down(place, error)
        raise self._make_unavailable_error()

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request: the first good answer, or the last engine's error with what each one said.

        Raises:
            EngineUnavailable: no engine of the chain could be had.
        """
        pending = index_by_id(requests)
        errors: dict[str, list[Completion]] = {i: [] for i in pending}
        for place, engine in self._list_available():
            yield from self._ask_engine(place, engine, pending, errors)
            if not pending:
                return
        if len(self.down) == len(self.engines) and not any(errors.values()):
            raise self._make_unavailable_error()
        for request in pending.values():
            yield _merge_errors(request, errors[request.id])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count by the first engine that is available."""
        for place, engine in self._list_available():
            try:
                return engine.count_tokens(texts)
            except EngineUnavailable as error:
                self._note_down(place, error)
        raise self._make_unavailable_error()

    def free_gpu(self) -> None:
        """Have every engine give up its GPU."""
        for engine in self.engines:
            engine.free_gpu()

    def close(self) -> None:
        """Close every engine."""
        for engine in self.engines:
            engine.close()

    def _ask_engine(
        self, place: int, engine: LLM, pending: dict[str, Request], errors: dict[str, list[Completion]]
    ) -> Iterator[Completion]:
        """Yield one engine's good answers; they leave `pending`, errors are kept for the next engine or the end."""
        asked, good, unpaid = len(pending), 0, 0
        try:
            for completion in engine.complete(list(pending.values())):
                if not completion.ok:
                    errors[completion.id].append(completion)
                    unpaid += completion.error == "budget"
                    continue
                good += 1
                del pending[completion.id]
                yield add_flag(completion, "fallback") if place else completion
        except EngineUnavailable as error:
            self._note_down(place, error)
        if place > 0:
            self._note_fallback(engine, asked - unpaid, good, unpaid)

    def _list_available(self) -> list[tuple[int, LLM]]:
        """Return engines that are not known to be down, with their places."""
        return [(place, engine) for place, engine in enumerate(self.engines) if place not in self.down]

    def _note_fallback(self, engine: LLM, asked: int, good: int, unpaid: int) -> None:
        """Say what an engine but the first was asked."""
        who = f"{engine.name} ({engine.model})"
        if asked:
            self.notes.append(f"{who} was asked {asked:,} times instead and answered {good:,}")
        if unpaid:
            self.notes.append(f"{who} was not asked {unpaid:,} times instead: the night's token budget is spent")

    def _note_down(self, place: int, error: EngineUnavailable) -> None:
        self.down[place] = error
        self.notes.append(str(error))

    def _make_unavailable_error(self) -> EngineUnavailable:
        return EngineUnavailable("every engine of the chain", "; ".join(e.why for e in self.down.values()))


def _merge_errors(request: Request, errors: Sequence[Completion]) -> Completion:
    """Return the last engine's error, its reason saying what each engine made of the request."""
    if not errors:
        return make_failure(request, "unavailable", "no engine of the chain could be had")
    reasons = "; ".join(f"{e.engine or 'engine'}: {e.error}: {e.reason}" for e in errors)
    return replace(errors[-1], reason=reasons if len(errors) > 1 else errors[-1].reason)
