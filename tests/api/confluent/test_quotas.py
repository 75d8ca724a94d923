"""What a group may have by the Confluent-compatible API: softly deleted versions and settings count, too."""

from typing import Any

from tests.api.confluent.conftest import Api, record
from tests.api.conftest import Serve

from signalbook.storage.store import Store


def register(api: Api, number: int, size: int = 0, subject: str = ":.a:s") -> Any:
    schema = record(f"R{number}", a={"doc": "x" * size})
    return api.send("POST", f"/subjects/{subject}/versions", {"schema": schema})


def quota_of(answer: Any) -> str:
    """Return the setting that a refusal names."""
    assert (answer.status_code, answer.json()["error_code"]) == (422, 422), answer.text
    return str(answer.json()["message"].partition("(setting ")[2].partition(")")[0])


def test_softly_deleted_versions_count_against_the_quota(store: Store, serve: Serve) -> None:
    api = Api(serve(store, model="default", max_group_versions=2))
    api.ask("PUT", "/config", {"compatibility": "NONE"})
    for number in range(2):
        assert register(api, number).is_success
        api.ask("DELETE", "/subjects/:.a:s/versions/latest")
    assert quota_of(register(api, 3)) == "max_group_versions"
    # Not in a group that is made anew, either; other groups have a quota of their own.
    assert api.client.send("DELETE", "/schemagroups/a").is_success
    assert quota_of(register(api, 3)) == "max_group_versions"
    assert register(api, 3, subject=":.b:s").is_success
    api.ask("DELETE", "/subjects/:.a:s/versions/1?permanent=true")
    assert register(api, 3).is_success


def test_bytes_of_softly_deleted_versions_and_of_settings_count(store: Store, serve: Serve) -> None:
    api = Api(serve(store, model="default", max_group_bytes=2000))
    api.ask("PUT", "/config", {"compatibility": "NONE"})
    assert register(api, 1, 1500).is_success
    api.ask("DELETE", "/subjects/:.a:s")
    assert quota_of(register(api, 2, 1500)) == "max_group_bytes"
    properties = {"defaultMetadata": {"properties": {"k": "v" * 1000}}}
    assert quota_of(api.send("PUT", "/config/:.a:s", properties)) == "max_group_bytes"
    assert api.code("GET", "/config/:.a:s") == 40408
    api.ask("DELETE", "/subjects/:.a:s?permanent=true")
    api.ask("PUT", "/config/:.a:s", properties)
    assert quota_of(register(api, 2, 1500)) == "max_group_bytes"
    api.ask("DELETE", "/config/:.a:s")
    assert register(api, 2, 1500).is_success


def test_settings_count_as_resources_even_without_their_group(store: Store, serve: Serve) -> None:
    api = Api(serve(store, model="default", max_group_resources=3))
    api.ask("PUT", "/config/:.a:", {"compatibility": "NONE"})
    api.ask("PUT", "/mode/:.a:x", {"mode": "READWRITE"})
    assert api.get("/mode/:.A:x") == {"mode": "READWRITE"}
    assert register(api, 1).is_success
    assert quota_of(api.send("PUT", "/config/:.A:y", {"compatibility": "NONE"})) == "max_group_resources"
    for kind, body in (("config", {"compatibility": "NONE"}), ("mode", {"mode": "READONLY"})):
        assert quota_of(api.send("PUT", f"/{kind}/:.a:y", body)) == "max_group_resources"
    assert quota_of(register(api, 1, subject=":.a:other")) == "max_group_resources"
    # What is there may change; the registry and other groups have nothing to do with it.
    api.ask("PUT", "/config/:.a:", {"compatibility": "FULL"})
    for place in ("", "/s", "/:.b:s", "/:.a=b:s"):
        api.ask("PUT", f"/config{place}", {"compatibility": "NONE"})
    api.ask("DELETE", "/mode/:.a:x")
    api.ask("PUT", "/config/:.a:y", {"compatibility": "NONE"})


def test_associations_count_as_resources(store: Store, serve: Serve) -> None:
    for subject in ("s", ":.a:s"):
        api = Api(serve(store, model="default", max_group_resources=2))
        assert register(api, 1, subject=subject).is_success
        answers = [
            api.send(
                "POST",
                "/associations",
                {
                    "resourceName": "t",
                    "resourceNamespace": "k",
                    "resourceId": f"{subject}{number}",
                    "associations": [{"associationType": "value", "subject": subject}],
                },
            )
            for number in range(2)
        ]
        assert answers[0].is_success
        assert quota_of(answers[1]) == "max_group_resources"
        assert api.get(f"/associations/resources/{subject}1") == []


def test_a_config_is_no_larger_than_an_entity(store: Store, serve: Serve) -> None:
    api = Api(serve(store, model="default", max_entity_bytes=2000))
    much = {"defaultMetadata": {"properties": {f"k{number}": "v" * 100 for number in range(20)}}}
    for place in ("", "/s", "/:.a:"):
        assert quota_of(api.send("PUT", f"/config{place}", much)) == "max_entity_bytes"
    few = {"defaultMetadata": {"properties": {"k": "v" * 1500}}}
    api.ask("PUT", "/config/s", few)
    # Little by little, too.
    assert quota_of(api.send("PUT", "/config/s", {"overrideMetadata": few["defaultMetadata"]})) == "max_entity_bytes"
