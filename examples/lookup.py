"""What may a message hold? Asks a registry for a definition and the schema of its payload.

python examples/lookup.py http://127.0.0.1:8080 /messagegroups/shop.orders/messages/shop.order.placed
"""

from __future__ import annotations

import sys

from signalbook import Client


def main(url: str, xid: str) -> None:
    """Print the definition's text and the schema document."""
    with Client(url) as registry:
        message = registry.get(xid)
        print(message["description"])  # noqa: T201
        print(registry.document(message["dataschemauri"]).content.decode())  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
