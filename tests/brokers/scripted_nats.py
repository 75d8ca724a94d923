"""A server that says what a script has, for what a real one says once in a long while."""

from collections.abc import Iterable

GREETING = b'INFO {"headers":true}\r\n'


class Scripted:
    """Answers pings, and each request by the next of ``answers``: a block of headers, or a payload."""

    def __init__(self, answers: Iterable[bytes] = (), greeting: bytes = GREETING) -> None:
        self._said = greeting
        self._answers = list(answers)

    def read(self, max_bytes: int) -> bytes:
        answer, self._said = self._said, b""
        return answer

    def write(self, buffer: bytes) -> None:
        words = buffer.partition(b"\r\n")[0].split()
        if words[0] == b"PING":
            self._said += b"PONG\r\n"
        elif words[0] == b"PUB":
            answer = self._answers.pop(0)
            head = len(answer) if answer.startswith(b"NATS/1.0 ") else 0
            sizes = b"%d %d" % (head, len(answer)) if head else b"%d" % len(answer)
            self._said += b"%s %s 1 %s\r\n%s\r\n" % (b"HMSG" if head else b"MSG", words[2], sizes, answer)

    def limit(self, seconds: float | None = None) -> None: ...

    def encrypt(self) -> None:
        raise NotImplementedError

    def close(self) -> None: ...
