"""Where the keys of stores come from."""

import os
from pathlib import Path

import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.settings import Storage, read_aws_profile

KEYS = {"access_key_id": "AK", "secret_access_key": "SK"}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of AWS's tools, and nothing in the environment."""
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = DK\naws_secret_access_key = DS\n"
        "[work]\naws_access_key_id = WK\naws_secret_access_key = WS\naws_session_token = WT\n"
    )
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile work]\nregion = eu-west-1\nendpoint_url = https://store.example\n"
        "[profile login]\nsso_session = corp\n"
    )
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def test_job_settings_have_precedence() -> None:
    storage = Storage.of({**KEYS, "virtual_hosted": "true", "anonymous": "false"})
    config, client = storage.build_obstore_options("s3")
    assert config["access_key_id"] == "AK"
    assert (config["virtual_hosted_style_request"], config["skip_signature"]) == ("true", "false")
    assert client is None


def test_settings_of_other_stores_are_left_out() -> None:
    storage = Storage.of({**KEYS, "service_account": "key.json", "account_name": "a", "sas_token": "t"})
    assert storage.find_settings("gs") == {"service_account": "key.json"}
    assert storage.find_settings("az") == {"account_name": "a", "sas_token": "t"}


def test_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    work = {
        "access_key_id": "WK",
        "secret_access_key": "WS",
        "session_token": "WT",
        "region": "eu-west-1",
        "endpoint": "https://store.example",
    }
    assert Storage().find_settings("s3") == {"access_key_id": "DK", "secret_access_key": "DS", "region": "eu-north-1"}
    assert Storage.of({"profile": "work"}).find_settings("s3") == work
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert Storage().find_settings("s3") == work
    monkeypatch.setenv("AWS_REGION", "us-west-2")  # which obstore reads
    assert "region" not in Storage().find_settings("s3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "EK")
    assert Storage().find_settings("s3") == {"endpoint": "https://store.example"}


def test_keys_of_others_with_the_region_of_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile says where the buckets are, whoever says who asks; whether it has keys is nobody's business then."""
    north = {"region": "eu-north-1"}
    assert Storage.of(KEYS).find_settings("s3") == KEYS | north
    assert Storage.of({"anonymous": "true"}).find_settings("s3") == {"anonymous": "true", **north}
    assert Storage.of({"anonymous": "false"}).find_settings("s3")["access_key_id"] == "DK"
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/lake")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "token")
    assert Storage().find_settings("s3") == north
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert Storage().find_settings("s3")["access_key_id"] == "WK"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "EK")
    for profile in ("login", "nobody"):
        monkeypatch.setenv("AWS_PROFILE", profile)
        assert Storage().find_settings("s3") == {}


def test_unusable_profiles_are_errors(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="have no profile 'nobody'"):
        read_aws_profile("nobody")
    with pytest.raises(PipelineError, match=r"'login' has sso_session.*aws configure export-credentials"):
        read_aws_profile("login")
    (tmp_path / "config").write_text("no section: SECRET\n")
    with pytest.raises(PipelineError, match="cannot read") as failure:
        read_aws_profile("work")
    assert "SECRET" not in str(failure.value)


def test_unknown_setting_is_rejected() -> None:
    with pytest.raises(PipelineError, match=r"storage has no setting 'secret'; there are: .*secret_access_key"):
        Storage.of({"secret": "4711"})


def test_http_has_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Storage.of({**KEYS, "endpoint": "http://store.example"})
    with pytest.raises(PipelineError, match=r"http://store\.example is not encrypted"):
        plain.build_obstore_options("s3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://other.example")
    with pytest.raises(PipelineError, match=r"http://other\.example is not encrypted"):
        Storage.of(KEYS).build_obstore_options("s3")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert Storage.of(KEYS).build_obstore_options("s3") == ({**KEYS, "region": "eu-north-1"}, None)
    assert plain.build_obstore_options("s3")[0]["endpoint"] == "http://store.example"
    allowed = Storage.of({**KEYS, "endpoint": "http://store.example", "allow_http": "true"})
    assert allowed.build_obstore_options("s3")[1] == {"allow_http": True}


@pytest.mark.parametrize(("kind", "variable"), [("az", "AZURE_STORAGE_ENDPOINT"), ("gs", "GOOGLE_BASE_URL")])
def test_http_has_to_be_allowed_in_other_stores(monkeypatch: pytest.MonkeyPatch, kind: str, variable: str) -> None:
    monkeypatch.setenv(variable, "http://store.example")
    allowing = "AZURE_ALLOW_HTTP" if kind == "az" else "GOOGLE_ALLOW_HTTP"
    public = Storage.of({"anonymous": "true", "account_name": "a"})
    with pytest.raises(PipelineError, match=f"http://store.example is not encrypted.*or {allowing} in the environment"):
        public.build_obstore_options(kind)
    config = {"skip_signature": "true", **({"account_name": "a"} if kind == "az" else {})}
    allowed = Storage.of({"anonymous": "true", "account_name": "a", "allow_http": "true"})
    assert allowed.build_obstore_options(kind) == (config, {"allow_http": True})
    monkeypatch.setenv(allowing, "true")
    assert public.build_obstore_options(kind) == (config, None)


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of the section and the environment are masked, including parts of connection strings."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=a;AccountKey=4711==;BlobEndpoint=https://x")
    monkeypatch.setenv("IDENTITY_HEADER", "4712")
    storage = Storage.of({"client_secret": "4713", "account_name": "a"})
    assert storage.mask("4711== 4712 4713 a") == "*** *** *** a"
