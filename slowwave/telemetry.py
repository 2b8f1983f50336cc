"""Spans of OpenTelemetry, for programs and servers that run its SDK; none holds what was asked, said or found.

The names are those of its conventions for memories (semantic-conventions-genai 0.1.0: `search_memory`, `create_memory`,
`delete_memory`), and `slowwave.night`, `slowwave.step` for runs. Without its SDK nothing is imported or recorded.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

Set = Callable[[str, str | int], Any]
"""Sets an attribute of a span."""


@contextmanager
def open_span(name: str, **attributes: str | int) -> Iterator[Set]:
    """Yield a function that sets an attribute of a new span.

    Only the type of an error is recorded: its words may quote.
    """
    # A program that set up a tracer has imported it.
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield lambda key, value: None
        return
    options = {
        "attributes": attributes,
        "record_exception": False,
        "set_status_on_exception": False,
    }
    with trace.get_tracer("slowwave").start_as_current_span(name, **options) as span:
        try:
            yield span.set_attribute
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR)
            raise


@contextmanager
def open_memory_span(operation: str, space_dir: Path) -> Iterator[Callable[[int], Any]]:
    """Yield a function that sets the number of records that an operation on a space returned, wrote or deleted."""
    named = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "slowwave"}
    with open_span(
        operation, **named, **{"gen_ai.memory.store.id": space_dir.name}
    ) as set_attribute:
        yield partial(set_attribute, "gen_ai.memory.record.count")
