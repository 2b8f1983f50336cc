"""Transcripts that lie in a bucket: what is new or changed there comes down, and is read like any other folder."""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import orjson

from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import find_working_copy, read_url
from slowwave.store.bucket.objects import Bucket
from slowwave.store.bucket.working_copy import do_for_each
from slowwave.store.private import make_private_folder, replace_file


def fetch_transcripts(place: Path) -> Path:
    """Return a folder with what lies below an address; a path as it is. What is gone there is gone from the folder.

    Raises:
        UsageError: nothing lies there.
        StoreUnreadable: the bucket can't be reached.
    """
    if (url := read_url(place)) is None:
        return place
    folder = find_working_copy(url, "transcripts")
    bucket, noted, known = Bucket(folder, url), folder.with_name(f"{folder.name}.json"), dict[str, str]()
    with suppress(FileNotFoundError, ValueError):
        known = orjson.loads(noted.read_bytes())
    with bucket.translate_errors():
        listed = (one for page in bucket.obs.list(bucket.objects) for one in page)
        there = {one["path"]: one for one in listed if ".." not in Path(one["path"]).parts}
        if not there:
            raise UsageError(f"nothing lies at {url}/: name a bucket, or a prefix in one")
        tags = {name: str(one["e_tag"]) for name, one in there.items()}
        make_private_folder(folder)

        def fetch(name: str) -> None:
            make_private_folder((folder / name).parent)
            part = noted.with_name(f"{sha256(name.encode()).hexdigest()}.part")
            bucket.fetch(name, part)
            at = there[name]["last_modified"].timestamp()
            os.utime(part, (at, at))
            part.replace(folder / name)

        is_here = {name: known.get(name) == tag and (folder / name).exists() for name, tag in tags.items()}
        do_for_each(fetch, [name for name in there if not is_here[name]])
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in there:
            path.unlink()
    replace_file(noted, orjson.dumps(tags))
    return folder
