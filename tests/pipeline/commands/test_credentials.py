"""Runs whose keys are those of a role, and runs whose keys end while they work."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.certificates import Certificates
from tests.brokers.google import Google
from tests.brokers.program import Broker
from tests.brokers.servers import ACCOUNT, ACCOUNT_KEY, AZURITE, BUCKET
from tests.brokers.tokens import PROOF, TokenServer
from tests.pipeline.commands.test_stores import job_for
from tests.pipeline.identities import NAMES, azure_role, google_role
from tests.pipeline.lake import Lake
from tests.pipeline.local import run
from tests.pipeline.places.test_credentials import role
from tests.pipeline.s3 import place, storage_of
from tests.pipeline.storeway import Answer, Asked, Deliver, StoreWay, delivered, store_way

from signalbook.pipeline import PipelineError, Place, Storage, locks, place_of, status
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.table_names import TableName

pytestmark = pytest.mark.merge


RunBy = Callable[[Place, str, dict[str, str]], str]


@pytest.fixture
def run_by(definitions: Path, parcels: Any, tmp_path: Path) -> RunBy:
    """Return a function that runs a job in a process that has its credentials from such variables alone.

    Of eleven events ten land. The function returns all that the process printed.
    """

    def run_process(root: Place, table_format: str, variables: dict[str, str]) -> str:
        events = [parcels.event(number) for number in range(10)]
        (root / "in/a.jsonl").write(parcels.lines(*events, parcels.event(10, data={"id": 7})))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", *NAMES))}
        environ |= {"HOME": str(tmp_path), **variables}
        command = [sys.executable, "-m", "signalbook", "pipeline", "run", "--registry", str(definitions)]
        command += ["--input", f"{root}/in/", "--output", f"{root}/lake", "--table-format", table_format]
        result = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )
        assert result.returncode == 0, result.stderr
        (report,) = status(root / "lake").reports
        assert (report.tally.read, report.landed, report.tally.dead_lettered) == (11, 10, 1)
        assert "WARN" not in result.stderr
        return result.stdout + result.stderr

    return run_process


@pytest.mark.parametrize(
    ("way", "table_format"),
    [
        ("web identity", "iceberg"),
        ("token", "delta"),
        pytest.param("instance", "delta", marks=pytest.mark.soak),
        pytest.param("token file", "delta", marks=pytest.mark.soak),
    ],
)
def test_a_run_by_a_role(
    way: str, table_format: str, s3proxy: Broker, run_by: RunBy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The driver and the workers each request their keys."""
    root = place("s3proxy", tmp_path, request)
    store = {"AWS_ENDPOINT_URL_S3": root.storage.get("endpoint"), "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    run_by(root, table_format, {**store, **role(way, request, tmp_path)})


@pytest.fixture
def tokens(token_server: TokenServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> TokenServer:
    """A token server whose tokens expire during a run."""
    token_server.lasting = 5
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    return token_server


@pytest.mark.parametrize(
    ("way", "table_format"),
    [
        ("metadata server", "delta"),
        pytest.param("metadata server", "iceberg", marks=pytest.mark.soak),
        pytest.param("user", "delta", marks=pytest.mark.soak),
        pytest.param("impersonation", "iceberg", marks=pytest.mark.soak),
    ],
)
def test_a_run_by_an_identity_of_google(
    way: str,
    table_format: str,
    google: Google,
    tokens: TokenServer,
    run_by: RunBy,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    root = place("google", tmp_path, request)
    store = {"GOOGLE_BASE_URL": f"http://127.0.0.1:{google.port}", "GOOGLE_ALLOW_HTTP": "true", "RUST_LOG": "debug"}
    environment = {**store, **google_role(way, tokens, google, tmp_path), "NO_PROXY": "127.0.0.1"}
    check_tokens(root, tokens, run_by(root, table_format, environment))


@pytest.mark.skipif(not AZURITE.exists(), reason="make clouds installs Azurite")
@pytest.mark.parametrize(
    ("way", "table_format"), [("machine", "delta"), ("workload", "delta"), ("app", "iceberg"), ("secret", "delta")]
)
def test_a_run_by_an_identity_on_azurite(
    way: str, table_format: str, azurite_tls: Broker, tokens: TokenServer, run_by: RunBy, tmp_path: Path
) -> None:
    endpoint = f"https://127.0.0.1:{azurite_tls.ports['plain']}/{ACCOUNT}"
    storage = Storage.of({"endpoint": endpoint, "account_key": ACCOUNT_KEY})
    root = place_of(f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net/{secrets.token_hex(4)}", storage)
    environment = {"AZURE_STORAGE_ENDPOINT": endpoint, "RUST_LOG": "debug", **azure_role(way, tokens, tmp_path)}
    check_tokens(root, tokens, run_by(root, table_format, environment))


def check_tokens(root: Place, tokens: TokenServer, printed: str) -> None:
    """Check that tokens expired during the run, and that no credential was printed or stored."""
    assert sum(map(tokens.is_valid, tokens.issued)) < len(tokens.issued)
    contents = [(root / entry.path).read() for entry in root.list_files(deep=True)]
    for secret in (PROOF, *tokens.issued):
        assert secret not in printed
        assert not any(secret.encode() in content for content in contents)


class Session:
    """Keys that end with the first request to a path with ``word`` in it, before it is done or after."""

    def __init__(self, word: str, *, after: bool) -> None:
        self.ended = False
        self._word, self._after = word, after

    def __call__(self, request_: Asked, deliver: Deliver) -> Answer:
        """Return the response of the store."""
        if self.ended or request_.method != "PUT" or self._word not in request_.path:
            return self._ended() if self.ended else deliver()
        self.ended = True
        return deliver() if self._after else self._ended()

    def _ended(self) -> Answer:
        body = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        return Answer(400, (("content-type", "application/xml"), ("content-length", str(len(body)))), body)


@pytest.fixture
def way(s3proxy: Broker) -> Iterator[StoreWay]:
    with store_way(s3proxy.ports["plain"]) as opened:
        yield opened


@pytest.mark.parametrize(
    ("word", "after", "table_format"),
    [
        (".staging/", False, "parquet"),
        ("batches/prepared/", True, "parquet"),
        ("batches/prepared/", True, "delta"),
        ("batches/prepared/", True, "iceberg"),
        ("_delta_log/", False, "delta"),
        ("metadata/", False, "iceberg"),
    ],
)
def test_run_with_expired_keys_is_completed_with_new_ones(
    word: str,
    after: bool,
    table_format: TableFormat,
    way: StoreWay,
    definitions: Path,
    parcels: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run stops with an error; with new keys the same batch lands, once."""
    monkeypatch.setattr(locks, "TERM", 0.5)  # that of the first run, which cannot release it, is waited for
    root = place("s3proxy", tmp_path, request)
    (root / "in/a.jsonl").write(parcels.lines(*map(parcels.event, range(10))))
    on_the_way = place_of(str(root), storage_of(way.own, session_token="session-1"))
    job = replace(job_for(on_the_way, definitions, table_format), batch_id="b")
    way.fate = session = Session(word, after=after)
    with pytest.raises(PipelineError, match=r"400 Bad Request \(ExpiredToken|the token .* may have ended\)") as failure:
        run(job)
    assert session.ended
    assert "session-1" not in str(failure.value)
    way.fate = delivered
    report = run(replace(job, storage=storage_of(way.own, session_token="session-2")))
    assert (report.tally.read, report.landed) == (10, 10)
    landed = Lake(tmp_path, table_format, stored=root / "lake").rows(TableName("parcels", "parcel.accepted"))
    assert sorted(row["ce_id"] for row in landed) == [f"e-{number}" for number in range(10)]
