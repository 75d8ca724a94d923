"""Who a source is, who lets itself be copied to, and what becomes of a source that lies about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signalbook.client import Client
from signalbook.client.remote import RemoteRegistry
from signalbook.replication.copying import Copy
from signalbook.replication.link import Scope
from signalbook.replication.opening import LinkError, copying, link, open_source, open_target
from signalbook.replication.report import CopyReport
from signalbook.replication.writing import Closed

from .servers import HTTP, PATIENCE, Cable, Server, copy, schemas

SCHEMA = {"schemagroups": {"g": {"schemas": schemas("s")}}}


def test_a_hub_may_refuse_copies(serve: Callable[..., Server], trio: list[Server]) -> None:
    """The refusal is a 403, reported once; the hub's own clients still can write (D-12)."""
    origin, *_ = trio
    origin.patch(SCHEMA)
    hub = serve(copies="refuse")
    with (
        open_source(origin.url, timeout=PATIENCE) as source,
        open_target(hub.url, timeout=PATIENCE, source=origin.url) as target,
    ):
        way = link(source, target, Scope(), reached=origin.url)
        with pytest.raises(Closed, match="403"):
            copying(source, target, way, CopyReport())().everything()
    assert hub.content()["schemagroups"] == {}
    hub.patch(SCHEMA)
    path = "/compat/schemaregistry/v0.2/schemagroups/g/schemas/t"
    sent: tuple[dict[str, Any], ...] = ({"params": {"authority": "urn:x"}}, {"headers": {"Schema-Authority": "urn:x"}})
    for more in sent:
        assert HTTP.post(hub.url + path, content=b"{}", **more).status_code == 403


def test_source_that_requires_credentials_is_an_error(serve: Callable[..., Server], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n- {who: ['subject:pat'], role: administrator}\n")
    closed = serve(access_file=str(policy))
    with pytest.raises(LinkError, match=r"does not let us in: (?s:.)*\$\{NAME\}@ before the host in its URL"):
        open_source(closed.url, timeout=PATIENCE).__enter__()


def test_source_is_known_by_the_url_of_its_connection(trio: list[Server], cable: Callable[[Server], Cable]) -> None:
    """Another one that it claims is believed only if the operator says so: copies of others are not its to delete."""
    origin, two, three = trio
    origin.patch(SCHEMA)
    copy(origin, three)
    liar = cable(origin)  # says that it is at the URL of ``origin``
    with Client(liar.url, timeout=PATIENCE) as source, Client(three.url, timeout=PATIENCE) as target:
        sides = RemoteRegistry(source), RemoteRegistry(target)
        way = link(*sides, Scope(), reached=liar.url)
        assert (way.source, set(way.bases.values())) == (
            liar.url,
            {f"{liar.url}/compat/schemaregistry/v0.2", f"{liar.url}/compat/messagecatalog/v0.1"},
        )
        assert link(*sides, Scope(), reached=liar.url, authorities=(origin.url,)).source == origin.url
        origin.send("DELETE", "/schemagroups/g")
        Copy(*sides, way, CopyReport()).everything()
    assert three.status("/schemagroups/g/schemas/s") == 200
    copy(origin, three)
    assert three.status("/schemagroups/g/schemas/s") == 404
    assert two.content()["schemagroups"] == {}


def test_registry_cannot_be_its_own_target(trio: list[Server]) -> None:
    with Client(trio[0].url) as client, pytest.raises(LinkError):
        link(RemoteRegistry(client), RemoteRegistry(client), Scope(), reached=trio[0].url)


@pytest.mark.parametrize("door", ["", "/compat/schemaregistry/v0.2", "/compat/messagecatalog/v0"])
def test_user_in_a_url_is_sent_to_the_source_only(trio: list[Server], door: str) -> None:
    """Copies name the registry that they came from, to everybody."""
    source_server, two, _ = trio
    with (
        open_source(source_server.url.replace("//", "//me:secret@") + door, timeout=PATIENCE) as source,
        open_target(two.url, timeout=PATIENCE) as target,
    ):
        way = link(source, target, Scope(), reached=source_server.url.replace("//", "//me:secret@") + door)
        assert way.source == source_server.url + door
        assert "secret" not in f"{way} {source.url} {source.bases()}"
