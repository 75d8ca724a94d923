"""The dialects of other APIs, whose needs every write meets. The engine knows them only by their base class."""

from __future__ import annotations

from typing import Final

from signalbook.cncf.dialect import CNCFDialect
from signalbook.confluent.dialect import ConfluentDialect
from signalbook.dialect import Dialect


class AllDialects(CNCFDialect, ConfluentDialect):
    """All dialects in one: each method is that of the dialect that overrides it. No method is overridden twice."""


DIALECTS: Final[Dialect] = AllDialects()
