"""Keys that a machine, a container or a web identity is given, for a store that checks them and for Delta's library."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.brokers.certificates import Certificates
from tests.brokers.keys import KeyServer
from tests.brokers.program import Broker
from tests.brokers.servers import BUCKET, PASSWORD
from tests.pipeline.identities import set_all
from tests.pipeline.s3 import storage_of
from tests.serving import serving_answers

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, Storage, place_of, roles, stores
from signalbook.pipeline.tables.delta import build_delta_options

WAYS = ("instance", "token", "token file", "no token", "web identity")


def role(way: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    """The variables that a machine with an instance role has, or a container or pod with one of its own."""
    if way == "instance":
        port = request.getfixturevalue("metadata").ports["plain"]
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{port}/"}
    server: KeyServer = request.getfixturevalue("key_server")
    file = folder / "proof"
    file.write_text(server.proof)
    if way == "web identity":
        certificates: Certificates = request.getfixturevalue("certificates")
        trusted = {"SSL_CERT_FILE": str(certificates.authority)}
        return {**server.sts, **trusted, "AWS_WEB_IDENTITY_TOKEN_FILE": str(file)}
    if way == "no token":
        server.proof = ""
        return server.container
    if way == "token":
        return {**server.container, "AWS_CONTAINER_AUTHORIZATION_TOKEN": server.proof}
    return {**server.container, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(file)}


@pytest.fixture
def environ(s3proxy: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment that says where the store is, and has no keys for it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    variables = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3proxy.ports['plain']}", "AWS_ALLOW_HTTP": "true"}
    nothing = {"AWS_CONFIG_FILE": str(tmp_path / "none"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    set_all(monkeypatch, {**variables, **nothing, "AWS_REGION": "us-east-1"})
    monkeypatch.setattr(stores, "_RETRIES", {"max_retries": 1})
    stores.connect.cache_clear()
    yield monkeypatch
    stores.connect.cache_clear()


@pytest.fixture
def there(environ: pytest.MonkeyPatch) -> Place:
    """A place whose keys are to be found."""
    return place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}")


@pytest.fixture
def take_role(tmp_path: Path, environ: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that gives this process the variables of a role."""
    return lambda way: set_all(environ, role(way, request, tmp_path))


@pytest.mark.parametrize("way", WAYS)
def test_roles(way: str, there: Place, take_role: Callable[[str], None]) -> None:
    """The variables are those of AWS's SDKs."""
    take_role(way)
    (there / "f").write(b"x")
    assert (there / "f").read() == b"x"
    write_deltalake(str(there / "t"), pa.table({"n": [1, 2]}), storage_options=build_delta_options(there))
    assert DeltaTable(str(there / "t"), storage_options=build_delta_options(there)).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("way", ["token", "token file", "web identity"])
def test_keys_are_renewed(way: str, there: Place, take_role: Callable[[str], None], key_server: KeyServer) -> None:
    """Before they end: those that end in a minute are asked for again with the next request, by the same client."""
    key_server.secret, key_server.lasting = "another-0000", timedelta(minutes=1)
    take_role(way)
    with pytest.raises(OSError, match=r"the store answers 403 Forbidden \(SignatureDoesNotMatch\)"):
        there.write(b"x")
    key_server.secret, key_server.lasting = PASSWORD, timedelta(hours=1)
    time.sleep(0.2)  # so long it is not asked again
    before = key_server.asked
    for _ in range(3):
        there.write(b"x")
    assert key_server.asked == before + 1


def test_a_web_identity_is_shown_by_tls_alone(
    there: Place, environ: pytest.MonkeyPatch, take_role: Callable[[str], None], key_server: KeyServer
) -> None:
    take_role("web identity")
    environ.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{key_server.port}")
    with pytest.raises(OSError, match="the service that gives credentials for a web identity has a URL that is not ht"):
        there.read()
    assert key_server.asked == 0


def test_a_container_is_asked_again(there: Place, environ: pytest.MonkeyPatch, key_server: KeyServer) -> None:
    set_all(environ, {**key_server.container, "AWS_CONTAINER_AUTHORIZATION_TOKEN": key_server.proof})
    key_server.failing = 2
    there.write(b"x")
    assert key_server.asked == 3


@pytest.mark.parametrize("way", ["token", "token file", "web identity"])
def test_refusing_server_is_named(
    way: str, there: Place, take_role: Callable[[str], None], key_server: KeyServer
) -> None:
    """The error does not blame the store, and does not show what was sent."""
    take_role(way)
    secret, key_server.proof = key_server.proof, "another"
    words = {
        "token": "AWS_CONTAINER_CREDENTIALS_FULL_URI answers 401 Unauthorized",
        "token file": "AWS_CONTAINER_CREDENTIALS_FULL_URI answers 401 Unauthorized",
        "web identity": r"the service that gives credentials for a web identity answers 403 .*\(InvalidIdentityToken\)",
    }
    with pytest.raises(OSError, match=words[way]) as failure:
        there.read()
    assert secret not in str(failure.value)
    assert "\n" not in str(failure.value)


def test_missing_credentials_are_reported(there: Place, environ: pytest.MonkeyPatch) -> None:
    """The error says that there are no keys instead of reporting that the store is unavailable."""
    environ.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
    environ.setattr(roles, "_NEAR_PAUSES", (0.0, 0.1))
    for ask in (there.read, lambda: build_delta_options(there)):
        with pytest.raises(PipelineError, match=r"no credentials for S3: .* no metadata service at 127"):
            ask()
    environ.setenv("AWS_EC2_METADATA_DISABLED", "true")
    stores.connect.cache_clear()
    with pytest.raises(PipelineError, match="there are no credentials for S3: set AWS_ACCESS_KEY_ID"):
        there.read()
    assert place_of(str(there), Storage.of({"anonymous": "true"})).storage.build_obstore_options("s3")
    with environ.context() as public:
        public.setenv("AWS_SKIP_SIGNATURE", "true")
        assert there.storage.build_obstore_options("s3")
    environ.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost:1/keys")
    with pytest.raises(OSError, match="AWS_CONTAINER_CREDENTIALS_FULL_URI does not answer"):
        there.read()


@pytest.mark.parametrize("url", ["http://keys.example/x", "http://169.254.169.254/x", "ftp://127.0.0.1/x", "/x"])
def test_untrusted_credential_server_is_not_called(there: Place, environ: pytest.MonkeyPatch, url: str) -> None:
    """A token is sent without TLS only to known addresses, as in AWS's SDKs."""
    set_all(environ, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "t"})
    with pytest.raises(PipelineError, match="neither https nor of this machine"):
        there.read()


def test_invalid_credential_response_is_an_error(
    there: Place, environ: pytest.MonkeyPatch, key_server: KeyServer
) -> None:
    """Whatever they hold instead of keys is not shown; and where else there may be some is not asked."""
    key_server.proof = ""
    bodies = [b"", b"[]", b'{"AccessKeyId": "AK-4711"}', b'{"Code": "x"', b"\xff4711"]
    remaining = iter(bodies)
    elsewhere = {"location": next(iter(key_server.container.values()))}

    def answer(*_: object) -> tuple[int, dict[str, str], bytes]:
        body = next(remaining, None)
        return (302, elsewhere, b"") if body is None else (200, {}, body)

    with serving_answers(answer) as url:
        environ.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        for _ in bodies:
            with pytest.raises(OSError, match="returned no valid credentials") as failure:
                there.read()
            assert "4711" not in str(failure.value)
        with pytest.raises(OSError, match="AWS_CONTAINER_CREDENTIALS_FULL_URI answers 302"):
            there.read()


def test_job_overrides_the_environment(s3proxy: Broker, environ: pytest.MonkeyPatch) -> None:
    """The endpoint of the job overrides all variables too."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        environ.setenv(name, "http://127.0.0.1:1")
    set_all(environ, {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "eu-north-1"})
    there = place_of(f"s3://{BUCKET}/{secrets.token_hex(4)}", storage_of(s3proxy.ports["plain"]))
    (there / "f").write(b"x")
    write_deltalake(str(there / "t"), pa.table({"n": [1, 2]}), storage_options=build_delta_options(there))
    assert len(list(there.list_files(deep=True))) == 3


def test_delta_asks_nobody_else(environ: pytest.MonkeyPatch) -> None:
    """Delta's library does not look for keys and a region itself if an endpoint is set."""
    keys = {"access_key_id": "AK", "secret_access_key": "SK"}

    def endpoint(**settings: str) -> str | None:
        options = build_delta_options(place_of("s3://lake/x", Storage.of({**keys, **settings})))
        assert options is not None
        return options.get("aws_endpoint")

    assert endpoint(endpoint="https://store.example") == "https://store.example"
    assert endpoint() == os.environ["AWS_ENDPOINT_URL"]
    environ.delenv("AWS_ENDPOINT_URL")
    assert endpoint() == "https://s3.us-east-1.amazonaws.com"
    assert endpoint(region="eu-west-1") == "https://s3.eu-west-1.amazonaws.com"
    assert endpoint(virtual_hosted="true") == "https://lake.s3.us-east-1.amazonaws.com"
    environ.setenv("AWS_S3_EXPRESS", "true")  # which have endpoints of their own
    assert endpoint() is None
