"""What the site of the documentation has beside docs/: README.md as its first page, and the Python API.

mkdocs calls the functions `on_…` while it builds (`hooks` in mkdocs.yml). A link to a file that is not of docs/ becomes
the file's name: the site does not know where the repository is.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
API = """# The Python API

[From Python](python.md) begins with examples.

::: slowwave.Memory

::: slowwave.recall.hits.Hit

::: slowwave.recall.hits.Hits

::: slowwave.schemas.errors
"""


def on_config(config: Any) -> Any:
    """Put the pages of a folder in the place of its name in the navigation, README.md first."""
    docs = ROOT / "docs"
    for part in filter(lambda part: isinstance(part, dict), config.nav):
        for title, folder in part.items():
            if isinstance(folder, str) and folder.endswith("/"):
                pages = sorted((docs / folder).glob("*.md"))
                pages.sort(key=lambda page: page.name != "README.md")
                part[title] = [page.relative_to(docs).as_posix() for page in pages]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add README.md, whose links then begin in docs/, and the page of the API."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = {"index.md": change_links(readme, ROOT), "api.md": API}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace a page's links to files that are not of the site."""
    source = page.file.abs_src_path
    return change_links(markdown, Path(source).parent) if source else markdown


def change_links(text: str, folder: Path) -> str:
    """Return Markdown whose links to files outside docs/ are the files' names."""
    docs = ROOT / "docs"

    def change(link: re.Match[str]) -> str:
        image, label, target, anchor = link.groups(default="")
        path = Path(posixpath.normpath((folder / target).as_posix()))
        if not path.is_relative_to(docs) or path.suffix == ".py":
            return label
        if path.is_dir():
            path /= "README.md"
        base = docs if folder == ROOT else folder
        return f"{image}[{label}]({posixpath.relpath(path, base)}{anchor})"

    return LINK.sub(change, text)
