"""A web hook in one page: agrees to deliveries, and writes the events it gets into received.jsonl.

Run it with the port to listen at: python sink.py 9000
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RECEIVED = Path("received.jsonl")


class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_OPTIONS(self) -> None:
        """Whoever says who it is may deliver, as fast as it likes. A real sink looks at who it is."""
        origin = self.headers.get("WebHook-Request-Origin", "")
        self.answer(200, {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"})

    def do_POST(self) -> None:
        """Write the event down, and only then say that it has come."""
        event = self.rfile.read(int(self.headers["Content-Length"]))
        with RECEIVED.open("ab") as file:
            file.write(event + b"\n")
        self.answer(204)

    def answer(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hook).serve_forever()
