"""Get the keys of an AWS role from the machine or container, where obstore differs from the SDKs of AWS.

obstore uses the metadata service of a machine, but ignores the SDKs' variables for it. Without such a service it tries
for a long time, also in other clouds; ``is_answering`` detects this within seconds. obstore uses container credentials
only if their token is in a file, and sends the token to any URL:
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
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
# Hosts that may be queried without TLS: this machine, and the credential services of ECS containers and EKS pods.
_NEAR: Final = ("localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23")
# The seconds to wait for a machine's own service. It responds quickly, except in a new pod, so it is tried again.
# Without such a service, packets to its address may get lost.
_NEAR_SECONDS: Final = 1.0
_NEAR_PAUSES: Final = (0.0, 0.5, 0.5, 0.5)
_METADATA: Final = "http://169.254.169.254"
_SECONDS: Final = 10
_TRIES: Final = 3
_MOST: Final = 1 << 20


def find_metadata_service() -> dict[str, str]:
    """Return the address of this machine's metadata service in the environment as an option of obstore, or {}.

    Raises ``PipelineError`` if there is no other source of credentials, and the service is disabled or does not
    respond.
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
    """Return True if a service responds at ``url`` within seconds. Its response must have the headers ``flavour``.

    With ``once`` it is tried only once.
    """
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
    """A provider of AWS keys from ``url``. obstore calls it again whenever the keys are about to expire.

    Requests send the token in ``file``, or else in an environment variable.
    """

    url: str
    file: str = ""

    def __call__(self) -> dict[str, Any]:
        """Return new keys in the form that obstore expects. Raises ``OSError``, whose text obstore reports."""
        token = os.environ.get(_AUTHORIZATION, "")
        if self.file:  # read it each time, because the token in the file is renewed
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
    """A handler that rejects redirects, so that the token is not sent to another host."""

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
    """Return the provider of this container's keys, or None if the environment states no URL for them.

    Raises ``PipelineError`` for a URL that SDKs reject, because it would reveal the token.
    """
    url = os.environ.get(_FULL, "")
    if not url or _RELATIVE in os.environ:
        return None
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _NEAR):
        raise PipelineError(f"{_FULL} is neither https nor of this machine: no credentials are asked for there")
    return ContainerKeys(url, os.environ.get(_AUTHORIZATION_FILE, ""))
