"""Transcripts that lie in a bucket: what is new or changed there comes down, and is read like any other folder."""

import os
from pathlib import Path

import orjson

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import find_working_copy, read_url
from slowwave.store.bucket.objects import Bucket, do_for_each
from slowwave.store.private import replace_file


def fetch_transcripts(place: Path) -> Path:
    """Return a folder with what lies below an address; a path as it is. What is gone there is gone from the folder.

    Raises:
        UsageError: nothing lies there.
        StoreUnreadable: the bucket can't be reached.
    """
    if (url := read_url(place)) is None:
        return place
    folder = find_working_copy(url, "transcripts")
    bucket, noted = Bucket(folder, url), folder.with_name(f"{folder.name}.json")
    known = orjson.loads(noted.read_bytes()) if noted.exists() else {}
    with bucket.translate_errors():
        there = {name: one for name, one in bucket.list_objects().items() if ".." not in Path(name).parts}
        if not there:
            raise UsageError(f"nothing lies at {url}/: name a bucket, or a prefix in one")

        def fetch(name: str) -> None:
            bucket.fetch(name, folder / name)
            os.utime(folder / name, (at := there[name]["last_modified"].timestamp(), at))

        # what is new there, or changed; what is gone there goes here
        tags = {name: one["e_tag"] for name, one in there.items()}
        do_for_each(fetch, [name for name in tags if known.get(name) != tags[name] or not (folder / name).exists()])
    for path in (path for path in [*folder.rglob("*")] if path.is_file()):
        if path.relative_to(folder).as_posix() not in there:
            path.unlink()
    replace_file(noted, orjson.dumps(tags))
    return folder
