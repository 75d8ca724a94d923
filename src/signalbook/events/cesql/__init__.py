"""CloudEvents SQL: expressions over the attributes of one event (cloudevents/spec, cesql/spec.md, version 1)."""

from signalbook.events.cesql.evaluation import CesqlExpression, EvaluationResult, parse
from signalbook.events.cesql.parser import ErrorKind, ParseError, text

__all__ = ["CesqlExpression", "ErrorKind", "EvaluationResult", "ParseError", "parse", "text"]
