"""Who a source is, who lets itself be copied to, and what becomes of a source that lies about it."""

from __future__ import annotations

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

from .servers import HTTP, PATIENCE, Cable, Server, copy, version

SCHEMA = {"schemagroups": {"g": {"schemas": {"s": {"versions": {"1": version()}}}}}}


def test_a_hub_may_refuse_copies(serve: Callable[..., Server], trio: list[Server]) -> None:
    """D-12: 403, reported once; its own clients write as before."""
    one, *_ = trio
    one.patch(SCHEMA)
    hub = serve(copies="refuse")
    with (
        open_source(one.url, timeout=PATIENCE) as source,
        open_target(hub.url, timeout=PATIENCE, source=one.url) as target,
    ):
        way = link(source, target, Scope(), reached=one.url)
        with pytest.raises(Closed, match="403"):
            copying(source, target, way, CopyReport())().everything()
    assert hub.content()["schemagroups"] == {}
    hub.patch(SCHEMA)
    path = "/compat/schemaregistry/v0.2/schemagroups/g/schemas/t"
    sent: tuple[dict[str, Any], ...] = ({"params": {"authority": "urn:x"}}, {"headers": {"Schema-Authority": "urn:x"}})
    for more in sent:
        assert HTTP.post(hub.url + path, content=b"{}", **more).status_code == 403


def test_a_source_that_wants_credentials(serve: Callable[..., Server], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n- {who: ['subject:pat'], role: administrator}\n")
    closed = serve(access_file=str(policy))
    with pytest.raises(LinkError, match=r"does not let us in: (?s:.)*\$\{NAME\}@ before the host in its URL"):
        open_source(closed.url, timeout=PATIENCE).__enter__()


def test_a_source_is_known_by_the_url_it_was_reached_at(trio: list[Server], cable: Callable[[Server], Cable]) -> None:
    """Another one that it claims is believed only if the operator says so: copies of others are not its to delete."""
    one, two, three = trio
    one.patch(SCHEMA)
    copy(one, three)
    liar = cable(one)  # says that it is at the URL of ``one``
    with Client(liar.url, timeout=PATIENCE) as source, Client(three.url, timeout=PATIENCE) as target:
        sides = RemoteRegistry(source), RemoteRegistry(target)
        way = link(*sides, Scope(), reached=liar.url)
        assert (way.source, set(way.bases.values())) == (
            liar.url,
            {f"{liar.url}/compat/schemaregistry/v0.2", f"{liar.url}/compat/messagecatalog/v0.1"},
        )
        assert link(*sides, Scope(), reached=liar.url, authorities=(one.url,)).source == one.url
        one.send("DELETE", "/schemagroups/g")
        Copy(*sides, way, CopyReport()).everything()
    assert three.status("/schemagroups/g/schemas/s") == 200
    copy(one, three)
    assert three.status("/schemagroups/g/schemas/s") == 404
    assert two.content()["schemagroups"] == {}


def test_nothing_is_its_own_target(trio: list[Server]) -> None:
    with Client(trio[0].url) as client, pytest.raises(LinkError):
        link(RemoteRegistry(client), RemoteRegistry(client), Scope(), reached=trio[0].url)


@pytest.mark.parametrize("door", ["", "/compat/schemaregistry/v0.2", "/compat/messagecatalog/v0"])
def test_a_user_in_a_url_is_for_the_source_alone(trio: list[Server], door: str) -> None:
    """Copies name the registry that they came from, to everybody."""
    one, two, _ = trio
    with (
        open_source(one.url.replace("//", "//me:secret@") + door, timeout=PATIENCE) as source,
        open_target(two.url, timeout=PATIENCE) as target,
    ):
        way = link(source, target, Scope(), reached=one.url.replace("//", "//me:secret@") + door)
        assert way.source == one.url + door
        assert "secret" not in f"{way} {source.url} {source.bases()}"
