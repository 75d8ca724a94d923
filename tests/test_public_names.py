"""The names that users import: those of ``signalbook`` and ``signalbook.pipeline``, and no others in any example."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import signalbook
from signalbook import pipeline

ROOT = Path(__file__).parents[1]
MODULES = {"signalbook": signalbook, "signalbook.pipeline": pipeline}
EXAMPLES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")])


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_every_public_name_can_be_imported(module: ModuleType) -> None:
    assert {*module._MODULES} == {*module.__all__} - {"__version__"}
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        module.gone  # noqa: B018


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_import_public_names_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^ *import signalbook\.", text, re.MULTILINE)
    for name, imported in re.findall(r"^ *from (signalbook[\w.]*) import ([^\n#]+)", text, re.MULTILINE):
        assert name in MODULES, f"from {name} import {imported}"
        names = {word.strip() for word in imported.split(",")}
        assert names <= {*MODULES[name].__all__, "pipeline"}, f"from {name} import {imported}"
