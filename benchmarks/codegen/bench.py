"""What it costs to generate files of GitHub's 448 webhook messages, and to use the Python package that comes of them.

CPU seconds (user and system, children included) and memory (MiB, resident at most) of processes of their own: each
target, and the compiler of its language; all modules of the Python package imported; mypy --strict over them with an
empty cache; every real payload that conforms built, bound to HTTP and parsed, which has to give the same value again.
GitHub's schemas and payloads are fetched with npm.

    python -m benchmarks.codegen.bench [--only NAME...] [--output FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.registry.bench import machine

from signalbook.demo import github
from signalbook.messages import bind
from signalbook.values import dump_json

RESULTS = Path(__file__).parents[1] / "results" / "codegen.json"
PACKAGE = "github"
STYLES = ("dataclass", "msgspec", "pydantic")
TARGETS = ("asyncapi", "dbt", "go", "java", "markdown", "odcs", "rust", "spark", "sql", "typescript")

_TSC = Path(sys.prefix) / "brokers" / "typescript" / "node_modules" / "typescript" / "bin" / "tsc"
_JARS = Path(sys.prefix) / "brokers" / "kafka"
_CRATES = Path(sys.prefix) / "brokers" / "rust"
COMPILERS = {
    "go": ["sh", "-c", "CGO_ENABLED=0 go build ./... && CGO_ENABLED=0 go vet ./..."],
    "java": ["sh", "-c", f"javac -Xlint:all -Werror -proc:none -cp '{_JARS}/*' -d classes $(find . -name '*.java')"],
    "rust": ["sh", "-c", f"cp {_CRATES}/Cargo.lock . && CARGO_PROFILE_DEV_DEBUG=false "
             f"CARGO_PROFILE_DEV_INCREMENTAL=false CARGO_TARGET_DIR={_CRATES}/target cargo build --quiet --offline"],
    "typescript": ["node", str(_TSC), "--strict", "--noEmit", "--target", "ES2022", "--module", "NodeNext",
                   "github_webhooks/index.ts", "github_cloudevents/index.ts"],
}  # fmt: skip
"""Of what is generated; ``tools/setup test`` installs them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", default=[*TARGETS, *STYLES], help="targets, and styles of the package")
    parser.add_argument("--use", metavar="DIR", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.use:
        print(json.dumps(used(options.use)))
        return
    with tempfile.TemporaryDirectory() as name:
        results = {"machine": machine(), **measured(Path(name), options.only)}
    results["machine"]["load after"] = os.getloadavg()
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def measured(folder: Path, only: list[str]) -> dict[str, Any]:
    webhooks = github.fetch(folder)
    if webhooks is None:
        sys.exit("npm cannot fetch GitHub's webhooks")
    (folder / "book.json").write_bytes(dump_json(github.webhook_definitions(webhooks)))
    results: dict[str, Any] = {}
    for target in (each for each in TARGETS if each in only):
        results[target] = generated(folder, target, target)
        if target in COMPILERS:
            results[target]["compiler"] = run(COMPILERS[target], folder / target)
        print(target, results[target], flush=True)
    for style in (each for each in STYLES if each in only):
        place = f"python-{style}"
        found = generated(folder, "python", place, f"package={PACKAGE}", f"style={style}")
        command = [sys.executable, "-m", "mypy", "--strict", PACKAGE, "--cache-dir", str(folder / f"cache-{style}")]
        found["mypy"] = run(command, folder / place)
        found |= json.loads(use(folder, place))
        results[place] = found
        print(place, found, flush=True)
    return results


def generated(folder: Path, target: str, place: str, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "signalbook", "generate", target, "--registry", "book.json", "--output", place]
    found = run([*command, *(part for option in options for part in ("--option", option))], folder)
    files = [path for path in (folder / place).rglob("*") if path.is_file()]
    return {**found, "files": len(files), "bytes": sum(path.stat().st_size for path in files)}


def run(command: list[str], folder: Path) -> dict[str, Any]:
    """What a command that has to succeed takes: itself, and what it starts."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, taken = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: {errors.decode()}")
    return {"cpu": round(taken.ru_utime + taken.ru_stime, 2), "memory": taken.ru_maxrss >> 10}


def use(folder: Path, place: str) -> str:
    command = [sys.executable, "-m", "benchmarks.codegen.bench", "--use", str(folder / place)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]).stdout


def used(place: Path) -> dict[str, Any]:
    """What it takes to import the package, and to send and read each payload."""
    sys.path.insert(0, str(place))
    began = time.process_time()
    root = importlib.import_module(PACKAGE)
    names = [each.name for each in pkgutil.walk_packages(root.__path__, f"{PACKAGE}.")]
    modules = [importlib.import_module(name) for name in names]
    loaded = time.process_time() - began
    by_xid: dict[str, Any] = {module.MESSAGE.xid: module for module in modules if hasattr(module, "MESSAGE")}
    webhooks = github.fetch(place.parent)
    assert webhooks is not None
    sent, seconds = 0, 0.0
    for payload in webhooks.payloads:
        name = github.cloudevent_type(payload.definition)
        module = by_xid[f"/messagegroups/{github.CLOUDEVENTS_GROUP}/messages/{name}"]
        if module.MESSAGE.definition.schema_use.schema.validate(payload.body):
            continue
        began = time.process_time()
        typed = module.MESSAGE.typed_of(payload.body)
        message = bind(module.build(typed, account="octokit", delivery="1"), {"protocol": "HTTP"})
        read = module.parse(message)
        seconds += time.process_time() - began
        assert read.data == payload.body
        assert read.payload == typed
        sent += 1
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {
        "modules": len(modules),
        "import": round(loaded, 2),
        "payloads": sent,
        "milliseconds per payload": round(1000 * seconds / sent, 2),
        "memory of the program": memory,
    }


if __name__ == "__main__":
    main()
