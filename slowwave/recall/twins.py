"""A blocking method's async twin: the same parameters and answer, on a thread of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def async_twin(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """The method as a coroutine function, for callers that must not be held up; named with an `a` before its name."""

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    name = method.__name__
    twin.__name__, twin.__qualname__ = f"a{name}", method.__qualname__.removesuffix(name) + f"a{name}"
    twin.__doc__ = f"`{name}` on a thread of its own, for callers that must not be held up.\n\n{method.__doc__ or ''}"
    return twin
