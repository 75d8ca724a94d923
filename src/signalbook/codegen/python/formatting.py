"""Python source in the form that Ruff gives it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ruff import find_ruff_bin

from signalbook.codegen.base import GeneratorError

# Nothing of the folder around it, or of the user, has a say: the same source gives the same bytes.
_SETTINGS: Final = ("--isolated", "--no-cache", "--line-length=120", "--target-version=py311")
_TIMEOUT_SECONDS: Final = 600


def format_python(sources: Mapping[str, str]) -> dict[str, bytes]:
    """Modules by path, formatted, with their imports in order. Raises ``GeneratorError``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, source in sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(source, encoding="utf-8")
        _run(folder, "check", "--fix-only", "--quiet", "--select=I,F401", "--exit-zero")
        _run(folder, "format", "--quiet")
        return {path: (folder / path).read_bytes() for path in sources}


def _run(folder: Path, command: str, *options: str) -> None:
    ran = subprocess.run(  # noqa: S603 - ruff itself, with arguments of our own
        [find_ruff_bin(), command, *_SETTINGS, *options, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if ran.returncode:
        raise GeneratorError(f"ruff {command} failed: {ran.stderr.strip() or ran.stdout.strip()}")
