"""Generated TypeScript: compiled with --strict, held to Prettier, run; and what Signalbook says of its messages."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.codegen.conftest import DOCUMENT, BuildOnce
from tests.codegen.standalone import hard, suite
from tests.codegen.standalone.suite import *  # noqa: F403 - what generated code has to do

MODULES = Path(sys.prefix) / "brokers" / "typescript" / "node_modules"
OPTIONS = {
    **dict.fromkeys(("strict", "noUncheckedIndexedAccess", "exactOptionalPropertyTypes", "noUnusedLocals"), True),
    **dict.fromkeys(("noImplicitReturns", "noPropertyAccessFromIndexSignature", "isolatedModules"), True),
    "target": "ES2022", "module": "NodeNext", "lib": ["ES2022", "DOM"], "types": [],
}  # fmt: skip
# Each line that the types must refuse says so.
PROGRAM = """
import { orderPlaced2 } from "./shop/shop_orders/index.js";
import { toKafka } from "./shop/runtime.js";
import * as tree from "./hard/hard/tree.js";
import * as parts from "./hard/hard/parts.js";

const payload: orderPlaced2.Payload = { kind: "new", total: 5, buyer: { "e-mail": "a@b" } };
const total: number = orderPlaced2.parse({
  protocol: "", contentType: "", attributes: null, options: {}, body: null }).payload.total;
toKafka(orderPlaced2.build(payload, { shop: "7" }), { topic: String(total) });
tree.build({ n: 1, kids: [{ n: 2 }], next: null });
parts.build({ one: { k: "a" }, map: { x: [1.5] }, both: null });
// @ts-expect-error a value that is not in the set
orderPlaced2.build({ kind: "old", total: 5 }, { shop: "7" });
// @ts-expect-error a member is missing
orderPlaced2.build({ kind: "new" }, { shop: "7" });
// @ts-expect-error a placeholder is missing
orderPlaced2.build(payload, {});
// @ts-expect-error a member of another type
tree.build({ n: 1, kids: [{ n: "2" }] });
"""


def node(*command: str, folder: Path) -> str:
    ran = subprocess.run(["node", *command], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def compiled(folder: Path, documents: dict[str, dict[str, Any]], program: str = "") -> suite.Names:
    """A project with what is generated of documents, compiled into its folder ``js``."""
    if not MODULES.exists():
        pytest.skip("TypeScript is not installed beside the tests: tools/setup test")
    packages = {name: suite.write("typescript", folder / name, document) for name, document in documents.items()}
    (folder / "program.ts").write_text(program)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": {**OPTIONS, "outDir": "js"}}))
    node(str(MODULES / "typescript" / "bin" / "tsc"), folder=folder)
    return {name: suite.names_of(generated_package, lambda path, name=name: f"{name}/{path.removesuffix('.ts')}")  # type: ignore[misc]
            for name, generated_package in packages.items()}  # fmt: skip


@pytest.fixture(scope="module")
def project(build_once: BuildOnce[suite.Names]) -> tuple[Path, suite.Names]:
    """Return one compiled project with all generated packages, and the modules of their messages."""
    documents = {"shop": DOCUMENT, "hard": hard.DOCUMENT}
    return build_once("typescript", lambda folder: compiled(folder, documents, PROGRAM))


@pytest.fixture(scope="module")
def run(project: tuple[Path, suite.Names]) -> Iterator[suite.Run]:
    command = ["node", str(Path(__file__).with_name("program.mjs")), "js"]
    with suite.started(command, *project) as answers:
        yield answers


@pytest.mark.merge
def test_code_is_formatted_by_prettier(project: tuple[Path, suite.Names]) -> None:
    """Apart from what a formatter does with lines that have no place to be broken at."""
    command = str(MODULES / "prettier" / "bin" / "prettier.cjs"), "--print-width=120", "--list-different"
    assert node(*command, "shop/**/*.ts", "hard/**/*.ts", folder=project[0]) == ""
