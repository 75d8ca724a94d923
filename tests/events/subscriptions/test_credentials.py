from typing import Any

import pytest

from signalbook.events.subscription import (
    SECRET_MEMBERS,
    Credential,
    Subscription,
    find_missing_secrets,
    read_credential,
)

TOKEN = {"accesstoken": "hush", "accesstokenexpiresutc": "2030-01-01T00:00:00Z", "accesstokentype": "bearer"}
REFRESH = {"refreshtoken": "hush", "refreshtokenendpoint": "https://t.example/"}


@pytest.mark.parametrize(
    ("document", "secrets"),
    [
        ({"credentialtype": "PLAIN", "identifier": "me", "secret": "hush"}, {"secret"}),
        ({"credentialtype": "ACCESSTOKEN", **TOKEN}, {"accesstoken"}),
        ({"credentialtype": "ACCESSTOKEN", "accesstoken": "hush"}, {"accesstoken"}),
        ({"credentialtype": "REFRESHTOKEN", **TOKEN, **REFRESH}, {"accesstoken", "refreshtoken"}),
        ({"credentialtype": "SIGNATURE", "signingsecret": "hush"}, {"signingsecret"}),
        (
            {"credentialtype": "PLAIN", "identifier": "me", "secret": "a", "signingsecret": "b"},
            {"secret", "signingsecret"},
        ),
    ],
)
def test_types(document: dict[str, str], secrets: set[str]) -> None:
    """Every type of credential has its secret members (D-31)."""
    credential, faults = read_credential(document)
    assert faults == []
    assert credential is not None
    assert set(credential.secrets) == secrets
    assert {"credentialtype": credential.credentialtype, **credential.members, **credential.secrets} == document
    assert not set(credential.members) & SECRET_MEMBERS


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (1, [""]),
        ({}, ["/credentialtype"]),
        ({"credentialtype": ["PLAIN"]}, ["/credentialtype"]),
        ({"credentialtype": "plain", "identifier": "me"}, ["/credentialtype"]),
        ({"credentialtype": "PLAIN", "secret": 1}, ["/secret", "/identifier"]),
        ({"credentialtype": "PLAIN", "identifier": "", "accesstoken": "hush"}, ["/identifier", "/accesstoken"]),
        ({"credentialtype": "ACCESSTOKEN", "accesstokenexpiresutc": "hush"}, ["/accesstokenexpiresutc"]),
        ({"credentialtype": "REFRESHTOKEN", "refreshtoken": "hush" * 3000}, ["/refreshtoken", "/refreshtokenendpoint"]),
    ],
)
def test_faults(document: Any, paths: list[str]) -> None:
    """The faults have paths, and do not contain the sent values (D-31)."""
    _, faults = read_credential(document)
    assert [fault.path.removeprefix("/sinkcredential") for fault in faults] == paths
    assert "hush" not in str(faults)


def test_missing_secrets_are_asked_for() -> None:
    credential = Credential(credentialtype="PLAIN", members={"identifier": "me"})
    incomplete = Subscription(id="", protocol="HTTP", sink="https://s.example/", credential=credential)
    assert [fault.path for fault in find_missing_secrets(incomplete)] == ["/sinkcredential/secret"]
    assert list(find_missing_secrets(Subscription(id="", protocol="HTTP", sink="x"))) == []
