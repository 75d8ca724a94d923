"""Answers to be used again: after the server has said that they still hold (RFC9110 13.1.2)."""

from __future__ import annotations

from typing import Final

import httpx

_SHOWN: Final = (httpx.codes.OK, httpx.codes.SEE_OTHER)


class Kept:
    """Answers to GET by URL, up to ``limit`` bytes of them; those used longest ago go first."""

    def __init__(self, *, limit: int = 16 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._answers: dict[str, httpx.Response] = {}

    def ask(self, request: httpx.Request) -> None:
        """Let ``request`` tell what is here."""
        kept = self._answers.get(str(request.url))
        if request.method == "GET" and kept is not None:
            request.headers["If-None-Match"] = kept.headers["ETag"]

    def settle(self, request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        """The answer to use: what was kept if it still holds, else ``answer``, kept for the next time."""
        url = str(request.url)
        if answer.status_code == httpx.codes.NOT_MODIFIED and url in self._answers:
            answer = self._take(url)
        elif request.method != "GET" or answer.status_code not in _SHOWN or not _tag(answer):
            return answer
        elif url in self._answers:
            self._take(url)
        self._keep(url, answer)
        return answer

    def _take(self, url: str) -> httpx.Response:
        answer = self._answers.pop(url)
        self._size -= len(answer.content)
        return answer

    def _keep(self, url: str, answer: httpx.Response) -> None:
        self._answers[url] = answer
        self._size += len(answer.content)
        while self._size > self._limit:
            self._take(next(iter(self._answers)))


def _tag(answer: httpx.Response) -> str:
    """The entity tag, if it is one that can be sent back."""
    tag: str = answer.headers.get("ETag", "")
    return tag if tag.isascii() and tag.isprintable() else ""
