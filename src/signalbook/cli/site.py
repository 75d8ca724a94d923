"""``signalbook site``: the explorer of a folder as static files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

from typer import Argument, Option

from signalbook.cli.console import print_json, say, working
from signalbook.cli.files import write_folder
from signalbook.cli.registry import JsonOption
from signalbook.errors import SignalbookError
from signalbook.filenames import FileNameError, check_path
from signalbook.values import JSONError, dump_json, format_count, parse_json

if TYPE_CHECKING:
    from signalbook.api.ui.site import Site
    from signalbook.documents import FolderFile

MANIFEST: Final = PurePosixPath("-/site.json")
"""The files of a site, by a digest of each: what is not in it belongs to somebody else."""
_MAX_NAMES_SHOWN: Final = 5


class SiteError(SignalbookError):
    """The folder of a site has files that this program did not write."""


def run(
    source: Annotated[Path, Argument(metavar="SOURCE", help="A folder of documents, or one document.")],
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="The folder to write the site to.")],
    model: Annotated[
        str, Option("--model", metavar="FILE", help="The model that the documents extend, by default the shipped one.")
    ] = "default",
    lenient: Annotated[bool, Option("--lenient", help="Read documents as import --lenient does.")] = False,
    json: JsonOption = False,
) -> None:
    """Write the explorer of SOURCE as static files that any web server, or a browser alone, can show.

    Every link is relative, so that the site works below any URL. The same SOURCE gives the same bytes. In DIR only
    files are replaced or removed that an earlier run wrote and nobody has changed since; if others are in the way,
    nothing is written.
    """
    from signalbook.api.ui.site import Site
    from signalbook.engine.engine import Engine, load_model_source
    from signalbook.folder_registry import STATE_KEY, read_snapshot, synchronise
    from signalbook.settings import Settings
    from signalbook.storage import open_store
    from signalbook.storage.store import KeyValueStore

    with working(f"reading {source}") as show, closing(open_store("sqlite://")) as store:
        snapshot = read_snapshot(source, lenient=lenient)
        settings = replace(Settings(), model=model, registry_id=_choose_registry_id(snapshot.document))
        engine = Engine(store, settings=settings)
        synchronise(engine, snapshot, load_model_source(model))
        state = KeyValueStore(store).get(STATE_KEY) or {}
        site = Site(
            engine=engine,
            undated=str(state.get("since", "")),
            progress=lambda done, of: show(f"writing page {done:,} of {of:,}"),
        )
        earlier = _read_manifest(out)
        written: dict[str, str] = {}
        files = _check_files(site, out, earlier, written)
        write_folder(out, files, instead=(PurePath(name) for name in earlier if name not in written))
    summary = site.summary
    if json:
        print_json(
            {
                "out": str(out),
                "files": len(written),
                "pages": summary.pages,
                "searchable": summary.entities,
                "search_index_bytes": summary.index_bytes,
                "left_out": summary.left_out,
                "repairs": list(snapshot.repairs),
            }
        )
        return
    for repair in snapshot.repairs[:_MAX_NAMES_SHOWN]:
        say(f"repaired {repair}")
    say(
        f"wrote {format_count(summary.pages, 'page')}, {format_count(len(written), 'file')}, to {out}; "
        f"{format_count(summary.entities, 'entity is', 'entities are')} searchable"
    )
    if summary.left_out:
        say(f"the search index has no room for: {summary.left_out}")


def _choose_registry_id(document: dict[str, object]) -> str:
    from signalbook.settings import Settings
    from signalbook.xid import XidError, check_id

    stated = document.get("registryid")
    try:
        check_id(str(stated or ""))
    except XidError:
        return Settings().registry_id
    return str(stated)


def _read_manifest(out: Path) -> dict[str, str]:
    """Files that an earlier run wrote there, by digest. Raises ``SiteError`` if the list of them cannot be read."""
    try:
        manifest = parse_json((out / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, JSONError) as error:
        raise SiteError(f"{out / MANIFEST}: cannot be read ({error}): give another folder, or remove it") from None
    files = manifest.get("files") if isinstance(manifest, dict) else None
    try:
        if not isinstance(files, dict):
            raise FileNameError("there is no list")
        for name in files:
            check_path(name)
    except FileNameError:
        raise SiteError(
            f"{out / MANIFEST}: is no list of the files of a site: give another folder, or remove it"
        ) from None
    return {name: str(digest) for name, digest in files.items()}


def _check_files(site: Site, out: Path, earlier: dict[str, str], written: dict[str, str]) -> Iterator[FolderFile]:
    """The files of a site and the list of them, once it is sure that nothing of others is in the way."""
    from signalbook.documents import FolderFile

    for file in site.files():
        written[str(file.path)] = _compute_digest(file.content)
        yield FolderFile(path=file.path, content=file.content)
    # What is there already as it is to be was put there by a run that was cut short before its list was.
    strange = [
        name for name in {**earlier, **written} if _is_strange(out, name, (earlier.get(name), written.get(name)))
    ]
    if strange:
        more = f" and {len(strange) - _MAX_NAMES_SHOWN} more" if len(strange) > _MAX_NAMES_SHOWN else ""
        raise SiteError(
            f"{out}: not written by signalbook site, or changed since: {', '.join(strange[:_MAX_NAMES_SHOWN])}{more}: "
            "move it away, or give another folder; nothing was written"
        )
    manifest = dump_json({"files": dict(sorted(written.items()))}, indent=1) + b"\n"
    yield FolderFile(path=MANIFEST, content=manifest)


def _is_strange(out: Path, name: str, ours: tuple[str | None, ...]) -> bool:
    """Return True if something foreign is at this path. Only a file with one of the digests in ``ours`` is not foreign.

    A link or a file in place of a folder above the path is foreign, too.
    """
    path = out / name
    above = [parent for parent in path.parents if parent != out and out in parent.parents]
    if any(parent.is_symlink() or (parent.exists() and not parent.is_dir()) for parent in above):
        return True
    if path.is_symlink() or path.is_dir():
        return True
    try:
        return _compute_digest(path.read_bytes()) not in ours
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _compute_digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
