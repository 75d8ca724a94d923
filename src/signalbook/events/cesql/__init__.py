"""CloudEvents SQL: expressions over the attributes of one event (cloudevents/spec, cesql/spec.md, version 1)."""

from signalbook.events.cesql.evaluation import Expression, Outcome, parse
from signalbook.events.cesql.parser import Fault, ParseError, text

__all__ = ["Expression", "Fault", "Outcome", "ParseError", "parse", "text"]
