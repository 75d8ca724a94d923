"""Checks against what was there before: a file, a folder, a URL, or what a git revision has in the same place."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from signalbook.cli.check import CheckedSource, Questions, SchemaFile, check_documents, compare, read_schema
from signalbook.cli.files import guess_format
from signalbook.cli.importing import import_source, is_url, load
from signalbook.cli.registry import open_registry
from signalbook.documents import NAMED, DocumentError
from signalbook.errors import SignalbookError
from signalbook.values import Finding
from signalbook.verdict import Verdict

_GIT: Final = "git:"


def follow(source: str, against: str, questions: Questions) -> CheckedSource:
    """The verdict on ``source`` as what follows ``against``; no registry is asked. Raises ``SignalbookError``."""
    documents = _has_documents(source)
    if against.startswith(_GIT):
        revision = against.removeprefix(_GIT)
        return (
            _documents_since(source, revision, questions) if documents else _schema_since(source, revision, questions)
        )
    if not is_url(against):
        if not Path(against).exists():
            raise DocumentError(f"{against}: cannot be read: there is no such file or folder (--against)")
        if documents is not _has_documents(against):
            raise SignalbookError(f"{source} and {against} (--against) are not both schemas, or both documents")
    if documents:
        return _documents(source, against, questions)
    return _schema(source, read_schema(against, questions.format), questions)


def _has_documents(source: str) -> bool:
    """Whether it is registry documents by its name; all else is taken for a schema."""
    return source.partition("?")[0].endswith(NAMED) or Path(source).is_dir()


def _schema(source: str, earlier: SchemaFile, questions: Questions) -> CheckedSource:
    same_kind = Path(source).suffix == Path(earlier.name).suffix
    later = read_schema(source, questions.format or (earlier.format if same_kind else ""))
    return CheckedSource(name=source, verdict=compare(later, earlier, questions.rule or "backward"))


def _schema_since(source: str, revision: str, questions: Questions) -> CheckedSource:
    path = Path(source)
    commit = _commit(path, revision)
    if commit is None:
        message = f"compared with nothing: git has none at {revision}"
        note = Finding(path=source, rule="not_compared", message=message, severity="info")
        return CheckedSource(name=source, verdict=Verdict(findings=(note,)))
    content = _git(path.parent, "cat-file", "blob", f"{commit}:./{path.name}")
    stated = questions.format or guess_format(path.name, content)
    return _schema(source, SchemaFile(name=f"{source} ({revision})", content=content, stated=stated), questions)


def _documents_since(source: str, revision: str, questions: Questions) -> CheckedSource:
    path = Path(source)
    commit = _commit(path, revision)
    if commit is None:
        return _documents(source, None, questions)
    folder, name = (path, ".") if path.is_dir() else (path.parent, path.name)
    with tempfile.TemporaryDirectory(prefix="signalbook-") as copy:
        # All of the folder: documents name files beside them.
        with tarfile.open(fileobj=io.BytesIO(_git(folder, "archive", "--format=tar", commit, "--", "."))) as archive:
            archive.extractall(copy, filter="data")
        return _documents(source, str(Path(copy, name)), questions)


def _documents(source: str, against: str | None, questions: Questions) -> CheckedSource:
    """In a registry of this process that has what ``against`` has, if anything."""
    if questions.format or questions.rule:
        raise SignalbookError(f"{source} has documents: they state formats and rules themselves (meta.compatibility)")
    with open_registry(None, "sqlite://", create=True) as registry:
        if against is not None:
            for known in load(against, lenient=questions.lenient):
                try:
                    import_source(registry, known, ignore=questions.ignore, to=None)
                except SignalbookError as error:
                    raise SignalbookError(f"what {source} is to follow cannot be read: {error}") from None
        (checked,) = check_documents(registry, load(source, lenient=questions.lenient), questions.ignore)
        return checked


def _commit(path: Path, revision: str) -> str | None:
    """The commit that a revision names, None if it does not have ``path``, or is the HEAD of a repository without any.

    Raises ``DocumentError`` for what is no file and no folder now, ``SignalbookError`` for what git does not know.
    """
    if not path.exists():
        raise DocumentError(f"{path}: cannot be read: there is no such file or folder")
    folder, name = (path, ".") if path.is_dir() else (path.parent, path.name)
    _git(folder, "rev-parse", "--git-dir")
    try:
        # Behind this option it is none itself, whatever it begins with.
        found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except SignalbookError:
        if revision == "HEAD":
            return None
        raise SignalbookError(f"git has no revision {revision!r} (--against {_GIT}{revision})") from None
    commit = found.decode("ascii").strip()
    return commit if _git(folder, "ls-tree", "--name-only", commit, "--", name).strip() else None


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        raise SignalbookError("--against git:... needs git, which is not installed") from None
    if done.returncode:
        raise SignalbookError(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout
