"""A real PostgreSQL server of one's own, in a folder, as the machine's packages bring it."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType

import psycopg

from signalbook.demo.kafka import NotInstalled

FORGETFUL = MappingProxyType({"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
"""For a database that may lose all on a power failure."""
_PATIENCE = 300.0
_databases = count(1)


class Postgres:
    """Makes a database cluster in ``folder`` and starts it: reached by a socket there, and by TCP if it has a ``port``.

    Raises ``NotInstalled`` where the programs are missing, and ``SystemExit`` where it does not start.
    """

    def __init__(self, folder: Path, *, port: int | None = None, options: Mapping[str, str] | None = None) -> None:
        self._programs = _programs()
        self._folder = folder
        self._user = _unprivileged(folder)
        address = {"listen_addresses": ""} if port is None else {"listen_addresses": "127.0.0.1", "port": str(port)}
        self._options = {**address, **(options or {})}
        self._place = f"/postgres?host={folder}" if port is None else f"127.0.0.1:{port}/postgres"
        where = ("-D", str(folder / "data"))
        init = [str(self._programs / "initdb"), *where, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        command = [*init, "--no-locale", "--no-sync"]
        result = subprocess.run(command, user=self._user, cwd=folder, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"{init[0]}: {result.stderr}")
        self.process = self.start()

    @property
    def url(self) -> str:
        """Return the URL of the database ``postgres``."""
        return f"postgresql://postgres@{self._place}"

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or start it again; returns when it answers. It ends with the thread that starts it."""
        settings = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        where = ["-D", str(self._folder / "data"), "-k", str(self._folder)]
        command = ["setpriv", "--pdeathsig", "QUIT", str(self._programs / "postgres"), *where, *settings]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, user=self._user, cwd=self._folder, stdout=log, stderr=log)
        self.wait()
        return self.process

    def wait(self) -> None:
        """Wait until the server answers."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log_text = (self._folder / "log").read_text()
                    raise SystemExit(f"PostgreSQL does not start: {log_text}") from None
                time.sleep(0.02)

    def stop(self) -> None:
        """End it at once. It waits for no client."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(_PATIENCE)


def new_database(url: str) -> str:
    """The URL of a new database without tables, on the server whose database ``postgres`` is at ``url``."""
    name = f"signalbook_{os.getpid()}_{next(_databases)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    head, mark, query = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{mark}{query}"


def _programs() -> Path:
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[4]))
    on_path = shutil.which("postgres")
    if not candidates and on_path is None:
        raise NotInstalled("PostgreSQL's server programs are missing: apt-get install postgresql")
    return (candidates[-1] if candidates else Path(str(on_path)).resolve()).parent


def _unprivileged(folder: Path) -> str | None:
    """A user PostgreSQL runs as, given ``folder``; None is the present one. The server refuses to run as root."""
    if os.geteuid() != 0:
        return None
    user = next(name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})
    shutil.chown(folder, user)
    return user
