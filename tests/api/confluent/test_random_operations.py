"""Operations of this API and of xRegistry's in any order: both show what a model of a few dictionaries shows."""

from __future__ import annotations

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
    """What there is of a subject: contents by number, those that are deleted by this API apart."""

    live: dict[int, str] = field(default_factory=dict)
    soft: dict[int, str] = field(default_factory=dict)
    level: str = "BACKWARD"

    def versions(self, *, deleted: bool) -> dict[int, str]:
        return dict(sorted(({**self.soft, **self.live} if deleted else self.live).items()))

    def found(self, content: str, *, deleted: bool = False) -> int | None:
        versions = self.versions(deleted=deleted)
        return max((number for number, each in versions.items() if each == content), default=None)

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
        """What is answered: the code of an error, or the body."""
        found = self.api.send(method, path, body)
        return found.json() if found.is_success else found.json()["error_code"]

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
        """By xRegistry; a level of this API is none of its rules."""
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
        """By xRegistry, for which there is nothing but what is not deleted."""
        self.api.client.send("DELETE", f"/schemagroups/{self.group(context)}/schemas/s")
        self.subjects[context, "s"].live = {}

    @invariant()
    def both_show_the_model(self) -> None:
        for context in "ab":
            known = {name: each for (where, name), each in self.subjects.items() if where == context}
            self.subjects_are_listed(context, known)
            for name, subject in known.items():
                self.versions_are_shown(context, name, subject)
            self.ids_are_found(context, known)

    def subjects_are_listed(self, context: str, known: dict[str, Subject]) -> None:
        prefix = f":.{self.group(context)}:"
        live = {f"{prefix}{name}" for name, each in known.items() if each.live}
        soft = {f"{prefix}{name}" for name, each in known.items() if each.soft}
        for flag, shown in (("", live), ("&deleted=true", live | soft), ("&deletedOnly=true", soft - live)):
            listed = self.send("GET", f"/subjects?subjectPrefix={prefix}{flag}")
            assert (sorted(listed), len(set(listed))) == (sorted(shown), len(listed))

    def versions_are_shown(self, context: str, name: str, subject: Subject) -> None:
        path = f"{self.path(context, name)}/versions"
        every = subject.versions(deleted=True)
        assert self.send("GET", path) == (sorted(subject.live) or 40401)
        assert self.send("GET", f"{path}?deleted=true") == (list(every) or 40401)
        if subject.live:
            last = self.send("GET", f"{path}/latest")
            wanted = (max(subject.live), subject.live[max(subject.live)])
            assert (last["version"], last["schema"]) == wanted
            assert last["id"] == self.ids[context][wanted[1]]

    def ids_are_found(self, context: str, known: dict[str, Subject]) -> None:
        """By this API, and as Versions by xRegistry."""
        prefix = f":.{self.group(context)}:"
        for content, number in self.ids[context].items():
            query = f"?subject={prefix}&deleted=true"
            having = [
                {"subject": f"{prefix}{name}", "version": version}
                for name, each in known.items()
                for version, text in each.versions(deleted=True).items()
                if text == content
            ]
            found = self.send("GET", f"/schemas/ids/{number}/versions{query}")
            assert found == 40403 if not having else sorted(found, key=str) == sorted(having, key=str)
        shown = self.api.client.get(f"/schemagroups/{self.group(context)}/schemas?inline=versions.schema")
        there = {
            (schema.get("subject", own), int(version), json.dumps(each["schema"]))
            for own, schema in (shown.json() if shown.is_success else {}).items()
            for version, each in schema["versions"].items()
        }
        assert there == {
            (name, version, json.dumps(json.loads(text)))
            for name, each in known.items()
            for version, text in each.live.items()
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
