"""``/metrics``: what happened, and how the registry is."""

import json
from pathlib import Path

from tests.api.test_app import Failing
from tests.test_metrics import samples

from signalbook import __version__
from signalbook.storage import open_store
from signalbook.storage.base import StorageError
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import RETRYING, DeliveryState

from .conftest import Client, Serve


def asked(client: Client) -> dict[tuple[str, tuple[str, ...]], float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["Cache-Control"] == "no-store"
    return samples(answer.content)


def test_requests_are_counted(client: Client) -> None:
    before = asked(client)
    assert client.put("/dirs/d", {}).status_code == 201
    assert [client.get("/dirs/d").status_code for _ in range(3)] == [200] * 3
    assert client.get("/dirs/none").status_code == 404
    after = asked(client)

    def grown(name: str, *labels: str) -> float:
        return after[f"signalbook_{name}", labels] - before.get((f"signalbook_{name}", labels), 0)

    requests = "http_request_duration_seconds_count"
    assert grown(requests, "xregistry", "PUT", "2xx") == 1
    assert grown(requests, "xregistry", "GET", "2xx") == 3
    assert grown(requests, "xregistry", "GET", "4xx") == 1
    assert (grown("cache_requests_total", "hit"), grown("cache_requests_total", "miss")) == (2, 2)
    assert grown("commit_duration_seconds_count") == grown("write_batch_size_count") == 1
    assert grown("write_wait_seconds_count") == 1
    assert grown("outbox_position") > 0
    assert after["signalbook_build_info", (__version__,)] == after["signalbook_database_up", ()] == 1
    assert after["signalbook_write_queue_length", ()] == 0


def test_metrics_count_deliveries_and_their_lag(client: Client, store: Store) -> None:
    assert asked(client)["signalbook_subscriptions", ("retrying",)] == 0
    with store.write() as writing:
        for name, behind in (("a", 1), ("b", 0)):
            state = DeliveryState(position=writing.outbox.position() - behind, state=RETRYING)
            writing.subscriptions.put_delivery(name, state)
        writing.subscriptions.put_delivery("c", DeliveryState(position=0))
    metrics = asked(client)
    assert metrics["signalbook_subscriptions", ("retrying",)] == 2
    assert metrics["signalbook_subscriptions", ("active",)] == 1
    assert metrics["signalbook_delivery_lag_changes", ("retrying",)] == 1
    assert ("signalbook_delivery_lag_changes", ("active",)) not in metrics


def test_metrics_report_an_unavailable_database(serve: Serve) -> None:
    store = Failing(open_store("sqlite://"), StorageError("no connection"))
    client = serve(store, access="open")
    store.fail()
    assert asked(client)["signalbook_database_up", ()] == 0
    store.close()


def test_metrics_require_the_right_to_read(serve: Serve, store: Store, tmp_path: Path) -> None:
    policy = tmp_path / "access.json"
    for on, status in (("/metrics", 200), ("/dirs", 401)):
        admin = {"who": ["subject:root"], "role": "administrator"}
        rules = [admin, {"who": ["anyone"], "allow": ["read"], "on": [on]}]
        policy.write_text(json.dumps({"rules": rules}))
        assert serve(store, access_file=str(policy)).get("/metrics").status_code == status
