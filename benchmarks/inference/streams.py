"""Real streams: GitHub's deliveries, the records of public data sets, and what a registry itself tells of its changes.

The npm packages ``@octokit/webhooks-examples`` (MIT) and ``vega-datasets`` (BSD-3-Clause, sources in its own notes) are
fetched with npm; nothing of them is kept.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.registry.serving import registry

from signalbook.client import Client
from signalbook.demo import github
from signalbook.messages import Message
from signalbook.values import dump_json

# where the demonstration keeps them, too
PACKAGES = Path(__file__).parents[2] / "var" / "demo" / "packages"
FORMAT = "JsonSchema/draft-07"
DATA = "3.2.1"
SETS = (
    "cars", "countries", "earthquakes", "flights-10k", "football", "gapminder", "jobs", "movies", "penguins",
    "platformer-terrain", "political-contributions", "unemployment-across-industries",
)  # fmt: skip


def streams() -> Iterator[tuple[str, list[Message]]]:
    """Every stream that can be had here, with its name."""
    webhooks = github.fetch(PACKAGES)
    if webhooks is not None:
        requests = [request(payload) for payload in webhooks.payloads]
        yield "GitHub, distinct payloads, by event", requests
        yield (
            "GitHub, distinct payloads, by event and action",
            [
                event(number, github.cloudevent_type(payload.definition), payload.body)
                for number, payload in enumerate(webhooks.payloads)
            ],
        )
        yield "GitHub, 4,000 deliveries of them", Random(1).choices(requests, k=4_000)
    for name, records in data_sets():
        yield name, [event(number, name, record) for number, record in enumerate(records)]
    yield "changes of a registry", changes()


def request(payload: github.WebhookPayload) -> Message:
    """A delivery as GitHub sends it."""
    headers = (("X-GitHub-Event", payload.event), ("Content-Type", "application/json"))
    sections = {"method": "POST", "path": "/webhooks", "headers": headers}
    return Message(protocol="HTTP", content_type="application/json", body=dump_json(payload.body), sections=sections)


def event(number: int, kind: str, data: Any) -> Message:
    """A CloudEvent around a record."""
    body = {"specversion": "1.0", "id": str(number), "type": kind, "source": "/records", "data": data}
    return structured(body)


def structured(body: dict[str, Any]) -> Message:
    """A CloudEvent in structured mode."""
    return Message(content_type="application/cloudevents+json", body=dump_json(body))


def data_sets() -> Iterator[tuple[str, Iterable[Any]]]:
    """Records of the data sets, each set as the events of one type; nothing where npm cannot fetch them."""
    archive = PACKAGES / f"vega-datasets-{DATA}.tgz"
    if not archive.is_file():
        command = ["npm", "pack", "--silent", f"vega-datasets@{DATA}"]
        try:
            subprocess.run(command, cwd=PACKAGES, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"vega-datasets cannot be fetched: {error}")
            return
    with tarfile.open(archive) as tar:
        for name in SETS:
            file = tar.extractfile(f"package/data/{name}.json")
            assert file is not None
            found = json.load(file)
            yield name, found["features"] if isinstance(found, dict) else found


def changes() -> list[Message]:
    """The events of a registry in which schemas and messages were made, changed and deleted."""
    random = Random(1)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(registry(f"sqlite:///{folder}/registry.db"))
        client = stack.enter_context(Client(server.url, timeout=600))
        for turn in range(150):
            group = f"/schemagroups/g{turn % 7}"
            client.patch(group, {"schemas": {f"s{turn}": {"versions": {"1": {"format": FORMAT, "schema": {}}}}}})
            client.patch(
                f"{group}/schemas/s{turn}", {"versions": {"2": {"format": FORMAT, "schema": {}, "ancestorid": "1"}}}
            )
            client.patch(f"/messagegroups/m{turn % 5}", {"messages": {f"e{turn}": {"description": "new"}}})
            client.patch(f"/messagegroups/m{turn % 5}", {"messages": {f"e{turn}": {"name": f"{random.random()}"}}})
            if random.random() < 0.5:
                client.delete_members(f"{group}/schemas", [f"s{turn}"])
        return [structured(dict(each)) for each in feed(client)]


def feed(client: Client) -> Iterator[dict[str, Any]]:
    """All that a registry tells of its changes."""
    found = client.events()
    while True:
        yield from found.events
        if not found.more:
            return
        found = client.events(found.position)
