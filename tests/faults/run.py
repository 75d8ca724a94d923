"""One run: the load, the faults one after the other, the checks, the figures."""

import random
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.faults import checks
from tests.faults.cluster import PATIENCE, SERVERS, Cluster, Program, cluster
from tests.faults.listening import FeedReader, StreamReader, hook, in_file
from tests.faults.load import SHARED, Client, Ledger, Reader, Writer, say

_READERS = 4
_LIVE_SECONDS = 5.0
_FILE_PREFIX = "/schemagroups/w0"
_SHARES = {
    "server": 52,
    "worker": 12,
    "supervisor": 8,
    "two servers": 6,
    "all servers": 3,
    "postgres": 14,
    "backend": 5,
}
"""Kills of each kind in a hundred."""
_NETWORK = ("delay", "stall", "reset", "hole")
UPGRADES = tuple(f"upgrade of server {number}" for number in range(SERVERS))
_MIXED_SECONDS = 20
"""For which servers of both versions are at work, after each upgrade."""
_KILLED = {"two servers": 2, "all servers": 3}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a run. ``seconds`` limits its duration unless it is 0; ``pause`` is the mean time between two writes
    of a writer.

    ``kinds`` lists the faults, instead of ``kills`` faults of all kinds.
    """

    kills: int = 0
    seed: int = 1
    kinds: tuple[str, ...] = ()
    writers: int = 50
    seconds: float = 0
    pause: float = 0.4

    def faults(self) -> list[str]:
        """Kinds of faults in their order: the kills, and a fault of the network for each five of them."""
        if self.kinds:
            return list(self.kinds)
        rng = random.Random(self.seed)
        kinds: list[str] = []
        remaining = self.kills
        while remaining > 0:
            kind = rng.choices(list(_SHARES), list(_SHARES.values()))[0]
            kinds.append(kind)
            remaining -= _KILLED.get(kind, 1)
        kinds += [_NETWORK[number % len(_NETWORK)] for number in range(max(4, self.kills // 5))]
        rng.shuffle(kinds)
        return kinds


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault that happened: its begin and end on the monotonic clock, and the number of kills."""

    kind: str
    began: float
    ended: float
    kills: int


class Prober(threading.Thread):
    """Asks each server, past the balancer, whether it lives."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self._cluster = cluster
        self._ledger = ledger

    def run(self) -> None:
        """Probe the servers until stopped."""
        with httpx.Client(timeout=20) as client:
            while not self._ledger.stop.wait(0.25):
                for server in self._cluster.servers:
                    since, began = server.ready_since, time.monotonic()
                    try:
                        is_alive = client.get(f"{server.url}/health/live").is_success
                    except httpx.TransportError:
                        is_alive = False
                    took = time.monotonic() - began
                    # Only of a server that was ready before and was not killed meanwhile.
                    if since and since == server.ready_since:
                        self.seconds.append(took)
                        if took > _LIVE_SECONDS or not is_alive:
                            self._ledger.violation(f"/health/live of server {server.number}: {is_alive}, {took:.1f} s")


def run(plan: Plan, folder: Path, old: Program | None = None) -> dict[str, Any]:
    """Do it all; the figures, with what was violated. Servers run the ``old`` program until they are upgraded."""
    ledger = Ledger()
    with hook() as sink, cluster(folder, sink.place, old) as running:
        before = _prepare(running.url, ledger, plan, sink.place)
        feed, stream = FeedReader(running.url, ledger), StreamReader(running.url, ledger)
        writers = [Writer(number, running.url, ledger, plan.seed, plan.pause) for number in range(plan.writers)]
        readers = [Reader(number, running.url, ledger, plan.seed) for number in range(_READERS)]
        prober = Prober(running, ledger)
        for thread in (feed, stream, prober, *writers, *readers):
            thread.start()
        began = time.monotonic()
        faults = _break(plan, running, ledger, began)
        lasted = time.monotonic() - began
        say(f"{len(faults)} faults in {lasted:.0f} s; now what is left is done and checked")
        for link in range(SERVERS):
            running.proxy.set(link, "pass")
        if not running.ready():
            ledger.violation("the servers do not get ready at the end")
        ledger.stop.set()
        for thread in (*writers, *readers, prober):
            thread.join(3 * PATIENCE)
            if thread.is_alive():
                ledger.violation(f"{thread} hangs")
        position = checks.last_position(running)
        feed.ends_at = stream.ends_at = position
        history = checks.outbox(running)
        filed = [line for line in history if line[2].startswith(_FILE_PREFIX)]
        file = folder / "sinks" / "told.jsonl"
        waited = time.monotonic()
        _wait(lambda: not feed.is_alive() and not stream.is_alive(), 30)
        _wait(lambda: len({event.id for event in list(sink.told)}) >= len(history), PATIENCE)
        _wait(lambda: len({event.id for event in in_file(file)}) >= len(filed), PATIENCE)
        waited = time.monotonic() - waited
        checks.check_state(running, writers, ledger)
        rows = checks.check_counts(running, ledger)
        checks.check_history(history, ledger, before)
        checks.check_told("feed", list(feed.told), history, ledger)
        checks.check_told("stream", list(stream.told), history, ledger)
        repeated = checks.check_delivered("web hook", list(sink.told), history, ledger)
        repeated_file = checks.check_delivered("file", in_file(file), filed, ledger)
    live = sorted(prober.seconds)
    return {
        "seed": plan.seed,
        "writers": plan.writers,
        "kills": sum(fault.kills for fault in faults),
        "faults": dict(Counter(fault.kind for fault in faults)),
        "seconds": round(lasted),
        "writes acknowledged": len(ledger.acknowledged),
        "writes refused or reads refused": ledger.refused,
        "writes of unknown outcome": ledger.unknown,
        "of these done": ledger.settled_done,
        "reads": ledger.reads,
        "not modified": ledger.unmodified,
        "updates of one entity by all": len(ledger.shared),
        "events": len(history),
        "entities": rows,
        "streams begun": stream.connections,
        "repeated deliveries": {"web hook": repeated, "file": repeated_file},
        "seconds until all was delivered": round(waited, 1),
        "slowest answer s": round(ledger.slowest, 1),
        "/health/live p99 s": round(live[int(len(live) * 0.99)], 3) if live else None,
        "recovery s": _recovery(faults, ledger),
        "violations": ledger.violations,
    }


def _prepare(url: str, ledger: Ledger, plan: Plan, sink: str) -> int:
    """Groups and subscriptions; how many writes it took."""
    client = Client(url, ledger)
    paths = [SHARED, *(f"/schemagroups/w{number:02}" for number in range(plan.writers))]
    for path in paths:
        assert client.send("PUT", path, {}).status == 201
    hooked = {"protocol": "HTTP", "sink": f"http://{sink}/", "config": {"after": "0"}}
    filed = {
        "protocol": "FILE",
        "sink": "file:told.jsonl",
        "config": {"after": "0"},
        "filters": [{"prefix": {"subject": _FILE_PREFIX}}],
    }
    for subscription in (hooked, filed):
        answer = client.send("POST", "/subscriptions", subscription)
        assert answer.status == 201, answer.body
    client.close()
    return len(paths) + 10  # the registry's own beginnings


def _break(plan: Plan, cluster: Cluster, ledger: Ledger, began: float) -> list[Fault]:
    rng = random.Random(f"{plan.seed} faults")
    faults: list[Fault] = []
    time.sleep(1)
    for number, kind in enumerate(kinds := plan.faults()):
        if plan.seconds and time.monotonic() - began > plan.seconds:
            break
        fault = _fault(kind, cluster, rng)
        faults.append(fault)
        recovered = _wait(lambda at=fault.ended: _acknowledged_since(ledger, at), PATIENCE)  # type: ignore[misc]
        if not recovered:
            ledger.violation(f"no write succeeds in {PATIENCE:g} s after {kind}")
        say(
            f"{number + 1}/{len(kinds)} {kind}: {time.monotonic() - fault.ended:.2f} s;"
            f" {len(ledger.acknowledged)} written, {ledger.unknown} unknown, {ledger.refused} refused,"
            f" {ledger.reads} read, {len(ledger.violations)} violations"
        )
        time.sleep(rng.uniform(0.05, 0.5))
    return faults


def _acknowledged_since(ledger: Ledger, when: float) -> bool:
    return any(began > when for _, began, _ in reversed(ledger.acknowledged[-200:]))


def _wait(enough: Callable[[], bool], patience: float) -> bool:
    deadline = time.monotonic() + patience
    while not enough():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _fault(kind: str, cluster: Cluster, rng: random.Random) -> Fault:
    if kind in _NETWORK:
        return _disturb(kind, cluster, rng)
    if kind in UPGRADES:
        began = time.monotonic()
        number = UPGRADES.index(kind)
        cluster.upgraded.add(number)
        cluster.servers[number].replace()
        time.sleep(_MIXED_SECONDS)
        if not cluster.ready():
            raise SystemExit("the upgraded server does not get ready")
        return Fault(kind=kind, began=began, ended=began, kills=0)
    if kind in ("postgres", "backend"):
        began = time.monotonic()
        if kind == "backend":
            while not cluster.postgres.kill_backend(rng):
                time.sleep(0.1)
        else:
            cluster.postgres.kill()
            time.sleep(rng.choice([0.0, 0.0, 1.0, 3.0]))
            cluster.postgres.start()
        return Fault(kind=kind, began=began, ended=began, kills=1)
    count = _KILLED.get(kind, 1)
    # A server that is not up yet cannot be killed in the midst of anything.
    cluster.ready(lambda ready: sum(ready) >= count)
    chosen = rng.sample([server for server in cluster.servers if server.ready_since], count)
    began = time.monotonic()
    for server in chosen:
        server.kill(kind if kind in ("worker", "supervisor") else "server")
    other_servers = sum(server.ready_since > 0 for server in cluster.servers)
    return Fault(kind=f"{kind}, {other_servers} left", began=began, ended=began, kills=count)


def _disturb(kind: str, cluster: Cluster, rng: random.Random) -> Fault:
    """A fault of the network: of the links of one, two or all servers."""
    links = rng.sample(range(SERVERS), rng.choice([1, 1, 2, 3]))
    seconds = {
        "delay": rng.uniform(1, 3),
        "stall": rng.choice([0.5, 2.0, 8.0]),
        "reset": rng.choice([0.0, 1.0]),
        "hole": rng.choice([1.0, 4.0, 12.0]),
    }[kind]
    began = time.monotonic()
    for link in links:
        cluster.proxy.set(link, kind, rng.uniform(0.02, 0.2))
    time.sleep(seconds)
    for link in links:
        cluster.proxy.set(link, "pass")
    return Fault(kind=f"{kind}, {len(links)} of {SERVERS}", began=began, ended=time.monotonic(), kills=0)


def _recovery(faults: Sequence[Fault], ledger: Ledger) -> dict[str, Any]:
    """Seconds from the end of a fault until a write sent since then was acknowledged, and until each writer had one."""
    by_writer: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for writer, began, ended in ledger.acknowledged:
        by_writer[writer].append((began, ended))
    durations: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for fault in faults:
        firsts = [
            min((ended for began, ended in writes if began > fault.ended), default=None)
            for writes in by_writer.values()
        ]
        recoveries = [first - fault.ended for first in firsts if first is not None]
        if recoveries:
            durations[fault.kind].append((min(recoveries), max(recoveries)))
    return {
        kind: {
            "times": len(pairs),
            "first write p50": _quantile([first for first, _ in pairs], 0.5),
            "first write p99": _quantile([first for first, _ in pairs], 0.99),
            "every writer p50": _quantile([last for _, last in pairs], 0.5),
            "every writer p99": _quantile([last for _, last in pairs], 0.99),
        }
        for kind, pairs in sorted(durations.items())
    }


def _quantile(values: list[float], share: float) -> float:
    if len(values) == 1:
        return round(values[0], 2)
    return round(statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1], 2)
