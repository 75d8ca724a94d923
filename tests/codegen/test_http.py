"""Generated messages over HTTP, with httpx and a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from tests.codegen.conftest import DOCUMENT, GROUP
from tests.codegen.packages import generated, imported

from signalbook.codegen.http import TypedHttpClient, received, request_arguments
from signalbook.codegen.runtime import TypedMessage, UnexpectedMessage

ENDPOINT = {
    "protocol": "HTTP",
    "protocoloptions": {"method": "PUT", "endpoints": [{"uri": "https://shop.example/orders/{shop}"}]},
}


@contextmanager
def serving(table: Any) -> Iterator[str]:
    """A server that has handlers take what it gets."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                table.dispatch(received(self.command, self.path, self.headers.items(), body))
            except UnexpectedMessage:
                self.send_error(400)
            else:
                self.send_response(204)
                self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_is_sent_is_received_by_its_type(tmp_path: Path) -> None:
    generated(tmp_path, DOCUMENT)
    seen: list[TypedMessage[Any]] = []
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        from messages.definitions import handlers  # type: ignore[import-not-found] # made just now

        table = handlers("/messagegroups/shop.orders")
        table.on(placed.MESSAGE)(seen.append)
        order = placed._types.OrderPlaced(kind="again", total=2.5)
        with serving(table) as url, httpx.Client(base_url=url) as client:
            response = TypedHttpClient(client, ENDPOINT).send(placed.build(order, shop="7"))
            assert response.status_code == 204
            with pytest.raises(httpx.HTTPStatusError, match="400"):
                client.put("/orders/7", content=b"who knows").raise_for_status()
    assert [(each.payload, each.context["shop"]) for each in seen] == [(order, "7")]
    assert seen[0].message.sections["path"] == "/orders/7"


def test_arguments_for_other_clients(tmp_path: Path) -> None:
    generated(tmp_path, DOCUMENT)
    with imported(tmp_path) as modules:
        placed = modules[GROUP + "order.placed"]
        outbound = placed.build(placed._types.OrderPlaced(kind="new", total=1), shop="7")
        endpoint = {"protocol": "HTTP", "protocoloptions": {"path": "/x", "query": [{"name": "q", "value": "a&b"}]}}
        request = httpx.Request(**request_arguments(outbound, endpoint) | {"url": "http://a.example/x"})
    assert (request.method, request.headers["ce-type"], str(request.url)) == (
        "POST",
        "placed",
        "http://a.example/x?q=a%26b",
    )
