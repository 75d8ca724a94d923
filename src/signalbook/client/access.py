"""The access policy of a server, and who one is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signalbook.client.responses import json_object
from signalbook.client.transport import Transport
from signalbook.values import JSON, JSONObject

_PATH: Final = "/access"


class Access:
    """``Client.access``. Raises as ``Client`` does; all but ``whoami`` is for administrators."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def policy(self) -> JSONObject:
        """The policy. Raises ``NotFound`` if there is none, or the server knows no access."""
        return json_object(self._transport.send("GET", _PATH))

    def put(self, policy: JSON, *, new: bool = False) -> JSONObject:
        """Put a policy in force, with ``new`` only if there is none. What is wrong with it is in ``Refused.faults``."""
        headers = {"If-None-Match": "*"} if new else {}
        return json_object(self._transport.send("PUT", _PATH, json=policy, headers=headers))

    def explain(self, who: Sequence[str], what: str, xid: str) -> JSONObject:
        """Whether somebody whom rules call ``who`` may do ``what`` on ``xid``, and the rules that say so."""
        query = {"who": ",".join(who), "what": what, "xid": xid}
        return json_object(self._transport.send("GET", f"{_PATH}/explain", query=query))

    def whoami(self, xid: str = "/") -> JSONObject:
        """Who this client is to the server, and what it may do on ``xid``, and somewhere."""
        return json_object(self._transport.send("GET", f"{_PATH}/self", query={"xid": xid}))
