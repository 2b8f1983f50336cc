"""The command line, called in the process of the test."""

from typing import Any

from typer.testing import CliRunner, Result

from slowwave.cli.main import app


def typed(*words: object, **options: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], **options)
