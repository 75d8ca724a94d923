"""Places that tests write to: folders here and in HDFS, new prefixes on S3 servers and by Google's and Azure's API."""

import secrets
from pathlib import Path

import pytest
from tests.brokers.google import Google
from tests.brokers.servers import ACCOUNT, ACCOUNT_KEY, AZURITE, BUCKET, PASSWORD, USER

from signalbook.pipeline.places import Place, Storage, place_of

S3 = ("s3proxy", "s3mock")
# Azurite is large: make clouds installs it.
SERVERS = (*S3, "google", "hdfs", *(["azurite"] if AZURITE.exists() else []))
KINDS = ("local", *SERVERS)


def storage_of(port: int, **more: str) -> Storage:
    """The settings for a server of this machine."""
    keys = {"access_key_id": USER, "secret_access_key": PASSWORD, "region": "us-east-1"}
    return Storage.of({"endpoint": f"http://127.0.0.1:{port}", "allow_http": "true", **keys, **more})


def place(kind: str, folder: Path, request: pytest.FixtureRequest) -> Place:
    if kind == "local":
        return place_of(folder)
    server, prefix = request.getfixturevalue(kind), secrets.token_hex(4)
    if isinstance(server, Google):
        account = {"service_account_key": server.account, "allow_http": "true"}
        return place_of(f"gs://{BUCKET}/{prefix}", Storage.of(account))
    port = server.ports["plain"]
    if kind == "hdfs":
        return place_of(f"hdfs://127.0.0.1:{port}/{prefix}")
    if kind == "azurite":
        endpoint = {"endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}", "allow_http": "true"}
        storage = Storage.of({**endpoint, "account_key": ACCOUNT_KEY})
        return place_of(f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net/{prefix}", storage)
    return place_of(f"s3://{BUCKET}/{prefix}", storage_of(port))


def s3_properties(storage: Storage) -> dict[str, str]:
    """The same in pyiceberg's words."""
    names = {"endpoint": "endpoint", "access_key_id": "access-key-id", "region": "region"}
    names["secret_access_key"] = "secret-access-key"
    return {f"s3.{names[name]}": value for name, value in storage.options if name in names}
