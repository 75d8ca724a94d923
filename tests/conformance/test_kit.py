"""The kit's own data against Signalbook's: errors, model, files."""

from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from signalbook import errors
from signalbook.documents import parse_document
from signalbook.model import compile_model
from xregistry_conformance.errors import CATALOGUE
from xregistry_conformance.profile import kit_model
from xregistry_conformance.values import parse_yaml

DATA = resources.files("xregistry_conformance") / "data"
FILES = [DATA / "requirements.yaml", *(DATA / "cases").iterdir()]


def test_kit_model_is_valid() -> None:
    compile_model({"groups": kit_model()})


def test_the_kit_knows_the_errors_of_the_specification() -> None:
    ours = {code: (row.status, row.title, row.arguments) for code, row in errors.CATALOGUE.items()}
    assert {code: (row.status, row.title, row.arguments) for code, row in CATALOGUE.items()} == ours


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_files_of_the_kit_are_unambiguous(file: Traversable) -> None:
    """No key is there twice, and no text is a date or a boolean to YAML 1.1."""
    value, _ = parse_document(file.read_bytes(), name=file.name)
    assert parse_yaml(file.read_bytes(), name=file.name) == value
