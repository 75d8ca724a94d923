"""Client methods for a server's access policy, its audit, and the identity that the client has there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict, Unpack

from signalbook.client.responses import parse_object, parse_objects
from signalbook.client.transport import Transport
from signalbook.values import JSON, JSONObject

_PATH: Final = "/access"
_AUDIT: Final = "/audit"
_SENT: Final = {"since": "from", "until": "to"}


class AuditFilters(TypedDict, total=False):
    """Filters for audit entries: the exact ``who`` and ``action``, and a prefix of an ``xid``.

    ``outcome`` is ``done`` or ``refused``; ``since`` and ``until`` (exclusive) are RFC3339 timestamps. ``after`` is the
    number of an entry: only later entries are returned. ``limit`` is the number of entries per page.
    """

    who: str
    action: str
    outcome: str
    xid: str
    since: str
    until: str
    after: int
    limit: int


class Access:
    """The access API of a server, available as ``Client.access``.

    Methods raise the same errors as those of ``Client``. All methods except ``whoami`` need an administrator.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def policy(self) -> JSONObject:
        """Return the policy. Raises ``NotFound`` if the server has no policy, or no access API."""
        return parse_object(self._transport.send("GET", _PATH))

    def put(self, policy: JSON, *, new: bool = False) -> JSONObject:
        """Put a policy in force and return it, with ``warnings`` if parts of the policy look wrong.

        With ``new``, the server refuses the policy if it already has one.

        Raises ``Refused`` for an invalid policy, with the findings in ``faults``.
        """
        headers = {"If-None-Match": "*"} if new else {}
        return parse_object(self._transport.send("PUT", _PATH, json=policy, headers=headers))

    def explain(self, who: Sequence[str], what: str, xid: str) -> JSONObject:
        """Return whether the principals ``who`` may do the action ``what`` on ``xid``, and the rules that decide it."""
        query = {"who": ",".join(who), "what": what, "xid": xid}
        return parse_object(self._transport.send("GET", f"{_PATH}/explain", query=query))

    def end_sessions(self, subject: str) -> int:
        """End all explorer sessions of ``subject`` on all servers, and return the number of sessions ended."""
        answer = parse_object(self._transport.send("DELETE", f"{_PATH}/sessions", query={"subject": subject}))
        return int(answer["ended"])

    def audit(self, **wanted: Unpack[AuditFilters]) -> Iterator[JSONObject]:
        """Yield the audit entries that match the filters, newest first. Pages are loaded as needed."""
        query = {_SENT.get(name, name): str(value) for name, value in wanted.items()}
        for response in self._transport.pages(_AUDIT, query=query):
            yield from parse_objects(response, "entries of an audit")

    def whoami(self, xid: str = "/") -> JSONObject:
        """Return the identity of this client at the server, and its rights on ``xid`` and elsewhere."""
        return parse_object(self._transport.send("GET", f"{_PATH}/self", query={"xid": xid}))
