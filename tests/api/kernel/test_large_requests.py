"""Large requests in a process of their own: it answers as the server would, ends when it is not needed, may die."""

import asyncio
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving import serving

from signalbook import server
from signalbook.api.kernel import large_requests as module
from signalbook.api.kernel.large_requests import LargeRequests
from signalbook.server import _start_large_requests, build
from signalbook.settings import Settings
from signalbook.storage.base import StorageBusy

LARGE = b'{"description":"%s"}' % (b"x" * 3_000_000)
HEADERS = {"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"}


def scope(method: str, path: str) -> dict[str, Any]:
    headers = [(name.lower().encode(), value.encode()) for name, value in {"Host": "localhost", **HEADERS}.items()]
    address = {"scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": ""}
    peers = {"client": ("127.0.0.1", 9), "server": ("127.0.0.1", 80)}
    request = {"type": "http", "http_version": "1.1", "method": method, "headers": headers, "state": object()}
    return {**request, **address, **peers}


async def answered(large_requests: LargeRequests, path: str, body: bytes = LARGE) -> tuple[int, bytes]:
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  the process beside has it last
    file.write(body)
    answer = await large_requests.respond(scope("PUT", path), file)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await answer.send({}, None, send)  # type: ignore[arg-type]
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.merge
def test_large_request_process_answers_and_stops_when_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 1.0)
    settings = Settings(db=f"sqlite:///{tmp_path}/r.db")
    build(settings)  # founds the registry
    started: list[subprocess.Popen[bytes]] = []

    def start(theirs: Any) -> subprocess.Popen[bytes]:
        started.append(_start_large_requests(theirs))
        return started[-1]

    async def program() -> None:
        large_requests = LargeRequests(start, settings)
        assert await answered(large_requests, "/schemagroups/g/schemas/s") == (201, LARGE)
        status, body = await answered(large_requests, "/schemagroups/g", b"[" * 2_000_000)
        assert status == 400
        assert b"#parsing_data" in body
        assert len(started) == 1

        # It is gone when the next one comes; and it goes while it is at work.
        started[0].kill()
        started[0].wait()
        assert (await answered(large_requests, "/schemagroups/g/schemas/t"))[0] == 201
        os.kill(started[1].pid, signal.SIGSTOP)
        waiting = asyncio.ensure_future(answered(large_requests, "/schemagroups/g/schemas/u"))
        await asyncio.sleep(0.2)
        started[1].kill()
        with pytest.raises(StorageBusy, match="ended"):
            await waiting

        assert (await answered(large_requests, "/schemagroups/g/schemas/v"))[0] == 201
        assert len(started) == 3
        while started[2].poll() is None:  # it has nothing to do
            await asyncio.sleep(0.05)
        large_requests.close()

    asyncio.run(program())


def test_process_of_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another version would migrate the database under the running servers."""
    settings = Settings(db=f"sqlite:///{tmp_path}/r.db")
    build(settings)
    monkeypatch.setattr(server, "__version__", "0.0.9")

    async def program() -> None:
        large_requests = LargeRequests(_start_large_requests, settings)
        with pytest.raises(StorageBusy, match="ended"):
            await answered(large_requests, "/schemagroups/g")
        large_requests.close()

    asyncio.run(program())


@pytest.mark.merge
def test_process_for_large_requests_uses_the_memory_registry(tmp_path: Path) -> None:
    """Also capabilities stay as they were put, whatever the file says that the server began with."""
    available = {name: {"mutable": name != "model"} for name in ("capabilities", "entities", "model")}
    (tmp_path / "capabilities.json").write_text(json.dumps({"shortself": True, "available": available}))
    with serving(tmp_path, "--db", "sqlite://", "--capabilities", "capabilities.json") as url:
        httpx.patch(f"{url}/capabilities", json={"shortself": False}, timeout=60).raise_for_status()
        put = httpx.put(f"{url}/schemagroups/g/schemas/s", content=LARGE, headers=HEADERS, timeout=60)
        assert put.status_code == 201
        assert httpx.get(f"{url}/schemagroups/g/schemas/s", timeout=60).content == LARGE
        assert httpx.get(f"{url}/capabilities", timeout=60).json()["shortself"] is False


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("large_requests")
    rules = [{"who": ["anyone"], "role": "writer"}, {"who": ["anyone"], "deny": ["create"], "on": ["/schemagroups/no"]}]
    policy = {"rules": [*rules, {"who": ["subject:root"], "role": "administrator"}]}
    (folder / "policy.json").write_text(json.dumps(policy))
    with serving(folder, "--access-file", "policy.json", "--max-body-bytes", "30000000") as url:
        yield url


def resident(pid: str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children(pid: str) -> list[str]:
    return subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True).stdout.split()


@pytest.mark.merge
def test_large_bodies_do_not_reach_the_server_process(url: str) -> None:
    """The memory of the server does not grow for bodies with a length or in chunks, and callers without rights are
    rejected.
    """
    listening = subprocess.run(["pgrep", "-f", f"port {url.rpartition(':')[2]}"], capture_output=True, text=True)
    family = listening.stdout.split()[:1]
    for pid in family:
        family += children(pid)
    before = {pid: resident(pid) for pid in family}
    hostile = b'{"labels":[' + b"[]," * 6_000_000 + b"[]]}"
    with httpx.Client(base_url=url, timeout=300) as client:
        response = client.put("/schemagroups/g/schemas/s", content=LARGE, headers=HEADERS)
        assert (response.status_code, response.content) == (201, LARGE)
        assert response.headers["Location"] == f"{url}/schemagroups/g/schemas/s"
        assert response.headers["Access-Control-Expose-Headers"]
        assert client.get("/schemagroups/g/schemas/s").content == LARGE
        pieces = (hostile[at : at + 100_000] for at in range(0, len(hostile), 100_000))
        refused = client.put("/schemagroups/h", content=pieces)
        assert refused.status_code == 400
        assert refused.json()["type"].endswith("#parsing_data")
        assert client.get("/schemagroups/h").status_code == 404
        barred = client.put("/schemagroups/no", content=b" " * 2_000_000 + b"{}")
        assert (barred.status_code, "WWW-Authenticate" in barred.headers) == (401, True)
        assert "max_body_bytes" in client.put("/schemagroups/h", content=b" " * 31_000_000).text
    after = {pid: resident(pid) for pid in family}
    assert max(after[pid] - before[pid] for pid in family) < 40_000_000
