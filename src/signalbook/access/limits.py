"""Limits for each caller: requests per second, writes, reads of many entities at once, and failed logins.

Each process counts for itself, so several processes together allow a multiple. Memory is bounded, however many callers
there are. An anonymous caller is identified by its address.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar

from signalbook.access.decisions import Access
from signalbook.errors import SignalbookError
from signalbook.settings import SettingError, Settings

REQUESTS: Final = "requests"
WRITES: Final = "writes"
READS: Final = "reads"
LOGINS: Final = "logins"

_BURST_SECONDS: Final = 10.0
"""A caller may send at once the requests of up to this many unused seconds."""
_CALLERS: Final = 10_000
"""The number of callers that are counted separately. With more callers, the counts of the oldest ones restart."""
_WAIT_SECONDS: Final = 10.0
_UNLIMITED_READS: Final = 1 << 30
_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 300.0
_FORGIVEN_SECONDS: Final = 900.0
"""A caller without a failed login for this many seconds starts again at zero failures."""
_IPV6_NETWORK: Final = 64
_QUOTAS: Final = ("max_group_resources", "max_group_versions", "max_group_bytes")
_COUNTS: Final = ("limit_requests", "limit_writes", "limit_reads", "limit_logins", *_QUOTAS)
_LIMIT_CHOICES: Final = ("auto", "on", "off")

V = TypeVar("V")
Clock = Callable[[], float]


class TooManyRequests(SignalbookError):
    """A request exceeds a limit (429). ``retry_after`` is the number of whole seconds to wait before the
    next attempt."""

    def __init__(self, limit: str, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.retry_after = max(1, math.ceil(retry_after))


class TokenBucket:
    """A token bucket: it allows ``rate`` events per second, and ``burst`` events at once."""

    __slots__ = ("_at", "_burst", "_clock", "_left", "_rate")

    def __init__(self, *, rate: float, burst: float, clock: Clock = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock()

    def take(self) -> float:
        """Take a token and return 0, or return the seconds until one is free."""
        now = self._clock()
        tokens = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if tokens >= 1.0:
            self._left = tokens - 1.0
            return 0.0
        self._left = tokens
        return (1.0 - tokens) / self._rate


class _Bounded(Generic[V]):
    """Values by key, limited to the ``most`` latest keys. ``make`` creates a missing value."""

    __slots__ = ("_make", "_most", "_values")

    def __init__(self, make: Callable[[], V], most: int = _CALLERS) -> None:
        self._values: dict[Hashable, V] = {}
        self._make, self._most = make, most

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> V | None:
        return self._values.get(key)

    def of(self, key: Hashable) -> V:
        """Return the value of ``key``, created if it is missing."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._make()
            if len(self._values) > self._most:
                # Dictionaries keep the order of insertion: the first one is the oldest.
                del self._values[next(iter(self._values))]
        return value


@lru_cache(maxsize=_CALLERS)
def find_network(address: str) -> str:
    """Return the address of an IPv4 host, or the /64 network of an IPv6 host, since such a host can use all its
    addresses."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(IPv6Address(int(ip) >> _IPV6_NETWORK << _IPV6_NETWORK))


class RequestLimits:
    """The limits of all callers in this process, for one event loop. Raises ``SettingError`` for invalid settings."""

    def __init__(self, settings: Settings, *, clock: Clock = time.monotonic) -> None:
        check_limits(settings)
        self._choice = settings.limits
        self._callers: _Bounded[Caller] = _Bounded(lambda: Caller(settings, clock))
        self.logins = LoginGuard(0 if self._choice == "off" else settings.limit_logins, clock=clock)

    def caller(self, access: Access, address: str) -> Caller | None:
        """Return the caller with this access from this address, or None if no limits apply.

        The setting ``limits`` turns limits on or off; with "auto" they apply unless ``access`` is unrestricted.
        """
        if self._choice == "on" or (self._choice == "auto" and access.key is not None):
            return self._callers.of(access.caller or find_network(address))
        return None

    def visitor(self, address: str) -> Caller | None:
        """Return the caller for unauthenticated pages such as the login, by its address; None if limits are off.

        Its reads are counted separately from those of anonymous callers at the same address.
        """
        return None if self._choice == "off" else self._callers.of(("visitor", find_network(address)))


class Caller:
    """A caller with its limits."""

    __slots__ = ("_asking", "_reading", "_settings", "_writing")

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._asking = _make_bucket(settings.limit_requests, clock)
        self._writing = _make_bucket(settings.limit_writes, clock)
        self._reading = asyncio.Semaphore(settings.limit_reads or _UNLIMITED_READS)

    def admit(self, *, write: bool) -> None:
        """Count a request. Raises ``TooManyRequests`` if it exceeds the limit of requests or, with ``write``, of
        writes."""
        if self._asking is not None and (seconds := self._asking.take()):
            detail = f"more than {self._settings.limit_requests} requests a second (setting limit_requests)"
            raise _build_refusal(REQUESTS, detail, seconds)
        if write and self._writing is not None and (seconds := self._writing.take()):
            detail = f"more than {self._settings.limit_writes} writes a second (setting limit_writes)"
            raise _build_refusal(WRITES, detail, seconds)

    async def turn(self) -> asyncio.Semaphore:
        """Wait until the caller may start another long read. The returned semaphore is acquired; release it after the
        read.

        Raises ``TooManyRequests`` if the caller has to wait too long.
        """
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._reading.acquire()
        except TimeoutError:
            most = self._settings.limit_reads
            detail = f"{most} reads of many entities, or logins, are under way (setting limit_reads)"
            raise _build_refusal(READS, detail, 1.0) from None
        return self._reading


def _build_refusal(limit: str, detail: str, seconds: float) -> TooManyRequests:
    return TooManyRequests(limit, f"too many requests: {detail}; wait before the next one", seconds)


def _make_bucket(rate: int, clock: Clock) -> TokenBucket | None:
    return TokenBucket(rate=rate, burst=rate * _BURST_SECONDS, clock=clock) if rate else None


class LoginGuard:
    """Failed logins by network and by claimed token: after some failures, each further failure doubles the wait.

    The same wrong credentials count once, however often they come (as from a forgotten program), because only guessing
    has to be slowed down. ``free`` is the number of failures without a wait; 0 turns the guard off. For one event loop.
    """

    def __init__(self, free: int, *, clock: Clock = time.monotonic) -> None:
        self._free = free
        self._clock = clock
        self._failed: _Bounded[_Failures] = _Bounded(_Failures)
        self._wrong: _Bounded[bool] = _Bounded(lambda: True)

    def check(self, address: str, claimed: str) -> None:
        """Raise ``TooManyRequests`` if a login from this ``address``, or for this ``claimed`` token, has to wait."""
        now = self._clock()
        wait = max((failures.until - now for failures in self._list_failures(address, claimed)), default=0.0)
        if wait > 0:
            detail = "too many failed logins (setting limit_logins); wait before the next one"
            raise TooManyRequests(LOGINS, detail, wait)

    def record_failure(self, address: str, claimed: str, credentials: Hashable) -> None:
        """Count a failed login, unless the same ``credentials`` failed before."""
        credentials_hash = hash(credentials)
        if not self._free or self._wrong.get(credentials_hash):
            return
        self._wrong.of(credentials_hash)
        for key in _build_keys(address, claimed):
            self._failed.of(key).add(self._clock(), self._free)

    def _list_failures(self, address: str, claimed: str) -> list[_Failures]:
        return [failures for key in _build_keys(address, claimed) if (failures := self._failed.get(key)) is not None]


class _Failures:
    __slots__ = ("_count", "_last", "until")

    def __init__(self) -> None:
        self._count = 0
        self._last = self.until = -math.inf

    def add(self, now: float, free: int) -> None:
        self._count = 1 if now - self._last > _FORGIVEN_SECONDS else self._count + 1
        self._last = now
        beyond = self._count - free
        if beyond > 0:
            self.until = now + min(_FIRST_DELAY * 2.0 ** min(beyond - 1, 30), _LONGEST_DELAY)


def _build_keys(address: str, claimed: str) -> list[tuple[str, str]]:
    return [("address", find_network(address)), *([("claimed", claimed)] if claimed else [])]


def check_limits(settings: Settings) -> None:
    """Raise ``SettingError`` if a limit has an invalid value."""
    if settings.limits not in _LIMIT_CHOICES:
        raise SettingError(f"limits is one of {', '.join(_LIMIT_CHOICES)}, not {settings.limits!r}")
    for name in _COUNTS:
        if getattr(settings, name) < 0:
            raise SettingError(f"{name} is a whole number from 0, which is no limit, not {getattr(settings, name)}")
