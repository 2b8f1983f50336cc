"""What a run says of itself: a table on the terminal, Markdown for Prefect, JSON for the ledger."""

from dataclasses import dataclass, field

import orjson
from rich.console import Console
from rich.table import Table

from slowwave.store.releases import Release
from tasks.job import StepReport


@dataclass
class RunReport:
    """A run's steps and what it released."""

    run_id: str
    kind: str
    steps: list[StepReport] = field(default_factory=list)
    release: Release | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall time of all steps."""
        return sum(step.seconds for step in self.steps)

    def verdict(self) -> str:
        """One sentence: what is live now."""
        if self.release is None:
            return "Nothing changed: the live release stays as it is."
        counts = self.release.counts
        kept = ", ".join(f"{counts[name]:,} {name}" for name in ("messages", "observations", "topics", "summaries"))
        return f"Released {self.release.name}: {kept}."

    def as_json(self) -> str:
        """For the row in `runs`."""
        release = self.release.name if self.release else None
        facts = {"steps": [s.as_dict() for s in self.steps], "notes": self.notes, "release": release}
        return orjson.dumps(facts).decode()

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Step, rows in, rows out, seconds and counts of each step, as text."""
        return [(s.step, f"{s.rows_in:,}", f"{s.rows_out:,}", f"{s.seconds:.1f}", counts_text(s)) for s in self.steps]

    def print(self, console: Console) -> None:
        """The report as a table on a terminal."""
        table = Table("step", title=f"{self.kind} {self.run_id}", title_justify="left")
        for heading in ("in", "out", "seconds"):
            table.add_column(heading, justify="right")
        table.add_column("of which", overflow="fold")
        for row in self.rows():
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(f"note: {note}", highlight=False, soft_wrap=True)
        console.print(self.verdict(), highlight=False, soft_wrap=True)

    def markdown(self) -> str:
        """The report as Markdown."""
        lines = [f"# {self.kind} `{self.run_id}`", "", self.verdict(), "", "| step | in | out | seconds | of which |"]
        lines += ["|---|---:|---:|---:|---|", *("| " + " | ".join(row) + " |" for row in self.rows())]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)])


def counts_text(step: StepReport) -> str:
    """A step's counts and notes in one line."""
    counted = [f"{name} {n:,}" for name, n in sorted(step.counts.items()) if n]
    return " · ".join([*counted, *step.notes])
