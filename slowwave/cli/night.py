"""Commands that do a night or a part of one: run, plan, reprocess."""

import logging
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import (
    HELD,
    INCOMPLETE,
    OUT,
    PROJECT,
    SpacesOption,
    command,
    end_run,
    name_program,
    print_report,
    print_table,
    print_warnings,
    report_errors,
    show_loading,
)
from slowwave.cli.opening import load_settings, prepare_encoder
from slowwave.cli.under_prefect import find_server, import_prefect_quietly
from slowwave.schemas.errors import UsageError
from slowwave.schemas.plugins import find_plugins
from slowwave.text.fence import escape_line, escape_text
from slowwave.text.times.days import format_day
from slowwave.text.words import count_noun

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.flows.plan import Estimate
    from slowwave.flows.reprocess import Selection
    from slowwave.schemas.settings import Settings

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files, folders or s3:// prefixes; default: installed tools' transcripts."
    ),
]
PrefectOption = Annotated[
    bool | None,
    typer.Option(
        "--prefect/--plain",
        help="Run under the Prefect server at PREFECT_API_URL, or without one. Default: --prefect if "
        "PREFECT_API_URL is set, else --plain.",
        show_default=False,
    ),
]
RewriteOption = Annotated[
    bool,
    typer.Option(
        "--rewrite",
        help="Have another writer (--llm) rewrite claims, topics and summaries.",
    ),
]
LlmOption = Annotated[
    str | None,
    typer.Option(
        "--llm",
        help="Language model: off, vllm:MODEL, openai:MODEL@URL, or several with >.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", help="Most tokens that this run may use; it then stops cleanly."
    ),
]
GistsOption = Annotated[
    str | None, typer.Option("--gists", help="off, extractive, llm or truncated.")
]
LOG = logging.getLogger(__name__)
SPACE = "{space}"
"""Placeholder in a path for the name of the space."""
STEPS = (
    "read, passages, gists, boilerplate, habits, attempts, observe, dedupe, supersede, "
    "relate, checks, assign, topics or summaries."
)


def _add_model_options(
    given: dict[str, Any], llm: str | None, max_tokens: int | None, **more: Any
) -> dict[str, Any]:
    """Return the given settings with those of these options. `--llm` sets the model of every task."""
    from slowwave.schemas.settings import name_model

    named = {
        **({} if llm is None else name_model(llm)),
        "model": None if max_tokens is None else {"max_tokens": max_tokens},
        **more,
    }
    return given | {name: value for name, value in named.items() if value is not None}


@command(progress=True)
def run(
    given: dict[str, Any],
    paths: Paths = None,
    prefect: PrefectOption = None,
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Plain, at low priority, after any running night; needs same_day.",
        ),
    ] = False,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    rewrite: RewriteOption = False,
    engine: Annotated[
        str | None, typer.Option(help="ray, or another plugin: compute there.")
    ] = None,
    gists: GistsOption = None,
    embeddings: Annotated[
        bool | None,
        typer.Option(
            "--embeddings/--no-embeddings",
            help="Make vectors; without, recall is full text.",
        ),
    ] = None,
    redact: Annotated[
        bool | None,
        typer.Option("--redact/--no-redact", help="Replace secrets before storing."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="Cluster for --engine; default for ray: RAY_ADDRESS, else this machine."
        ),
    ] = None,
    space: SpacesOption = None,
    all_spaces: Annotated[
        bool,
        typer.Option("--all-spaces", help="Run a night of every space in the store."),
    ] = False,
) -> "RunReport | None":
    """Run a night: read new transcripts, distil and release them.

    With several spaces, each PATH must contain {space}; each space has its own night. If one fails, the others go on.

    Exit status 0: everything was done. 1: nothing was released. 3: a step failed and is tried again next night, or a
    named path gave nothing; the rest is released, unless an index failed its check. 4: the result is outside the bounds
    of `gates` and held back.
    """
    if rewrite and background:
        raise UsageError(
            "--rewrite and --background exclude each other: a background run asks no model"
        )
    executor = _name_executor(engine, address)
    given = _add_model_options(
        given, llm, max_tokens, gists=gists, embeddings=embeddings, redact=redact
    )
    # several spaces, each with a night of its own, or one
    if all_spaces or len(space or ()) > 1:
        if background or (all_spaces and space):
            raise UsageError(
                "--all-spaces can't be combined with --space, nor several spaces with --background"
            )
        ended = _run_each(
            given,
            paths or [],
            space or [],
            prefect=prefect,
            executor=executor,
            rewrite=rewrite,
        )
        raise typer.Exit(ended)
    here = load_settings(**given).space
    own_paths = [Path(str(path).replace(SPACE, here)) for path in paths or []]
    return _run_one(
        given=given,
        paths=own_paths,
        prefect=prefect,
        background=background,
        executor=executor,
        rewrite=rewrite,
    )


def _name_executor(engine: str | None, address: str | None) -> str | None:
    """Return `engine:address`, the name of the executor of a run; None if no engine is named.

    Raises:
        UsageError: no plugin of this name is installed, or an address is given without an engine.
    """
    if engine is None:
        if address:
            raise UsageError("--address needs --engine")
        return None
    known = sorted(find_plugins("slowwave.executors"))
    if engine not in known:
        names = " or ".join(known) or "the name of a plugin; none is installed"
        raise UsageError(f"--engine is {names}")
    return f"{engine}:{address or ''}"


def _run_each(
    given: dict[str, Any],
    paths: list[Path],
    spaces: list[str],
    *,
    prefect: bool | None,
    executor: str | None,
    rewrite: bool,
) -> int:
    """Run a night of each space, the longest-waiting space first. Return the most severe exit status.

    Raises:
        UsageError: a path has no {space}, so one space's transcripts would go into all of them; or there is no space.
    """
    from slowwave.store.releases import list_spaces

    if not paths or any(SPACE not in str(path) for path in paths):
        raise UsageError(
            f"with several spaces each PATH must contain {SPACE}, as in /transcripts/{SPACE}"
        )
    waiting = list_spaces(load_settings(**given).store)
    order = [*(name for name in dict.fromkeys(spaces) if name not in waiting), *waiting]
    if not order:
        raise UsageError("the store has no space yet: name them with --space")
    ended = set[int]()
    for name in (space for space in order if not spaces or space in spaces):
        OUT.print(f"space {name}", style="bold")
        own_paths = [Path(str(path).replace(SPACE, name)) for path in paths]

        def run_space(space: str = name, read: list[Path] = own_paths) -> int:
            report = _run_one(
                given=given | {"space": space},
                paths=read,
                prefect=prefect,
                background=False,
                executor=executor,
                rewrite=rewrite,
            )
            if report is None:
                return 0
            print_report(report)
            if report.held:
                return HELD
            return INCOMPLETE if report.failures else 0

        ended.add(_run_guarded(name, run_space))
    return next((status for status in (1, HELD, INCOMPLETE) if status in ended), 0)


def _run_guarded(name: str, run_space: Callable[[], int]) -> int:
    """Run a space's night, and return its exit status. An error is printed and does not stop the other spaces."""
    try:
        with report_errors():
            return run_space()
    except typer.Exit as failed:
        return failed.exit_code
    except Exception as error:
        LOG.warning("the night of space %s failed", name, exc_info=error)
        print_warnings([f"the night of {name} failed: {type(error).__name__}: {error}"])
        return 1


def _run_one(
    given: dict[str, Any],
    paths: list[Path],
    prefect: bool | None,
    background: bool,
    executor: str | None,
    *,
    rewrite: bool = False,
) -> "RunReport | None":
    settings = load_settings(**given)
    if background and not settings.same_day:
        return None
    if background:
        os.nice(19)
    absolute = _list_transcripts(paths)
    # A night in the background, one under Prefect, or a plain one.
    if background:
        from slowwave.flows.nightly import run_night
        from slowwave.store.lock import wait_alone

        with wait_alone(settings.store / settings.space, str(absolute)) as alone:
            if not alone:
                return None
            report = run_night(
                absolute, settings, wait=600, executor=executor, same_day=True
            )
        prepare_encoder(settings)
        return report
    if find_server(prefect):
        import_prefect_quietly()
        from slowwave.flows.prefect import run_night_under_prefect

        report = run_night_under_prefect(
            [str(path) for path in absolute], given, executor, rewrite=rewrite
        )
    else:
        with show_loading():
            from slowwave.flows.nightly import run_night

        report = run_night(absolute, settings, executor=executor, rewrite=rewrite)
    prepare_encoder(settings)
    # the night's news, for a terminal
    from slowwave.store import Store

    named = {
        name: given[name].removeprefix(f"{Path.cwd()}/")
        for name in ("store", "space")
        if name in given
    }
    options = "".join(
        f" --{name} {shlex.quote(value)}" for name, value in named.items()
    )
    store = Store.open(settings.store, settings.space)
    report.add_closing(
        store=store, width=OUT.width, options=options, program=name_program()
    )
    return report


def _list_transcripts(paths: list[Path]) -> list[Path]:
    """Return the absolute paths to read. Transcripts in a bucket are downloaded first.

    Raises:
        NoSuchPath: a path does not exist, or is a pipe or a device.
    """
    with show_loading():
        from slowwave.store.place import fetch_transcripts
        from slowwave.tasks.ingest.formats.registry import check_paths

    return check_paths(
        fetch_transcripts(path).expanduser().absolute() for path in paths
    )


@command
def plan(
    given: dict[str, Any],
    paths: Paths = None,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    gists: GistsOption = None,
    as_json: bool = False,
) -> dict[str, object] | None:
    """Estimate what a night would read and cost.

    Costs are in tokens, time and money. Unreadable files are listed; nothing is generated or written.
    """
    with show_loading():
        from slowwave.flows.plan import plan_night
        from slowwave.store.place import fetch_transcripts

    settings = load_settings(**_add_model_options(given, llm, max_tokens, gists=gists))
    estimate = plan_night(
        [fetch_transcripts(path).expanduser().absolute() for path in paths or []],
        settings,
    )
    if as_json:
        return asdict(estimate)
    _print_sources(estimate)
    _print_costs(estimate)
    for note in estimate.notes:
        OUT.print(f"note: {escape_line(note)}")
    return None


def _print_sources(estimate: "Estimate") -> None:
    """Print what a night would read."""
    sources = [
        {
            "tool": source.tool,
            "where": source.where,
            "files": source.files,
            "MB": source.bytes / 1e6,
            "state": source.problem or "new or changed",
        }
        for source in estimate.sources
    ]
    if sources:
        print_table(sources)
    OUT.print(f"{count_noun(estimate.unchanged, 'transcript')} had no news.")
    pending = f"Pending: {count_noun(estimate.messages, 'message')} in {count_noun(estimate.sessions, 'session')}"
    skipped = f", {estimate.skipped:,} of them too short" if estimate.skipped else ""
    OUT.print(f"{pending}{skipped}.")


def _print_costs(estimate: "Estimate") -> None:
    """Print what a night would cost, a row for each step."""
    costs = [
        {
            "step": line.step,
            "units": line.units,
            "prompts": line.requests,
            "from the cache": line.cached,
            "prompt tokens": line.prompt_tokens,
            "answer tokens (expected)": line.answer_tokens,
            "": "estimated" if line.estimated else "",
        }
        for line in estimate.lines
    ]
    if not costs:
        return
    print_table(costs, estimate.model)
    took = "unknown" if estimate.seconds is None else _format_duration(estimate.seconds)
    tokens = f"{estimate.prompt_tokens:,} prompt and {estimate.answer_tokens:,} answer tokens"
    OUT.print(f"In all {tokens}; time: {took}; money: ${estimate.usd:,.2f}")


def _format_duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, such as "about 5 min"."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return (
        f"about {seconds / 60:.0f} min"
        if seconds < 5_400
        else f"about {seconds / 3600:.1f} h"
    )


ByDayOption = Annotated[
    bool,
    typer.Option(
        "--by-day",
        help="A run for each day of the sessions, oldest first.",
    ),
]


@command(progress=True)
def reprocess(
    given: dict[str, Any],
    step: Annotated[str, typer.Argument(help=STEPS)],
    missing: Annotated[
        bool,
        typer.Option(
            "--missing", help="Only fill in what is missing (gists, summaries)."
        ),
    ] = False,
    session: Annotated[
        list[str] | None, typer.Option(help="Sessions, by the transcript's own id.")
    ] = None,
    workspace: Annotated[
        str | None, typer.Option(*PROJECT, help="Sessions of this project.")
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(help="Sessions that ended on or after this day.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Sessions that began before this day.")
    ] = None,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    gists: GistsOption = None,
    by_day: ByDayOption = False,
) -> "RunReport | None":
    """Redo a step and what depends on it, or fill in what it lacks.

    Steps after it only redo what changed. `topics` are made again from all sessions; `assign` places the claims of some
    sessions in the existing topics. Another writer than the memory's is refused: `slowwave run --rewrite` changes it.
    """
    with show_loading():
        from slowwave.flows.reprocess import Selection, list_masters, run_reprocess

    chosen = Selection(
        sessions=tuple(session or ()), workspace=workspace, since=since, until=until
    )
    settings = load_settings(**_add_model_options(given, llm, max_tokens, gists=gists))
    if by_day:
        return _backfill(step=step, chosen=chosen, settings=settings, missing=missing)
    # fill in what is missing, and print the summaries
    if missing:
        report = run_reprocess(step, chosen, settings, missing=True)
        summaries = list_masters(chosen, settings) if step == "summaries" else []
        _print_summaries(summaries)
        if step == "summaries" and not summaries:
            OUT.print(
                "There are no summaries: there are no messages, or the model could not be reached."
            )
        return report
    return run_reprocess(step, chosen, settings)


def _print_summaries(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print summaries, each under its day and title."""
    for row in rows:
        when = f"{format_day(row['last_at'])}  " if row["last_at"] else ""
        OUT.print(f"{when}{escape_line(row['title'])}", style="bold")
        OUT.print(f"{escape_text(row['text'])}\n")


def _backfill(
    step: str,
    chosen: "Selection",
    settings: "Settings",
    missing: bool,
) -> "RunReport | None":
    """Redo a step a day at a time, print each run, and exit by the first that did not end well.

    Raises:
        UsageError: `missing` is set, which goes with no days.
    """
    from slowwave.flows.reprocess import run_backfill

    if missing:
        raise UsageError("--by-day does days again: leave out --missing")

    reports = []
    for day, report in run_backfill(step, chosen, settings):
        OUT.print(f"{day or 'Sessions without a time'}:", style="bold")
        print_report(report)
        reports.append(report)
    for report in reports:
        end_run(report)
    return None
