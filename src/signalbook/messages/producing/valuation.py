"""Values for declared properties: given ones, expanded templates, constants (domain.md K-18, K-19, K-50)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from signalbook.messages.checks import names_schema as names_the_schema
from signalbook.messages.producing.inputs import names_schema
from signalbook.messages.properties import Context, Property, compile_property
from signalbook.messages.timestamps import LEGACY_NOW, NOW
from signalbook.messages.uritemplates import Template, TemplateError
from signalbook.values import Finding, parse_timestamp

# From a property without value to the one it has all the same, or None.
Default = Callable[[Property], Any]


class Valuation:
    """Finds a value for each property, collecting what is wrong; ``context`` grows by what given values capture."""

    def __init__(self, context: Mapping[str, str], default: Default) -> None:
        self.findings: list[Finding] = []
        self.context: Context = {}
        self._default = default
        self._used: set[str] = set()
        for name, value in context.items():
            if isinstance(value, str) and value:
                self.context[name] = value
            else:
                self.fault(f"{{{name}}}", "context", f"{name} must be text, and not empty; it is {value!r}")

    def fault(self, path: str, rule: str, message: str) -> None:
        """Note what is wrong."""
        self.findings.append(Finding(path=path, rule=rule, message=message))

    def of_all(self, properties: Iterable[Property], given: Mapping[str, Any]) -> dict[str, Any]:
        """The values by path of the property; ``given`` ones too. Properties that need none may have none."""
        declared = list(properties)
        taken = {entry.path: self._taken(entry, given[entry.path]) for entry in declared if entry.path in given}
        found: dict[str, Any] = {}
        for entry in declared:
            given_one = entry.path in taken
            value = taken[entry.path] if given_one else self._own(entry)
            if value is not None:
                again = entry.multiple and entry.path in found and not given_one
                found[entry.path] = (*_several(found[entry.path]), value) if again else value
        return found

    def unused(self) -> list[str]:
        """Names in the context that are in no value."""
        return [name for name in self.context if name not in self._used]

    def _taken(self, entry: Property, value: Any) -> Any:
        """A value that was given, held to what the property declares."""
        template = entry.template()
        self._used.update(template.names if template else ())
        captured: Context = dict(self.context)
        values = {entry.name: value if isinstance(value, tuple) or not entry.multiple else (value,)}
        if names_schema(entry):
            check = names_the_schema(str(entry.value), entry.required)
        else:
            check = compile_property(entry) or _passes
        finding = check(values, captured)
        if finding is not None:
            constant = finding.rule in ("value", "content_type") and entry.value is not None
            advice = "; the definition says so: leave it out" if constant else ""
            self.fault(entry.path, "constant" if constant else finding.rule, f"{finding.message}{advice}")
            return None
        self.context.update(captured)
        return value

    def _own(self, entry: Property) -> Any:
        """The value that the definition has for a property."""
        template = entry.template()
        if template is not None:
            return self._expanded(entry, template)
        if entry.value is not None and not names_schema(entry) and entry.value not in (NOW, LEGACY_NOW):
            return entry.value
        value = self._default(entry)
        if value is None and entry.required:
            told = f"the definition leaves its value open: give {entry.path} among the overrides"
            self.fault(entry.path, "required", f"{entry.name} is required, and {told}")
        return value

    def _expanded(self, entry: Property, template: Template) -> str | None:
        missing = [name for name in dict.fromkeys(template.names) if name not in self.context]
        if missing:
            if entry.required:
                named = ", ".join(missing)
                self.fault(entry.path, "context", f"{template.text!r} needs {named}: give it in the context")
            return None
        self._used.update(template.names)
        wanted = {name: self.context[name] for name in template.names}
        try:
            text = template.expand(self.context)
        except TemplateError as error:
            self.fault(entry.path, "context", str(error))
            return None
        read = template.match(text)
        if read != wanted:
            told = "as nothing of the kind" if read is None else f"as {read}"
            self.fault(
                entry.path, "context", f"{template.text!r} with {wanted} is {text!r}, which would be read {told}"
            )
            return None
        return text


def clash(context: Context, more: Mapping[str, str]) -> Iterator[Finding]:
    """Add ``more`` to ``context``; yields those names that have another value there (F-27)."""
    for name, value in more.items():
        if context.setdefault(name, value) != value:
            text = f"{{{name}}} stands for {context[name]!r} already, and {value!r} is given"
            yield Finding(path=f"{{{name}}}", rule="context", message=text)


def native(type: str, value: Any) -> Any:
    """A valid value of a property as Python has it, for a protocol whose values have types."""
    convert = _NATIVE.get(type)
    return convert(value) if convert is not None and isinstance(value, str) else value


def simple(type: str, value: Any) -> Any:
    """A valid value of a property: whole numbers and booleans as such, all else as it is."""
    return native(type, value) if type in ("integer", "boolean", "ulong") else value


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _passes(_: Any, __: Any) -> None:
    return None


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _timestamp(text: str) -> datetime:
    return parse_timestamp(text)


_NATIVE: Final[Mapping[str, Callable[[str], Any]]] = {
    "integer": int,
    "ulong": int,
    "number": _number,
    "boolean": lambda text: text == "true",
    "binary": b64decode,
    "timestamp": _timestamp,
    "uuid": UUID,
}
