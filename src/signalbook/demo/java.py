"""Java programs out of jars that ``tools/setup`` fetched, as ``tools/brokers`` names them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from signalbook.errors import SignalbookError

PLACE: Final = Path(sys.prefix) / "brokers"
"""Where ``tools/setup`` lays the jars, a folder for each program."""
# Up in seconds, and small: nobody here looks for the last bit of speed.
_OPTIONS: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class NotInstalled(SignalbookError):
    """Something is not on this machine; the message says how to get it."""


def jars(name: str) -> Path:
    """The folder with the jars of ``name``. Raises ``NotInstalled``."""
    folder = PLACE / name
    if not (folder / "pom.xml").is_file():  # which is put there last
        raise NotInstalled(
            f"there is no {name} in {folder}: in a checkout, tools/setup demo "
            "(tools/setup test for what only tests start) fetches it with Maven"
        )
    return folder


def command(name: str, *arguments: str) -> list[str]:
    """A Java machine with the jars of ``name``, its options and class in ``arguments``. Raises ``NotInstalled``."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise NotInstalled("there is no Java: apt-get install openjdk-17-jre-headless, or set JAVA_HOME")
    return [java, *_OPTIONS, "-cp", f"{jars(name)}/*", *arguments]
