"""Short ways to a definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.messages import CompiledDefinition, Contract

ContractOf = Callable[..., Contract]


@pytest.fixture
def define(contract_of: ContractOf) -> Callable[..., CompiledDefinition]:
    """The definition with these members, compiled, under the message id ``order``."""

    def build(**members: Any) -> CompiledDefinition:
        contract = contract_of({"order": members})
        assert contract.broken == {}
        (definition,) = contract.definitions.values()
        return definition

    return build
