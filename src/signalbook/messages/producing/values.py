"""Find the values of declared properties: given values, expanded templates, and constants (K-18, K-19, K-50)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from signalbook.messages.cloudevents import ATTRIBUTE_NAME
from signalbook.messages.definitions.definition import CompiledDefinition, names_schema
from signalbook.messages.properties import LEGACY_NOW, NOW, Context, Property, compile_property
from signalbook.messages.uritemplates import Template, TemplateError
from signalbook.values import Finding, parse_timestamp

# Returns the default value of a property without a declared value, or None.
Default = Callable[[Property], Any]


class Valuation:
    """Finds a value for each property, and collects findings.

    ``context`` has the values of placeholders. Values that templates capture from given values are added to it.
    """

    def __init__(self, context: Mapping[str, str], default: Default) -> None:
        self.findings: list[Finding] = []
        self.context: Context = {}
        self._default = default
        self._used: set[str] = set()
        for name, value in context.items():
            if isinstance(value, str) and value:
                self.context[name] = value
            else:
                self.report(f"{{{name}}}", "context", f"{name} must be text, and not empty; it is {value!r}")

    def report(self, path: str, rule: str, message: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(path=path, rule=rule, message=message))

    def of_all(self, properties: Iterable[Property], overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of ``properties`` by path. ``overrides`` are given values by path.

        Optional properties without a value are left out.
        """
        declared = list(properties)
        checked = {
            entry.path: self._check_given(entry, overrides[entry.path]) for entry in declared if entry.path in overrides
        }
        values: dict[str, Any] = {}
        for entry in declared:
            is_given = entry.path in checked
            value = checked[entry.path] if is_given else self._find_value(entry)
            if value is not None:
                again = entry.multiple and entry.path in values and not is_given
                values[entry.path] = (*_make_tuple(values[entry.path]), value) if again else value
        return values

    def unused(self) -> list[str]:
        """Return the names in the context that no value uses."""
        return [name for name in self.context if name not in self._used]

    def _check_given(self, entry: Property, value: Any) -> Any:
        """Return a given value if it conforms to the property, or else report a finding and return None."""
        template = entry.template()
        self._used.update(template.names if template else ())
        captured: Context = dict(self.context)
        values = {entry.name: value if isinstance(value, tuple) or not entry.multiple else (value,)}
        if is_schema_xid(entry):
            check = names_schema(str(entry.value), entry.required)
        else:
            check = compile_property(entry) or _accept_any
        finding = check(values, captured)
        if finding is not None:
            constant = finding.rule in ("value", "content_type") and entry.value is not None
            advice = "; the definition says so: leave it out" if constant else ""
            self.report(entry.path, "constant" if constant else finding.rule, f"{finding.message}{advice}")
            return None
        # Add captured values only if the value is valid, so that an invalid one does not affect other templates.
        self.context.update(captured)
        return value

    def _find_value(self, entry: Property) -> Any:
        """Return the value of a property from its template, its constant or its default, or None."""
        template = entry.template()
        if template is not None:
            return self._expand(entry, template)
        if entry.value is not None and not is_schema_xid(entry) and entry.value not in (NOW, LEGACY_NOW):
            return entry.value
        value = self._default(entry)
        if value is None and entry.required:
            advice = f"the definition leaves its value open: give {entry.path} among the overrides"
            self.report(entry.path, "required", f"{entry.name} is required, and {advice}")
        return value

    def _expand(self, entry: Property, template: Template) -> str | None:
        missing = [name for name in dict.fromkeys(template.names) if name not in self.context]
        if missing:
            if entry.required:
                missing_names = ", ".join(missing)
                self.report(entry.path, "context", f"{template.text!r} needs {missing_names}: give it in the context")
            return None
        self._used.update(template.names)
        expected = {name: self.context[name] for name in template.names}
        try:
            text = template.expand(self.context)
        except TemplateError as error:
            self.report(entry.path, "context", str(error))
            return None
        # Match the expanded text again: a value that contains the separator would be read as another value.
        read = template.match(text)
        if read != expected:
            result = "as nothing of the kind" if read is None else f"as {read}"
            self.report(
                entry.path, "context", f"{template.text!r} with {expected} is {text!r}, which would be read {result}"
            )
            return None
        return text


def merge_context(context: Context, more: Mapping[str, str]) -> Iterator[Finding]:
    """Add ``more`` to ``context``, and yield a finding for each name that has another value there (F-27)."""
    for name, value in more.items():
        if context.setdefault(name, value) != value:
            text = f"{{{name}}} stands for {context[name]!r} already, and {value!r} is given"
            yield Finding(path=f"{{{name}}}", rule="context", message=text)


def native(type: str, value: Any) -> Any:
    """Return a valid value of a property as the Python type for ``type``, for protocols with typed values."""
    convert = _NATIVE.get(type)
    return convert(value) if convert is not None and isinstance(value, str) else value


def simple(type: str, value: Any) -> Any:
    """Return a valid value of a property, converted to ``int`` or ``bool`` if ``type`` is an integer or boolean."""
    return native(type, value) if type in ("integer", "boolean", "ulong") else value


def _make_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _accept_any(_: Any, __: Any) -> None:
    return None


def _parse_number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _parse_timestamp(text: str) -> datetime:
    return parse_timestamp(text)


_NATIVE: Final[Mapping[str, Callable[[str], Any]]] = {
    "integer": int,
    "ulong": int,
    "number": _parse_number,
    "boolean": lambda text: text == "true",
    "binary": b64decode,
    "timestamp": _parse_timestamp,
    "uuid": UUID,
}


ENVELOPE: Final = "envelopemetadata."


OPTIONS: Final = "protocoloptions."


def is_schema_xid(declared: Property) -> bool:
    """Return True if the property is ``dataschema`` and its value is an xid instead of a URI."""
    return declared.path == "envelopemetadata.dataschema" and str(declared.value or "").startswith("/")


def shorten_name(declared: Property) -> str:
    """Return the name of an attribute, or the path of a protocol's property."""
    return declared.path.removeprefix(ENVELOPE)


def by_path(
    properties: Iterable[Property], overrides: Mapping[str, Any], definition: CompiledDefinition
) -> tuple[dict[str, Any], list[Finding]]:
    """Return ``overrides`` by the path of their property, and findings for names that the message cannot have.

    A name that is not a path is the name of an attribute. Attributes and options need not be declared.
    """
    declared = list(properties)
    paths = {entry.path: entry.path for entry in declared}
    paths |= {OPTIONS + entry.name: entry.path for entry in declared if entry.path.startswith(OPTIONS)}
    values: dict[str, Any] = {}
    findings = []
    for name, value in overrides.items():
        path = name if name.startswith((ENVELOPE, OPTIONS)) else ENVELOPE + name
        if path in paths or _can_have(path, definition):
            values[paths.get(path, path)] = value
        else:
            there = ", ".join(map(shorten_name, declared)) or "none"
            text = f"there is no property {name}; there are: {there}"
            findings.append(Finding(path=name, rule="unknown", message=text))
    return values, findings


def declare_undeclared(properties: Iterable[Property], overrides: Mapping[str, Any]) -> list[Property]:
    """Return properties for ``overrides`` that are not declared, such as additional attributes or headers."""
    declared = {entry.path for entry in properties}
    return [Property(name=path.partition(".")[2], path=path, type="any") for path in overrides if path not in declared]


def build_option_values(
    properties: Iterable[Property], values_by_path: Mapping[str, Any], protocol: str
) -> dict[str, Any]:
    """Return the values of protocol properties by name, as the binding takes them. Only AMQP has typed values."""
    convert = native if protocol == "AMQP/1.0" else simple
    return {
        entry.path.removeprefix(OPTIONS): convert(entry.type, values_by_path[entry.path])
        for entry in properties
        if entry.path.startswith(OPTIONS) and entry.path in values_by_path
    }


def _can_have(path: str, definition: CompiledDefinition) -> bool:
    """Return True if a message of the definition may have a property that is not declared."""
    if path.startswith(OPTIONS):
        return bool(definition.protocol)
    return definition.is_event and ATTRIBUTE_NAME.fullmatch(path.removeprefix(ENVELOPE)) is not None
