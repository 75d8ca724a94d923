"""Operations of this API and of xRegistry's in any order: both show what a model of a few dictionaries shows."""

import json
from base64 import b64encode
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.api.confluent.conftest import BREAKING, ONE, TWO, Api
from tests.api.conftest import Serve

from signalbook.storage.store import Store

CONTENTS = tuple(json.dumps(json.loads(text), separators=(",", ":")) for text in (ONE, TWO, BREAKING))
"""The last one cannot read what either of the others wrote."""
EXAMPLES = count()


@dataclass
class Subject:
    """The expected state of a subject: its contents by version number, with the softly deleted ones separate."""

    live: dict[int, str] = field(default_factory=dict)
    soft: dict[int, str] = field(default_factory=dict)
    level: str = "BACKWARD"

    def versions(self, *, deleted: bool) -> dict[int, str]:
        return dict(sorted(({**self.soft, **self.live} if deleted else self.live).items()))

    def found(self, content: str, *, deleted: bool = False) -> int | None:
        versions = self.versions(deleted=deleted)
        return max((number for number, text in versions.items() if text == content), default=None)

    def takes(self, content: str) -> bool:
        last = self.live[max(self.live)] if self.live else content
        return self.level == "NONE" or content != BROKEN or last == BROKEN


BROKEN = CONTENTS[-1]
CONTEXTS, NAMES = st.sampled_from("ab"), st.sampled_from(["s", "T t"])
TEXTS, NUMBERS, FLAGS = st.sampled_from(CONTENTS), st.integers(1, 4), st.booleans()


class Machine(RuleBasedStateMachine):
    """The registry beside its model. Each example has contexts of its own, in which ids begin at 1."""

    api: Api

    @initialize()
    def begin(self) -> None:
        self.example = next(EXAMPLES)
        self.subjects: dict[tuple[str, str], Subject] = defaultdict(Subject)
        self.ids: dict[str, dict[str, int]] = {"a": {}, "b": {}}

    def group(self, context: str) -> str:
        return f"{context}{self.example}"

    def path(self, context: str, name: str) -> str:
        return f"/subjects/:.{self.group(context)}:{name.replace(' ', '%20')}"

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Return the body of the response, or the code of the error."""
        response = self.api.send(method, path, body)
        return response.json() if response.is_success else response.json()["error_code"]

    def id(self, context: str, content: str) -> int:
        """The id that a content has, or gets now."""
        return self.ids[context].setdefault(content, len(self.ids[context]) + 1)

    @rule(context=CONTEXTS, name=NAMES, content=TEXTS)
    def register(self, context: str, name: str, content: str) -> None:
        subject = self.subjects[context, name]
        answer = self.send("POST", f"{self.path(context, name)}/versions", {"schema": content})
        number = subject.found(content)
        if number is None and not subject.takes(content):
            assert answer == 40901
            return
        number = number or max([*subject.live, *subject.soft, 0]) + 1
        subject.live[number] = content
        assert (answer["version"], answer["id"]) == (number, self.id(context, content))

    @rule(context=CONTEXTS, name=NAMES, content=TEXTS, deleted=FLAGS)
    def look_up(self, context: str, name: str, content: str, deleted: bool) -> None:
        subject = self.subjects[context, name]
        answer = self.send("POST", f"{self.path(context, name)}?deleted={deleted}", {"schema": content})
        if not subject.versions(deleted=deleted):
            assert answer == 40401
        elif subject.found(content, deleted=deleted) is None:
            assert answer == 40403
        else:
            assert answer["version"] == subject.found(content, deleted=deleted)

    @rule(context=CONTEXTS, name=NAMES, content=TEXTS)
    def compare(self, context: str, name: str, content: str) -> None:
        path = f"/compatibility{self.path(context, name)}/versions/latest"
        assert self.send("POST", path, {"schema": content}) == {
            "is_compatible": self.subjects[context, name].takes(content)
        }

    @rule(context=CONTEXTS, name=NAMES, level=st.sampled_from(["NONE", "BACKWARD", None]))
    def configure(self, context: str, name: str, level: str | None) -> None:
        path = self.path(context, name).replace("/subjects", "/config")
        if level is not None:
            assert self.send("PUT", path, {"compatibility": level}) == {"compatibility": level}
        else:
            self.send("DELETE", path)
        self.subjects[context, name].level = level or "BACKWARD"

    @rule(context=CONTEXTS, name=NAMES, number=NUMBERS, permanent=FLAGS)
    def delete_version(self, context: str, name: str, number: int, permanent: bool) -> None:
        subject = self.subjects[context, name]
        answer = self.send("DELETE", f"{self.path(context, name)}/versions/{number}?permanent={permanent}")
        versions = subject.versions(deleted=True)
        if not versions or not (subject.live or permanent):
            assert answer == 40401
        elif number not in versions:
            assert answer == 40402
        elif (number in subject.live) == permanent:
            assert answer == (40407 if permanent else 40406)
        else:
            assert answer == number
            content = (subject.soft if permanent else subject.live).pop(number)
            subject.soft |= {} if permanent else {number: content}

    @rule(context=CONTEXTS, name=NAMES, permanent=FLAGS)
    def delete_subject(self, context: str, name: str, permanent: bool) -> None:
        subject = self.subjects[context, name]
        answer = self.send("DELETE", f"{self.path(context, name)}?permanent={permanent}")
        if not subject.live and not subject.soft:
            assert answer == 40401
        elif bool(subject.live) == permanent:
            assert answer == (40405 if permanent else 40404)
        else:
            assert answer == sorted(subject.soft if permanent else subject.live)
            subject.soft = {} if permanent else subject.soft | subject.live
            subject.live = {}

    @rule(context=CONTEXTS, number=NUMBERS, content=TEXTS)
    def put_version(self, context: str, number: int, content: str) -> None:
        """Add a version with xRegistry's API, which ignores the compatibility level of this API."""
        body = {
            "format": "Avro/1.11",
            "contenttype": "application/json",
            "schemabase64": b64encode(content.encode()).decode(),
        }
        path = f"/schemagroups/{self.group(context)}/schemas/s/versions/{number}$details"
        assert self.api.client.send("PUT", path, json=body).is_success
        self.subjects[context, "s"].live[number] = content
        self.id(context, content)

    @rule(context=CONTEXTS)
    def delete_schema(self, context: str) -> None:
        """Delete the schema with xRegistry's API, which sees only versions that are not deleted."""
        self.api.client.send("DELETE", f"/schemagroups/{self.group(context)}/schemas/s")
        self.subjects[context, "s"].live = {}

    @invariant()
    def both_show_the_model(self) -> None:
        for context in "ab":
            subjects = {
                name: expected_subject for (where, name), expected_subject in self.subjects.items() if where == context
            }
            self.subjects_are_listed(context, subjects)
            for name, subject in subjects.items():
                self.versions_are_shown(context, name, subject)
            self.ids_are_found(context, subjects)

    def subjects_are_listed(self, context: str, subjects: dict[str, Subject]) -> None:
        prefix = f":.{self.group(context)}:"
        live = {f"{prefix}{name}" for name, subject in subjects.items() if subject.live}
        soft = {f"{prefix}{name}" for name, subject in subjects.items() if subject.soft}
        for flag, expected in (("", live), ("&deleted=true", live | soft), ("&deletedOnly=true", soft - live)):
            listed = self.send("GET", f"/subjects?subjectPrefix={prefix}{flag}")
            assert (sorted(listed), len(set(listed))) == (sorted(expected), len(listed))

    def versions_are_shown(self, context: str, name: str, subject: Subject) -> None:
        path = f"{self.path(context, name)}/versions"
        every = subject.versions(deleted=True)
        assert self.send("GET", path) == (sorted(subject.live) or 40401)
        assert self.send("GET", f"{path}?deleted=true") == (list(every) or 40401)
        if subject.live:
            last = self.send("GET", f"{path}/latest")
            expected = (max(subject.live), subject.live[max(subject.live)])
            assert (last["version"], last["schema"]) == expected
            assert last["id"] == self.ids[context][expected[1]]

    def ids_are_found(self, context: str, subjects: dict[str, Subject]) -> None:
        """Check that this API and xRegistry's return the same versions for each id."""
        prefix = f":.{self.group(context)}:"
        for content, number in self.ids[context].items():
            query = f"?subject={prefix}&deleted=true"
            having = [
                {"subject": f"{prefix}{name}", "version": version}
                for name, subject in subjects.items()
                for version, text in subject.versions(deleted=True).items()
                if text == content
            ]
            versions = self.send("GET", f"/schemas/ids/{number}/versions{query}")
            assert versions == 40403 if not having else sorted(versions, key=str) == sorted(having, key=str)
        schemas = self.api.client.get(f"/schemagroups/{self.group(context)}/schemas?inline=versions.schema")
        there = {
            (schema.get("subject", schema_id), int(version), json.dumps(subject["schema"]))
            for schema_id, schema in (schemas.json() if schemas.is_success else {}).items()
            for version, subject in schema["versions"].items()
        }
        assert there == {
            (name, version, json.dumps(json.loads(text)))
            for name, subject in subjects.items()
            for version, text in subject.live.items()
        }


@pytest.mark.merge
def test_any_operations(store: Store, serve: Serve) -> None:
    class OnThisStore(Machine):
        pass

    OnThisStore.api = Api(serve(store, model="default"))
    run_state_machine_as_test(
        OnThisStore,
        settings=settings(
            max_examples=10,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
