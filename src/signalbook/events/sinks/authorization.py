"""What a web hook is shown of a subscription's credential (D-31, D-35): a token, or a name and a password."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode, urlsplit

from signalbook import values
from signalbook.events.sinks.base import DeliveryError, Policy
from signalbook.events.sinks.line import Line, Reply, target_of
from signalbook.events.subscriptions.subscription import Credential
from signalbook.values import JSONError, parse_json, parse_timestamp

PLAIN: Final = "PLAIN"
ACCESSTOKEN: Final = "ACCESSTOKEN"
REFRESHTOKEN: Final = "REFRESHTOKEN"
_EARLY: Final = timedelta(seconds=30)
_LONGEST: Final = 10**9


class Authorization:
    """What to show with each request. For one thread."""

    def __init__(self, credential: Credential | None, policy: Policy) -> None:
        self._kind = credential.credentialtype if credential else ""
        self._members = {**credential.members, **credential.secrets} if credential else {}
        self._policy = policy
        self._token = self._members.get("accesstoken", "")
        self._expires = _instant(self._members.get("accesstokenexpiresutc", ""))

    def header(self) -> dict[str, str]:
        """The header ``Authorization``, if there is a credential. Raises ``DeliveryError``."""
        if self._kind == PLAIN:
            pair = f"{self._members.get('identifier', '')}:{self._members.get('secret', '')}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode('utf-8')).decode('ascii')}"}
        token = self.token()
        return {"Authorization": f"{self._members.get('accesstokentype') or 'Bearer'} {token}"} if token else {}

    def token(self) -> str:
        """The access token, made anew if it is over and can be; empty without one. Raises ``DeliveryError``."""
        over = self._expires is not None and self._expires - _EARLY < values.now()
        if self._kind == REFRESHTOKEN and (over or not self._token):
            self._refresh()
        elif self._kind == ACCESSTOKEN and self._expires is not None and self._expires < values.now():
            raise DeliveryError("the subscription's access token is over (accesstokenexpiresutc): update it")
        return self._token

    def refused(self) -> None:
        """The sink did not like the token (401): the next one will be another, if it can be."""
        if self._kind == REFRESHTOKEN:
            self._token = ""

    def _refresh(self) -> None:
        """Get a token for the refresh token (RFC6749 6); a new refresh token replaces the one there was."""
        endpoint = self._members.get("refreshtokenendpoint", "")
        sent = {"grant_type": "refresh_token", "refresh_token": self._members.get("refreshtoken", "")}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        line = Line(endpoint, self._policy)
        try:
            reply = line.exchange("POST", target_of(endpoint), headers, urlencode(sent).encode("ascii"))
        except DeliveryError as error:
            raise DeliveryError(f"no access token from {urlsplit(endpoint).hostname}: {error}") from None
        finally:
            line.close()
        self._take(reply, str(urlsplit(endpoint).hostname))

    def _take(self, reply: Reply, host: str) -> None:
        told = _object(reply)
        token, seconds = told.get("access_token"), told.get("expires_in")
        if reply.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise DeliveryError(f"no access token from {host}: it answered {reply.status}")
        self._token = token
        self._expires = None
        if isinstance(seconds, (int, float)) and 0 < seconds < _LONGEST:
            self._expires = values.now() + timedelta(seconds=seconds)
        if isinstance(again := told.get("refresh_token"), str):
            self._members["refreshtoken"] = again


def _object(reply: Reply) -> values.JSONObject:
    try:
        found = parse_json(reply.body)
    except JSONError:
        return {}
    return found if isinstance(found, dict) else {}


def _instant(text: str) -> datetime | None:
    return parse_timestamp(text) if text else None
