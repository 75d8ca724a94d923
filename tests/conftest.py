"""What many tests need: the shared data, a real PostgreSQL server, an empty store on every database."""

import gc
import os
import shutil
import signal
import ssl
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from tests.examples import FEW, SOME
from tests.others import OTHERS, OURS, own_parameters, purpose, require_own_test, skip_without
from tests.postgres import new_database
from tests.shared_servers import SERVERS, RemoteServers, SharedServers

from signalbook.storage import open_store
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import TABLES
from signalbook.storage.sqlite import SQLite
from signalbook.storage.store import Migrated, Store, _migrate
from signalbook.storage.words import WORD_TABLES

pytest_plugins = ["tests.brokers.fixtures"]

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SPARK_CLASSES = Path(sys.prefix) / "brokers" / "spark.jsa"
"""Where ``tools/setup test`` archives them."""
_MANY_BYTES = 1 << 20
_ON_POSTGRES = tuple(
    f"tests/storage/test_{subject}.py" for subject in ("behaviour", "filtering", "finding_versions", "version_order")
)
"""Where tests run on PostgreSQL in ``make test``, too: by each kind of statement that the storage makes."""

# How long an example takes is no test's business: a busy machine must not fail one. Nor must an example that nobody has
# seen yet: the same ones are tried each time, more of them with the profile "thorough", and others with "explore".
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("explore"), derandomize=True, max_examples=SOME)
settings.register_profile("signalbook", settings.get_profile("thorough"), max_examples=FEW)
settings.load_profile("signalbook")
# Java lives for seconds here: code that is compiled well, and a collector with threads of its own, cost more processor
# time than they save. To load its classes is half of what a Spark that does little has to do: they are in an archive.
_ARCHIVED = f' -XX:SharedArchiveFile="{_SPARK_CLASSES}" -Xlog:disable' if _SPARK_CLASSES.exists() else ""
os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED + _ARCHIVED)
# Spark compiles Java for each query in ``make merge``. To interpret queries of a few rows is faster.
_INTERPRETED = " -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_LIVED)
# From a file each client would read all authorities there are, which takes longer than most requests; in a folder
# OpenSSL looks for the one that it needs, and no test needs any.
os.environ.pop("SSL_CERT_FILE", None)
os.environ.setdefault("SSL_CERT_DIR", ssl.get_default_verify_paths().openssl_capath)
# Where no bytecode is written, each of the hundreds of programs that are started compiles all that it imports, and each
# process of the tests rewrites all assertions.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# httpx imports sniffio for each request to an application. Python would search all folders for it each time.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # Python's own way to say that there is none
# To look for garbage among all the tests, again and again, takes an eighth of the time that they take.
gc.set_threshold(20_000, 20, 20)
# A shell lets what it runs in the background ignore interrupts, and so all that the tests start, of which some are to
# be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options of this test suite."""
    parser.addoption("--kills", type=int, default=3, help="how often tests/test_killing.py kills a server")
    parser.addoption("--every-request", type=int, metavar="N", help="kill drivers with each N-th request to a store")
    parser.addoption("--pairs", type=int, default=100, help="how many random pairs of schemas test_reasons.py compares")
    parser.addoption("--cluster", action="store_true", help="also run tests/pipeline/test_cluster.py")
    parser.addoption("--pictures", action="store_true", help="make the pictures of docs/ui.md anew")
    parser.addoption("--renew", action="store_true", help="store generated code anew that test_emitters.py compares")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare for tests that need servers: the process that starts the others has them for all."""
    if "not merge" in config.option.markexpr and _INTERPRETED not in os.environ["SPARK_SUBMIT_OPTS"]:
        os.environ["SPARK_SUBMIT_OPTS"] += _INTERPRETED
    worker = getattr(config, "workerinput", None)
    config.stash[SERVERS] = SharedServers() if worker is None else RemoteServers(Path(worker["servers"]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where to ask for servers."""
    node.workerinput["servers"] = str(node.config.stash[SERVERS].serve())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the servers after the workers, and before the processor time is shown."""
    session.config.stash[SERVERS].close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most tests on PostgreSQL to ``make merge``."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters and "postgres" in parameters.params.values() and not item.nodeid.startswith(_ON_POSTGRES):
            item.add_marker("merge")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: the tests stay to the end, and with them all that is imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the processor time of the run, its workers, and the servers and programs that they waited for."""
    times = os.times()
    used = times.user + times.system + times.children_user + times.children_system
    terminalreporter.write_line(f"processor time: {used // 60:.0f} min {used % 60:.0f} s")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test by other people's documents names the one by our own, and is skipped where theirs are not."""
    marker = item.get_closest_marker("others")
    if marker is not None:
        skip_without(OTHERS, marker.args[0], require_own_test(item, marker))
    elif "shared_data" in getattr(item, "fixturenames", ()):
        pytest.fail(f"{item.nodeid}: say by pytest.mark.others which test holds the same by our own", pytrace=False)


@pytest.fixture
def pairs(request: pytest.FixtureRequest) -> int:
    """The number of random pairs of schemas to compare."""
    number: int = request.config.getoption("--pairs")
    return number


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of other people's documents beside the checkout, for tests that are marked with ``others``."""
    return OTHERS


@pytest.fixture
def sample_file(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """A registry document by its file name: one of our own, or a sample of xRegistry's, where that is there."""

    def find(name: str) -> Path:
        own_sample = OURS / "samples" / name
        if own_sample.exists():
            return own_sample
        original, same = OTHERS / "xregistry-samples" / name, own_parameters(request.node)
        assert same or request.node.get_closest_marker("others"), "no document of our own is tested"
        skip_without(original, f"{purpose(request.node)} with xRegistry's sample", f"the same test, {same}")
        return original

    return find


@pytest.fixture(scope="module", params=["webhooks", "github-webhooks"])
def webhooks(request: pytest.FixtureRequest) -> Path:
    """A folder with the schema of web hooks and examples of deliveries: our own, and GitHub's where they are there."""
    if request.param == "webhooks":
        return OURS / "webhooks"
    folder = OTHERS / "github-webhooks"
    skip_without(folder, "GitHub's web hooks by their published schema", "the same test, [webhooks]")
    return folder


@pytest.fixture(scope="session")
def postgres_url(find_server: Callable[[str], str]) -> str:
    """The URL of the database ``postgres`` on a real server, best left empty: see ``postgres_database``."""
    return find_server("postgres")


@pytest.fixture(scope="session")
def _shared_database(postgres_url: str) -> str:
    return new_database(postgres_url)


@pytest.fixture(scope="session")
def _empty_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return a function that returns a SQLite database after migration, which it makes when it is first called."""

    @cache
    def migrate_once() -> Path:
        dialect = SQLite(tmp_path_factory.mktemp("empty") / "signalbook.db", timeout=60)
        _migrate(dialect, "head", None)
        return Path(dialect.where)

    return migrate_once


@pytest.fixture(scope="session", autouse=True)
def _copied_schema(_empty_file: Callable[[], Path]) -> Iterator[None]:
    """Make new SQLite databases in this process copies of an empty one: migrations take longer than most tests."""

    def copy_or_migrate(dialect: Dialect, revision: str, migrated: Migrated | None) -> None:
        with closing(dialect.connect()) as connection:
            empty = dialect.sql.name == "sqlite" and not connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        if empty and revision == "head":
            shutil.copyfile(_empty_file(), dialect.where)
        else:
            _migrate(dialect, revision, migrated)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("signalbook.storage.store._migrate", copy_or_migrate)
        yield


FreshStore = Callable[[], AbstractContextManager[Store]]


@pytest.fixture(scope="session")
def fresh_store(_empty_file: Callable[[], Path]) -> FreshStore:
    """An empty store on SQLite, with a file of its own, for a block: for tests that open one with each example."""

    @contextmanager
    def opened() -> Iterator[Store]:
        with tempfile.TemporaryDirectory(prefix="sb-store-") as folder:
            store = open_store(f"sqlite:///{shutil.copy(_empty_file(), folder)}?synchronous=off")
            try:
                yield store
            finally:
                store.close()

    return opened


@pytest.fixture
def sqlite_store(fresh_store: FreshStore) -> Iterator[Callable[[], Store]]:
    """Opens empty stores on SQLite, each with a file of its own, and closes them at the end."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(fresh_store())


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, sqlite_store: Callable[[], Store]) -> Iterator[Store]:
    """An empty store, on each database in turn."""
    if request.param == "sqlite":
        yield sqlite_store()
        return
    url = request.getfixturevalue("_shared_database")
    opened = open_store(url)
    _empty(url)
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def postgres_database(postgres_url: str) -> str:
    """The URL of a new PostgreSQL database without tables."""
    return new_database(postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new database without tables, for tests with several stores or programs on one database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'signalbook.db'}"
    return str(request.getfixturevalue("postgres_database"))


def _empty(url: str) -> None:
    """Back to the state after migration: faster than another database for every test.

    Rows are deleted one by one unless there are many: to truncate is to make all files anew, which takes longer.
    """
    names = [*(name for name in TABLES.tables if name != "counters"), *WORD_TABLES]
    emptied = "; ".join(f"DELETE FROM {name}" for name in names)
    with psycopg.connect(url, autocommit=True) as connection:
        sizes = ", ".join(f"pg_relation_size('{name}')" for name in names)
        if max(connection.execute(f"SELECT {sizes}".encode()).fetchall()[0]) > _MANY_BYTES:
            emptied = f"TRUNCATE {', '.join(names)}"
        begin = "SELECT setval(format('%I', sequencename)::regclass, 1, false) FROM pg_sequences"
        connection.execute(f"{emptied}; UPDATE counters SET value = 0; {begin}".encode())
