"""Other people's documents: they lie beside the project, are no part of it, and may be absent.

Every rule that a test holds by them is also held by documents of our own: by another test, which ``pytest.mark.others``
names, or by other parameters of the same test.
"""

from pathlib import Path

import pytest

OURS = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2] / "shared"
OTHERS = SHARED / "data"


def skip_without(path: Path, reason: str, ours: str) -> None:
    """Skip the test if nothing is at ``path``, for this ``reason``; ``ours`` names our own test of the same."""
    if not path.exists():
        pytest.skip(f"nothing at {path}: {reason}; by documents of our own: {ours}")


def require_own_test(item: pytest.Item, marker: pytest.Mark) -> str:
    """The name of the test which the ``marker`` of ``item`` says holds the same rule; it has to be in the module."""
    ours = str(marker.kwargs["ours"])
    if not hasattr(getattr(item, "module", None), ours):
        pytest.fail(f"{item.nodeid}: no test {ours} beside it holds the same rule", pytrace=False)
    return ours


def purpose(item: pytest.Item) -> str:
    """Return the purpose of a test from its name and the first line of its docstring."""
    function = getattr(item, "function", None)
    name = getattr(function, "__name__", item.name).removeprefix("test_").replace("_", " ")
    words = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
    return f"{name} ({words.rstrip('.')})" if words else name


def own_parameters(item: pytest.Item) -> list[str]:
    """The documents in ``tests/data/samples`` that the test of ``item`` is run with, apart from this time."""
    names = sorted({path.name.partition(".")[0] for path in (OURS / "samples").iterdir()})
    marker_arguments = " ".join(str(marker.args) for marker in item.iter_markers("parametrize"))
    return [name for name in names if f"'{name}" in marker_arguments]
