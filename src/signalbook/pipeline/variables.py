"""``${NAME}`` in what a job file says: the environment variable of that name, so that secrets stand in no file."""

from __future__ import annotations

import os
import re
from typing import Final

from signalbook.pipeline.errors import PipelineError

VARIABLE: Final = re.compile(r"\$\{(\w+)\}", re.ASCII)


def filled(name: str, value: str | float | bool) -> str:
    """The option ``name`` as text, with its variables replaced. Raises ``PipelineError`` for one that is not set."""

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise PipelineError(f"the option {name} wants the environment variable {found[1]}, which is not set")
        return os.environ[found[1]]

    return VARIABLE.sub(variable, as_text(value))


def as_text(value: str | float | bool) -> str:
    """An option as text, as connectors and catalogs take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
