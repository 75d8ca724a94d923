"""``signalbook site``: seconds of CPU, memory, size of the site and of its search index, by what is in the folder.

python -m benchmarks.ui.site [--schemas 2000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.registry import estate

from signalbook.demo import github
from signalbook.values import JSONObject

_IN_A_GROUP = 500


def schemas(count: int, vocabulary: estate.Vocabulary) -> JSONObject:
    """A document with so many JSON Schemas, of two Versions each."""
    random = Random(5)
    groups: dict[str, Any] = {}
    for number in range(count):
        fields = vocabulary.some(random, random.randint(8, 20))
        form, name = estate.FORMATS[0], f"{random.choice(estate.ENTITIES)}.{number:06}"
        texts = (estate.document(form, name, fields), estate.document(form, name, [*fields, ("note", "A remark.")]))
        versions = {str(at): {"format": form, "schema": json.loads(text)} for at, text in enumerate(texts, 1)}
        group = groups.setdefault(f"g{number // _IN_A_GROUP:03}", {"schemas": {}})
        group["schemas"][name] = {"name": name.partition(".")[0].title(), "versions": versions}
    return {"schemagroups": groups}


def measure(document: JSONObject) -> dict[str, Any]:
    """What it takes to write the site of a document, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "registry.xreg.json"), Path(folder, "site")
        source.write_text(json.dumps(document), encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "signalbook", "site", str(source), "--out", str(out), "--json"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        return {
            "pages": told["pages"],
            "files": told["files"],
            "CPU seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
            "peak MiB of all so far": after.ru_maxrss // 1024,
            "MB": round(size / 1e6, 1),
            "search index MB": round(told["search_index_bytes"] / 1e6, 2),
            "left out": told["left_out"],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, nargs="*", default=[2_000])
    options = parser.parse_args()
    webhooks = github.fetch(estate.PACKAGES)
    if webhooks is None:
        raise SystemExit(f"GitHub's definitions are not in {estate.PACKAGES}, and npm cannot fetch them")
    results = {"GitHub's 448 definitions": measure(github.webhook_definitions(webhooks))}
    for count in options.schemas:
        results[f"{count} schemas of two versions"] = measure(schemas(count, estate.vocabulary(webhooks)))
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
