"""Who asks the stores of Google and Azure, by servers that check it, for a place and for Delta's library."""

import base64
import hmac
import json
import os
import re
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.brokers import servers
from tests.brokers.certificates import Certificates
from tests.brokers.google import Google
from tests.brokers.keys import KeyServer
from tests.brokers.servers import ACCOUNT_KEY, AZURITE, BUCKET
from tests.brokers.tokens import PROOF, TokenServer
from tests.pipeline.identities import (
    AZURE,
    DEFAULT,
    FEDERATED,
    GOOGLE,
    NAMES,
    azure_role,
    federated,
    google_role,
    set_all,
)

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, Storage, place_of, roles, stores
from signalbook.pipeline.tables.delta import build_delta_options


@pytest.fixture
def environ(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """An environment in which nobody asks."""
    for name in [name for name in os.environ if name.startswith(NAMES)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    monkeypatch.setattr(stores, "_RETRIES", {"max_retries": 1})
    monkeypatch.setattr(roles, "_NEAR_PAUSES", (0.0, 0.1))
    stores.connect.cache_clear()
    yield monkeypatch
    stores.connect.cache_clear()


@pytest.fixture
def bucket(google: Google, environ: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    set_all(environ, {"GOOGLE_BASE_URL": f"http://127.0.0.1:{google.port}", "GOOGLE_ALLOW_HTTP": "true"})
    return place_of(f"gs://{BUCKET}/{tmp_path.name}")


@pytest.fixture
def blob(token_server: TokenServer, environ: pytest.MonkeyPatch) -> Place:
    """Return a blob of Azure with some content."""
    token_server.blobs["/parcels/lake/f"] = b"x"
    environ.setenv("AZURE_STORAGE_ENDPOINT", f"https://{token_server.secure}/parcels")
    return place_of(f"abfss://{BUCKET}@parcels.dfs.core.windows.net/f")


Become = Callable[[str], None]


@pytest.fixture
def as_google(google: Google, token_server: TokenServer, environ: pytest.MonkeyPatch, tmp_path: Path) -> Become:
    """Return a function that gives this process the credentials of one of the ways to Google."""
    return lambda way: set_all(environ, google_role(way, token_server, google, tmp_path))


@pytest.fixture
def as_azure(token_server: TokenServer, environ: pytest.MonkeyPatch, tmp_path: Path) -> Become:
    """Return a function that gives this process the credentials of one of the ways to Azure."""
    return lambda way: set_all(environ, azure_role(way, token_server, tmp_path))


def lands(there: Place) -> None:
    """Something, by a place and by Delta's library."""
    (there / "f").write(b"x")
    assert (there / "f").read() == b"x"
    write_deltalake(str(there / "t"), pa.table({"n": [1, 2]}), storage_options=build_delta_options(there))
    assert DeltaTable(str(there / "t"), storage_options=build_delta_options(there)).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("way", GOOGLE)
def test_google(way: str, bucket: Place, token_server: TokenServer, as_google: Become) -> None:
    """The credentials are those of Google's SDKs."""
    as_google(way)
    lands(bucket)
    if way.startswith("user"):
        assert set(filter(re.compile("CONNECT").search, token_server.asked)) == {"CONNECT accounts.google.com:443"}


def test_the_metadata_server_is_looked_for_once(bucket: Place, token_server: TokenServer, as_google: Become) -> None:
    as_google("metadata server")
    for name in ("a", "b"):
        (bucket / name).write(b"x")
    assert token_server.asked.count("GET /") == 1


@pytest.mark.parametrize("way", FEDERATED)
def test_federation(way: str, bucket: Place, as_google: Become) -> None:
    """The files contain external identities, which Delta's library does not support."""
    as_google(way)
    (bucket / "f").write(b"x")
    assert (bucket / "f").read() == b"x"
    with pytest.raises(PipelineError, match=r"Delta's library cannot ask for tokens by .*credentials\.json"):
        build_delta_options(bucket)


@pytest.mark.parametrize("way", AZURE)
def test_azure(way: str, blob: Place, environ: pytest.MonkeyPatch, as_azure: Become) -> None:
    """The credentials are those of Azure's SDKs; settings of a job override the environment."""
    as_azure(way)
    if way == "secret of a job":
        environ.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=nothing")
    assert of_job(way, blob).read() == b"x"


def of_job(way: str, blob: Place) -> Place:
    return place_of(str(blob), Storage.of({"client_secret": PROOF})) if way == "secret of a job" else blob


@pytest.mark.skipif(not AZURITE.exists(), reason="make clouds installs Azurite")
@pytest.mark.parametrize("way", [*AZURE, "key", "key of az", "connection string", "signature", "signed connection"])
def test_azurite(
    way: str, token_server: TokenServer, environ: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Microsoft's emulator checks signatures, and the audience and expiry of tokens."""
    port = request.getfixturevalue("azurite_tls").ports["plain"]
    endpoint, name = f"https://127.0.0.1:{port}/{servers.ACCOUNT}", {"AZURE_STORAGE_ACCOUNT": servers.ACCOUNT}
    text = f"DefaultEndpointsProtocol=https;AccountName={servers.ACCOUNT};BlobEndpoint={endpoint}/;"
    keys = {
        "key": {"AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY, **name},
        "key of az": {"AZURE_STORAGE_KEY": ACCOUNT_KEY, **name},
        "connection string": {"AZURE_STORAGE_CONNECTION_STRING": f"{text}AccountKey={ACCOUNT_KEY}"},
        "signature": {"AZURE_STORAGE_SAS_TOKEN": signature(), **name},
        "signed connection": {"AZURE_STORAGE_CONNECTION_STRING": f"{text}SharedAccessSignature={signature()}"},
    }
    set_all(environ, keys[way] if way in keys else {**azure_role(way, token_server, tmp_path), **name})
    if "connection" not in way:
        environ.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
    lands(of_job(way, place_of(f"az://{BUCKET}/{secrets.token_hex(4)}")))


def signature() -> str:
    """Return the signature of an account for an hour:
    https://learn.microsoft.com/rest/api/storageservices/create-account-sas.
    """
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    parameters = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": ends}
    parameters |= {"sip": "", "spr": "https", "sv": "2021-12-02"}
    signed = "\n".join([servers.ACCOUNT, *parameters.values(), "", ""])
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), "sha256")
    signed_parameters = {name: value for name, value in parameters.items() if value}
    return urlencode({**signed_parameters, "sig": base64.b64encode(digest).decode()})


@pytest.mark.parametrize("way", ["metadata server", "user", "url", "impersonation"])
def test_google_tokens_are_renewed(way: str, bucket: Place, token_server: TokenServer, as_google: Become) -> None:
    """Before they end, by the same client; those that last are not asked for again."""
    as_google(way)
    is_renewed(token_server, lambda: bucket.write(b"x"))


@pytest.mark.parametrize("way", ["machine", "app", "workload", "secret", "az"])
def test_azure_tokens_are_renewed(way: str, blob: Place, token_server: TokenServer, as_azure: Become) -> None:
    token_server.lasting = 10
    as_azure(way)

    def ask() -> None:
        if way == "az":
            as_azure(way)  # as the program does it
        assert blob.read() == b"x"

    is_renewed(token_server, ask, more=way == "az")


def is_renewed(tokens: TokenServer, ask: Callable[[], object], *, more: bool = False) -> None:
    tokens.lasting = 10
    ask()
    first = set(tokens.issued)
    time.sleep(0.2)  # so long it is not asked again
    tokens.issued = dict.fromkeys(first, 0.0)
    tokens.lasting = 3600
    ask()
    issued = len(tokens.issued)
    assert issued > len(first)
    for _ in range(3):
        ask()
    assert more or len(tokens.issued) == issued


REFUSALS = {
    "metadata server": "no credentials are set, and the metadata service of this machine answers 404 Not Found",
    "user": r"the service that gives tokens answers 400 Bad Request \(invalid_grant\)",
    "file": r"no token is given by .*credentials\.json: invalid_grant",
    "aws": r"no token is given by .*credentials\.json: invalid_grant",
    "workforce": r"no token is given by .*credentials\.json: invalid_grant",
    "impersonated user": r"no token is given by .*credentials\.json: invalid_grant",
    "no file": r"no token is given by .*credentials\.json: File '.*/subject' was not found",
    "machine": "no credentials are set, and the metadata service of this machine answers 400 Bad Request",
    "app": r"the metadata service of this machine answers 400 Bad Request \(invalid_request\)",
    "workload": r"the service that gives tokens answers 401 Unauthorized \(AADSTS7000215\)",
    "secret": r"the service that gives tokens answers 401 Unauthorized \(AADSTS7000215\)",
}


@pytest.mark.parametrize("way", REFUSALS)
def test_refusing_server_is_named(
    way: str, token_server: TokenServer, environ: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The error does not blame the store, and does not show what was sent."""
    place, become = ("blob", "as_azure") if way in AZURE else ("bucket", "as_google")
    there: Place = request.getfixturevalue(place)
    request.getfixturevalue(become)(way)
    if way == "no file":
        (tmp_path / "subject").unlink()
    elif way == "metadata server":
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            environ.setenv(name, f"{token_server.plain}/nowhere")
    elif way == "machine":
        environ.setenv("AZURE_CLIENT_ID", "another")
    token_server.proof = "another"
    with pytest.raises(OSError, match=REFUSALS[way]) as failure:
        there.read()
    messages = [str(failure.value)]
    if way not in (*FEDERATED, "no file"):
        with pytest.raises(OSError, match="Kernel error") as refusal:
            DeltaTable(str(there), storage_options=build_delta_options(there))
        messages.append(stores.shorten_error(str(refusal.value)))
        assert re.search(REFUSALS[way], messages[-1])
    for message in messages:
        assert PROOF not in message
        assert "\n" not in message


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where connections are taken, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def noisy() -> Iterator[str]:
    """An address where what is said is no HTTP."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"what?\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("kind", ["nobody", "silence", "noise", "another cloud"])
def test_missing_metadata_server_is_reported(
    kind: str, silent: str, noisy: str, bucket: Place, key_server: KeyServer, environ: pytest.MonkeyPatch
) -> None:
    """The error appears before obstore or Delta's library search for the server for half a minute each."""
    cloud = f"127.0.0.1:{key_server.port}"
    hosts = {"nobody": "127.0.0.1:1", "silence": silent, "noise": noisy, "another cloud": cloud}
    environ.setenv("GCE_METADATA_HOST", hosts[kind])
    for ask in (bucket.read, lambda: build_delta_options(bucket)):
        with pytest.raises(PipelineError, match=f"no credentials for Google.* no metadata server .* at {hosts[kind]}"):
            ask()


@pytest.mark.parametrize("kind", ["nobody", "silence"])
def test_missing_identity_service_is_reported(kind: str, silent: str, blob: Place, environ: pytest.MonkeyPatch) -> None:
    """Azure's identity service is missing in the same way."""
    host = {"nobody": "127.0.0.1:1", "silence": silent}[kind]
    environ.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://{host}")
    for ask in (blob.read, lambda: build_delta_options(blob)):
        with pytest.raises(PipelineError, match=f"no credentials for Azure.* no identity service at {host}"):
            ask()


def test_a_machine_that_is_not_asked(bucket: Place, environ: pytest.MonkeyPatch) -> None:
    environ.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(PipelineError, match="NO_GCE_CHECK forbids"):
        bucket.read()
    assert place_of(str(bucket), Storage.of({"anonymous": "true"})).storage.build_obstore_options("gs")


def test_az_is_asked_where_no_machine_answers(blob: Place, environ: pytest.MonkeyPatch, as_azure: Become) -> None:
    """The SDK does the same: a laptop has no identity of its own."""
    as_azure("az")
    environ.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
    environ.delenv("AZURE_USE_AZURE_CLI")
    assert blob.read() == b"x"


@pytest.mark.parametrize("way", FEDERATED)
def test_tokens_are_not_requested_elsewhere(
    way: str, bucket: Place, token_server: TokenServer, as_google: Become
) -> None:
    """Wherever an answer points to: it would be shown what was sent."""
    as_google(way)
    with token_server.elsewhere() as other:
        token_server.moved = f"https://{other.secure}/v1/token"
        with pytest.raises(OSError, match="no token is given by"):
            bucket.write(b"x")
        assert not other.asked


def test_a_store_shows_no_token_to_others(blob: Place, token_server: TokenServer, as_azure: Become) -> None:
    """Nor does one that sends whoever asks elsewhere."""
    as_azure("machine")
    with token_server.elsewhere() as other:
        other.blobs = dict(token_server.blobs)
        token_server.blobs = {"/parcels/lake/f": f"https://{other.secure}/parcels/lake/f".encode()}
        token_server.sends_on = True
        with pytest.raises(OSError, match="answers 401 Unauthorized"):
            blob.read()
        assert other.shown == [""]


@pytest.mark.parametrize(
    ("way", "member"),
    [("file", "token_url"), ("impersonation", "service_account_impersonation_url"), ("impersonated user", "token_uri")],
)
def test_tokens_are_sent_over_tls_only(
    way: str, member: str, bucket: Place, token_server: TokenServer, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also who acts for a service account."""
    content = federated(way, token_server, tmp_path)
    settings = content["source_credentials"] if member == "token_uri" else content
    assert isinstance(settings, dict)
    settings[member] = f"http://{token_server.plain}/v1/token"
    (tmp_path / "credentials.json").write_text(json.dumps(content))
    environ.setenv(DEFAULT, str(tmp_path / "credentials.json"))
    with pytest.raises(PipelineError, match=f"{member} is not https"):
        bucket.write(b"x")
    assert not token_server.asked


def test_entra_is_asked_by_tls_alone(
    blob: Place, token_server: TokenServer, environ: pytest.MonkeyPatch, as_azure: Become
) -> None:
    """Even where the store need not be."""
    as_azure("secret")
    set_all(environ, {"AZURE_ALLOW_HTTP": "true", "AZURE_AUTHORITY_HOST": f"http://{token_server.plain}"})
    with pytest.raises(PipelineError, match="AZURE_AUTHORITY_HOST is not https"):
        blob.read()
    assert not token_server.asked


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read"),
        ("{", "cannot read"),
        ("[4711]", "has no credentials of Google"),
        ('{"type": "gdch_service_account", "key": 4711}', "is of the type 'gdch_service_account'; there are"),
        (
            '{"type": "external_account", "credential_source": {"certificate": {"x": 4711}}}',
            "certificates as a source of tokens are not supported",
        ),
    ],
)
def test_unusable_credential_files_are_reported(
    content: str | None, words: str, bucket: Place, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the file, and does not show its content."""
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    environ.setenv(DEFAULT, str(tmp_path / "x.json"))
    with pytest.raises(PipelineError, match=words) as failure:
        bucket.read()
    assert str(tmp_path / "x.json") in str(failure.value)
    assert "4711" not in str(failure.value)


def test_incomplete_credential_file_is_an_error(bucket: Place, environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"type": "external_account", "audience": 4711}')
    environ.setenv(DEFAULT, str(tmp_path / "x.json"))
    with pytest.raises(OSError, match="no token is given by") as failure:
        bucket.read()
    assert "4711" not in str(failure.value)


def test_a_service_account_of_a_job(bucket: Place, google: Google, environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The two settings override the environment; using both is an error."""
    (tmp_path / "key.json").write_text(google.account)
    environ.setenv(DEFAULT, "nothing.json")
    for setting in ({"service_account": str(tmp_path / "key.json")}, {"service_account_key": google.account}):
        lands(place_of(f"{bucket}/{next(iter(setting))}", Storage.of(setting)))
    for name in ("GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT"):
        environ.setenv(name, "{}")
    with pytest.raises(PipelineError, match="both service_account and service_account_key are set"):
        place_of(str(bucket), Storage.of({"service_account": "key.json"})).storage.build_obstore_options("gs")


def test_a_job_may_name_files_of_others(
    bucket: Place, environ: pytest.MonkeyPatch, tmp_path: Path, as_google: Become
) -> None:
    """The same files can be named by the environment."""
    as_google("user")
    environ.delenv(DEFAULT)
    lands(place_of(str(bucket), Storage.of({"service_account": str(tmp_path / "credentials.json")})))


def test_files_by_a_name_of_obstore(
    bucket: Place, google: Google, token_server: TokenServer, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The variable overrides those of SDKs, in Delta's library too, and supports only service accounts."""
    (tmp_path / "key.json").write_text(google.account)
    environ.setenv("SERVICE_ACCOUNT", str(tmp_path / "key.json"))
    environ.setenv(DEFAULT, "nothing.json")
    lands(bucket)
    google_role("user", token_server, google, tmp_path)
    environ.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "credentials.json"))
    with pytest.raises(PipelineError, match=f"names no service account's file: use {DEFAULT} for"):
        bucket.storage.build_obstore_options("gs")


def test_google_auth_may_be_missing(bucket: Place, environ: pytest.MonkeyPatch, as_google: Become) -> None:
    as_google("file")
    environ.setitem(sys.modules, "google.auth", None)  # as it is where nothing is installed
    with pytest.raises(PipelineError, match=r"the type 'external_account', needs google-auth: pip install '\.\[google"):
        bucket.read()


def azure(**settings: str) -> dict[str, str]:
    config, _ = Storage.of(settings).build_obstore_options("az", "abfss://lake@parcels.dfs.core.windows.net")
    return config


def test_ways_to_azure_in_order(environ: pytest.MonkeyPatch) -> None:
    """Settings of the job come first, and each way has all its settings."""
    environ.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
    entra = {"tenant_id": "T", "client_id": "C"}
    workload, access_key = {"credential_type": "workload_identity"}, {"credential_type": "access_key"}
    cases: list[tuple[str, str, dict[str, str]]] = [
        ("AZURE_USE_AZURE_CLI", "true", {"credential_type": "azure_cli", "use_azure_cli": "true"}),
        ("AZURE_TENANT_ID", "T", {"credential_type": "azure_cli", "use_azure_cli": "true"}),
        ("AZURE_CLIENT_ID", "C", {"credential_type": "azure_cli", "use_azure_cli": "true"}),
        ("AZURE_FEDERATED_TOKEN_FILE", "F", {**workload, **entra, "federated_token_file": "F"}),
        ("AZURE_CLIENT_SECRET", "S", {"credential_type": "client_secret", **entra, "client_secret": "S"}),
        ("AZURE_STORAGE_TOKEN", "B", {"credential_type": "bearer_token", "bearer_token": "B"}),
        ("AZURE_STORAGE_SAS_TOKEN", "sig=s", {"credential_type": "sas_token", "sas_key": "sig=s"}),
        (
            "AZURE_STORAGE_CONNECTION_STRING",
            "AccountName=parcels;AccountKey=a2V5==;EndpointSuffix=core.chinacloudapi.cn",
            {**access_key, "account_key": "a2V5==", "endpoint": "https://parcels.blob.core.chinacloudapi.cn"},
        ),
        ("AZURE_STORAGE_KEY", "Z", {**access_key, "account_key": "Z"}),
        ("AZURE_STORAGE_ACCOUNT_KEY", "K", {**access_key, "account_key": "K"}),
    ]
    for name, value, expected in cases:
        environ.setenv(name, value)
        assert azure() == {"account_name": "parcels", **expected}, name
    assert azure(client_secret="J")["credential_type"] == "client_secret"
    assert azure(sas_token="sig=j")["credential_type"] == "sas_token"
    assert azure(account_key="J")["account_key"] == "J"
    assert azure(anonymous="true") == {"account_name": "parcels", "skip_signature": "true"}


def test_delta_uses_the_credentials_of_the_job(environ: pytest.MonkeyPatch) -> None:
    """An account key in the environment, which the library would use first, is an error."""
    there = place_of("abfss://lake@parcels.dfs.core.windows.net/t", Storage.of({"sas_token": "sig=j"}))
    environ.setenv("AZURE_CLIENT_SECRET", "S")
    assert build_delta_options(there) == {"account_name": "parcels", "sas_key": "sig=j"}
    environ.setenv("AZURE_STORAGE_ACCOUNT_KEY", "K")
    with pytest.raises(PipelineError, match="Delta's library would go by AZURE_STORAGE_ACCOUNT_KEY in the environment"):
        build_delta_options(there)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"AZURE_CLIENT_SECRET": "4711", "AZURE_CLIENT_ID": "C"},
            r"is set for Azure without tenant_id \(AZURE_TENANT_ID",
        ),
        (
            {"AZURE_FEDERATED_TOKEN_FILE": "f"},
            r"without tenant_id \(AZURE_TENANT_ID\) and client_id \(AZURE_CLIENT_ID\)",
        ),
        ({"AZURE_CLIENT_CERTIFICATE_PATH": "f"}, "certificates are not known here"),
        ({"IDENTITY_ENDPOINT": "http://x", "IMDS_ENDPOINT": "http://y"}, "of Azure Arc or Service Fabric"),
        ({"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"}, "no account, or neither key nor signature"),
        (
            {"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_SAS_TOKEN": "sig=4711"},
            "is of the account other, but abfss://lake@parcels.dfs.core.windows.net is of parcels",
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=other;AccountKey=4711"},
            "is of the account other, but abfss://lake@parcels",
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=parcels;AccountKey=4711;DefaultEndpointsProtocol=http"},
            "http://parcels.blob.core.windows.net is not encrypted",
        ),
    ],
)
def test_unusable_azure_settings_are_errors(variables: dict[str, str], words: str, environ: pytest.MonkeyPatch) -> None:
    set_all(environ, variables)
    with pytest.raises(PipelineError, match=words) as failure:
        azure()
    assert "4711" not in str(failure.value)


def test_an_account_has_to_be_named(environ: pytest.MonkeyPatch) -> None:
    with pytest.raises(PipelineError, match="no account of Azure is named: write abfss://"):
        place_of("az://lake/x").read()
