"""A tuned setting in the user's slowwave.toml, all else in it as it was: comments, order, spaces."""

from slowwave.schemas.errors import UsageError
from slowwave.tasks.experiment.definition import Params


def set_in_toml(text: str, params: Params) -> str:
    """Return the file's text with settings set by their dotted names.

    Raises:
        UsageError: tomlkit is not installed, the text is no TOML, or has a value where a section belongs.
    """
    try:
        import tomlkit
    except ModuleNotFoundError:
        raise UsageError("to write settings needs tomlkit: pip install 'slowwave[experiment]'") from None
    try:
        document = tomlkit.parse(text)
        for name, value in params.items():
            *above, last = name.split(".")
            inner = document
            for depth, part in enumerate(above):
                inner = inner.setdefault(part, tomlkit.table(is_super_table=depth < len(above) - 1))
            inner[last] = value
        return tomlkit.dumps(document)
    except (tomlkit.exceptions.TOMLKitError, TypeError, AttributeError) as error:
        raise UsageError(f"slowwave.toml can't be changed: {error}") from None
