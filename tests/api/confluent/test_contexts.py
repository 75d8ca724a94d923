"""Names without a context: the subjects of the default context first, then their namesakes in others."""

import pytest
from tests.api.confluent.conftest import MOUNT, ONE, TWO, Api
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

from signalbook.storage.store import Store


@pytest.fixture
def shared(api: Api) -> Api:
    """``t`` in one context, ``both`` in the default one and in another."""
    api.register(":.c:t", TWO)
    api.register(":.c:both", ONE)
    api.register(":.c:both", TWO)
    api.register("both", ONE)
    api.register(":.d:gone", ONE)
    api.ask("DELETE", "/subjects/:.d:gone")
    return api


@pytest.mark.parametrize(
    ("path", "subject", "version"),
    [
        ("/subjects/t/versions/1", ":.c:t", 1),
        ("/subjects/t/versions/latest", ":.c:t", 1),
        ("/subjects/both/versions/1", "both", 1),
        ("/subjects/both/versions/latest", "both", 1),
        ("/subjects/both/versions/2", ":.c:both", 2),
        ("/subjects/:.:both/versions/2", ":.c:both", 2),
        ("/subjects/gone/versions/1?deleted=true", ":.d:gone", 1),
        ("/schemas/ids/1?subject=t", ":.c:t", 1),
        ("/schemas/ids/1?subject=both", "both", 1),
        ("/schemas/ids/1?subject=none", "both", 1),
        ("/schemas/ids/2?subject=both", ":.c:both", 1),
    ],
)
def test_a_name_is_found_in_other_contexts(shared: Api, path: str, subject: str, version: int) -> None:
    answer = shared.get(path)
    assert (answer["subject"], answer["version"]) == (subject, version)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/subjects/none/versions/1", 40401),
        ("GET", "/subjects/gone/versions/1", 40401),
        ("GET", "/subjects/both/versions/3", 40402),
        ("GET", "/subjects/t/versions/0", 42202),
        ("GET", "/subjects/:.d:t/versions/1", 40401),
        ("GET", "/contexts/.d/subjects/t/versions/1", 40401),
        ("GET", "/subjects/t/versions", 40401),
        ("GET", "/schemas/ids/2", 40403),
        ("GET", "/schemas/ids/2?subject=t", 40403),
        ("DELETE", "/subjects/t", 40401),
        ("DELETE", "/subjects/t/versions/1", 40401),
    ],
)
def test_a_name_is_not_found(shared: Api, method: str, path: str, code: int) -> None:
    """Only the reads above look elsewhere, and only for names without a context."""
    assert shared.code(method, path) == code


def test_a_path_with_the_default_context_lists_it_alone(shared: Api) -> None:
    assert shared.get("/contexts/:.:/subjects") == ["both"]
    assert [version["subject"] for version in shared.get("/contexts/:.:/schemas")] == ["both"]


def test_schemas_are_looked_up_in_other_contexts(shared: Api) -> None:
    assert shared.ask("POST", "/subjects/t", {"schema": TWO})["subject"] == ":.c:t"
    assert shared.ask("POST", "/subjects/both", {"schema": TWO})["subject"] == ":.c:both"
    assert shared.code("POST", "/subjects/t", {"schema": ONE}) == 40401
    assert shared.code("POST", "/subjects/gone", {"schema": ONE}) == 40401
    assert shared.ask("POST", "/subjects/gone?deleted=true", {"schema": ONE})["subject"] == ":.d:gone"
    assert shared.register("t", ONE)["version"] == 1
    assert shared.get("/subjects/t/versions/1")["subject"] == "t"


def test_tags_are_put_to_a_version_of_another_context(shared: Api) -> None:
    """The new version is of the subject as it is named."""
    reference = {"name": "R", "subject": "t", "version": 1}
    shared.register(":.c:u", '{"type":"array","items":"R"}', references=[reference])
    version = shared.ask("POST", "/subjects/u/versions/latest/tags", {"metadata": {"properties": {"a": "b"}}})
    assert version["metadata"] == {"properties": {"a": "b", "confluent:version": "1"}}
    assert version["references"] == [{**reference, "subject": ":.c:t"}]
    assert shared.get("/subjects/u/versions/1")["subject"] == "u"
    assert shared.get("/subjects/:.c:u/versions") == [1]
    assert shared.code("POST", "/subjects/:.d:t/versions/1/tags", {}) == 40401


def test_hidden_namesakes_are_not_found(store: Store, serve: Serve) -> None:
    client: Client = serve(store, model="default", **PROXIED)
    for context in (".a", ".b"):
        for name in ("t", "gone"):
            path = f"{MOUNT}/subjects/:{context}:{name}"
            assert client.send("POST", f"{path}/versions", json={"schema": ONE}, headers=ADMINISTRATOR).is_success
    assert client.send("DELETE", f"{MOUNT}/subjects/:.a:gone", headers=ADMINISTRATOR).is_success
    put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": ["/schemagroups/b/schemas/t"]})
    for who, name, status in (("ann", "t", 200), ("ann", "gone", 404), ("bob", "t", 404), ("bob", "gone", 404)):
        path, headers = f"{MOUNT}/subjects/{name}", {"X-User": who}
        looked_up = client.send("POST", f"{path}?deleted=true", json={"schema": ONE}, headers=headers)
        read = client.send("GET", f"{path}/versions/1?deleted=true", headers=headers)
        assert (looked_up.status_code, read.status_code) == (status, status), (who, name)
        assert status == 404 or looked_up.json()["subject"] == read.json()["subject"] == ":.b:t"
