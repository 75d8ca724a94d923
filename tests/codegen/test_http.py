"""Generated messages over HTTP, with httpx and a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from tests.codegen.packages import ordering

from signalbook.codegen.http import TypedHttpClient, build_http_arguments, read_http_request
from signalbook.codegen.runtime import UnexpectedMessage

ENDPOINT = {
    "protocol": "HTTP",
    "protocoloptions": {"method": "PUT", "endpoints": [{"uri": "https://shop.example/orders/{shop}"}]},
}


@contextmanager
def serving(table: Any) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                table.dispatch(read_http_request(self.command, self.path, self.headers.items(), body))
            except UnexpectedMessage:
                self.send_error(400)
            else:
                self.send_response(204)
                self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_sent_messages_are_received_by_type(tmp_path: Path) -> None:
    with ordering(tmp_path) as orders, serving(orders.handlers) as url, httpx.Client(base_url=url) as client:
        response = TypedHttpClient(client, ENDPOINT).send(orders.placed.build(orders.order, shop="7"))
        assert response.status_code == 204
        with pytest.raises(httpx.HTTPStatusError, match="400"):
            client.put("/orders/7", content=b"who knows").raise_for_status()
    orders.check("path", "/orders/7")


def test_arguments_for_other_clients(tmp_path: Path) -> None:
    with ordering(tmp_path) as orders:
        outbound = orders.placed.build(orders.order, shop="7")
        endpoint = {"protocol": "HTTP", "protocoloptions": {"path": "/x", "query": [{"name": "q", "value": "a&b"}]}}
        request = httpx.Request(**build_http_arguments(outbound, endpoint) | {"url": "http://a.example/x"})
    expected = ("POST", "placed", "http://a.example/x?q=a%26b")
    assert (request.method, request.headers["ce-type"], str(request.url)) == expected
