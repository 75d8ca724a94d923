"""The URL of the registry root, as clients reach it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from starlette.types import Scope

from signalbook.settings import Settings

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)


def base_url(scope: Scope, settings: Settings) -> str:
    """Without a trailing slash: the setting ``base_url``, or else scheme and host of the request.

    A ``Host`` that is none is not repeated: it goes into URLs and headers.
    """
    if settings.base_url:
        return settings.base_url.rstrip("/")
    given = b""
    for name, value in scope["headers"]:
        if name == b"host":
            given = value
            break
    return _url(scope.get("scheme", "http"), given, scope.get("server"), scope.get("root_path", ""))


@lru_cache(maxsize=128)
def _url(scheme: str, given: bytes, server: tuple[str, int | None] | None, path: str) -> str:
    host = given.decode("latin-1")
    if not _HOST.fullmatch(host):
        host, port = server or ("localhost", None)
        host = f"{host}:{port}" if port else host
    return f"{scheme}://{host}{path}"
