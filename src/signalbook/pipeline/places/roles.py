"""Keys of a role in AWS that its machine or container hands out, where obstore asks otherwise than AWS's SDKs do.

It knows the metadata service of machines, but not the variables that SDKs have for it, and tries for long where there
is none, as it does in other clouds: ``is_answering`` knows within seconds. It asks for containers only if their token
is in a file, whoever it is sent to: https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from signalbook.pipeline.errors import PipelineError

_FULL: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_RELATIVE: Final = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_AUTHORIZATION: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
_AUTHORIZATION_FILE: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
# Who may be asked without TLS: this machine, and what containers of ECS and pods of EKS have beside them.
_NEAR: Final = ("localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23")
# A machine's own service is near, if it is there, though not at once in a pod that is new; where it is not, packets to
# its address may get lost.
_NEAR_SECONDS: Final = 1.0
_NEAR_PAUSES: Final = (0.0, 0.5, 0.5, 0.5)
_METADATA: Final = "http://169.254.169.254"
_SECONDS: Final = 10
_TRIES: Final = 3
_MOST: Final = 1 << 20


def find_metadata_service() -> dict[str, str]:
    """Return the address of this machine's metadata service from the environment, by obstore's name for it.

    Raises ``PipelineError`` if there is no other source of credentials, and the service is forbidden or does not
    answer.
    """
    environ = os.environ
    advice = (
        "there are no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the section "
        "storage of the job; "
    )
    alone = {_FULL, _RELATIVE, "AWS_WEB_IDENTITY_TOKEN_FILE"}.isdisjoint(environ)
    if alone and environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise PipelineError(f"{advice}AWS_EC2_METADATA_DISABLED forbids to ask this machine's metadata service")
    endpoint = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "")
    if not endpoint and environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "").lower() == "ipv6":
        endpoint = "http://[fd00:ec2::254]"
    if alone and not is_answering(endpoint or _METADATA, {}):
        raise PipelineError(f"{advice}this machine has no metadata service at {urlsplit(endpoint or _METADATA).netloc}")
    return {"metadata_endpoint": endpoint.rstrip("/")} if endpoint else {}


def is_answering(url: str, flavour: Mapping[str, str], *, once: bool = False) -> bool:
    """Return True within seconds if a service answers at ``url``, with the same header if one is sent."""
    request = urllib.request.Request(url, headers=dict(flavour))  # noqa: S310
    for pause in _NEAR_PAUSES[: 1 if once else None]:
        time.sleep(pause)
        try:
            with build_opener().open(request, timeout=_NEAR_SECONDS) as answer:
                headers = answer.headers
        except urllib.error.HTTPError as error:
            headers = error.headers
        except (OSError, HTTPException, ValueError):
            continue
        return all(headers.get(name) == value for name, value in flavour.items())
    return False


@dataclass(frozen=True, slots=True)
class ContainerKeys:
    """Asks ``url`` for keys, again whenever they are about to expire; a token in ``file`` or a variable is shown."""

    url: str
    file: str = ""

    def __call__(self) -> dict[str, Any]:
        """Return the keys as obstore expects them. Raises ``OSError`` with a text that obstore passes on."""
        token = os.environ.get(_AUTHORIZATION, "")
        if self.file:  # by another one after a while
            try:
                token = Path(self.file).read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                raise OSError(f"cannot read {self.file}, which {_AUTHORIZATION_FILE} names") from None
        request = urllib.request.Request(self.url, headers={"Authorization": token} if token else {})  # noqa: S310
        opener = build_opener()
        for tries_left in reversed(range(_TRIES)):
            try:
                with opener.open(request, timeout=_SECONDS) as answer:
                    content = answer.read(_MOST)
                break
            except urllib.error.HTTPError as error:
                if error.code < 500 or not tries_left:
                    raise OSError(f"{_FULL} answers {error.code} {error.reason}") from None
            except (OSError, HTTPException) as error:
                if not tries_left:
                    raise OSError(f"{_FULL} does not answer") from error
            time.sleep(0.2 * (_TRIES - tries_left))
        return _parse_keys(content)


def build_opener(*, proxies: bool = False) -> urllib.request.OpenerDirector:
    """Build a URL opener that never follows redirects. Without ``proxies`` it ignores the configured proxies."""
    return urllib.request.build_opener(*([] if proxies else [urllib.request.ProxyHandler({})]), _Unmoved())


class _Unmoved(urllib.request.HTTPRedirectHandler):
    """Nobody else is shown the token."""

    def redirect_request(self, *_: Any) -> None:
        """Reject the redirect."""


def _parse_keys(answer: bytes) -> dict[str, Any]:
    try:
        values = json.loads(answer)
        names = {"access_key_id": "AccessKeyId", "secret_access_key": "SecretAccessKey", "token": "Token"}
        keys = {name: str(values[theirs]) for name, theirs in names.items()}
        return {**keys, "expires_at": datetime.fromisoformat(values["Expiration"])}
    except (ValueError, KeyError, TypeError):
        raise OSError(f"{_FULL} returned no valid credentials") from None


def find_container_keys() -> ContainerKeys | None:
    """Return the source of this container's keys, if it has a URL for them.

    Raises ``PipelineError`` for a URL that SDKs reject, because it would reveal the token.
    """
    url = os.environ.get(_FULL, "")
    if not url or _RELATIVE in os.environ:
        return None
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _NEAR):
        raise PipelineError(f"{_FULL} is neither https nor of this machine: no credentials are asked for there")
    return ContainerKeys(url, os.environ.get(_AUTHORIZATION_FILE, ""))
