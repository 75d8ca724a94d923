"""The compiled model as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from signalbook.model import builtin, compile_model


def test_full_view_is_that_of_the_specification(shared_data: Path) -> None:
    """R64, R65: every attribute the specification defines, with its flags, in its order."""
    models = shared_data / "xregistry-models"
    full = compile_model(json.loads((models / "sample-model.json").read_bytes())).full()
    assert json.dumps(full) == json.dumps(json.loads((models / "sample-model-full.json").read_bytes()))


@pytest.mark.parametrize("name", ["default", "empty"])
def test_full_model_compiles_to_itself(name: str) -> None:
    """R63, R66: what GET /model shows can be given back as a modelsource."""
    model = compile_model(builtin(name))
    assert compile_model(model.full()).fingerprint == model.fingerprint
