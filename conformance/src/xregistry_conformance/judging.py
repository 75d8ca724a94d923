"""Whether a response is what a step expects, errors included (core/spec.md "Error Processing", R278-R281)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from xregistry_conformance.cases import ANY_ERROR, ExpectedError, Step
from xregistry_conformance.errors import CATALOGUE, PLACEHOLDER, ErrorDefinition
from xregistry_conformance.matching import ABSENT, Mismatch, Variables, compare, fill, show
from xregistry_conformance.values import JSON
from xregistry_conformance.wire import WireResponse

_FREE: Final = "error_detail"
"""The argument that is a sentence of the server's own."""


def judge(step: Step, response: WireResponse, variables: Variables, *, exact_titles: bool) -> list[Mismatch]:
    """Return where ``response`` differs from what ``step`` expects. Captured values go into ``variables``.

    With ``exact_titles`` every error needs all parts of its definition and the exact title. The specification lets a
    server reword titles, and otherwise a step names the parts of an error that it is about.
    """
    if step.error:
        return [
            *_check_error(step.error, response, variables, exact=exact_titles),
            *_check_headers(step, response, variables),
        ]
    return list(_check_success(step, response, variables))


def _check_success(step: Step, response: WireResponse, variables: Variables) -> Iterator[Mismatch]:
    # After another status the rest would only be noise: one mismatch says it.
    if step.status and response.status not in step.status:
        yield _build_status_mismatch(" or ".join(map(str, step.status)), response)
        return
    if not step.status and not 200 <= response.status < 300:
        yield _build_status_mismatch("a success", response)
        return
    yield from _check_headers(step, response, variables)
    if step.text_is is not None:
        yield from compare(
            fill(_escape(step.text_is), variables), response.content.decode("utf-8", "replace"), variables
        )
    if step.expect is not ABSENT:
        yield from compare(fill(step.expect, variables), response.json(), variables)


def _check_headers(step: Step, response: WireResponse, variables: Variables) -> Iterator[Mismatch]:
    for name, expected in fill(dict(step.has), variables).items():
        yield from compare(expected, response.header(name), variables, f"header {name}")
    links = response.links() if step.links else {}
    for rel, expected in step.links.items():
        yield from compare(fill(expected, variables), links.get(rel, ABSENT), variables, f"Link rel={rel}")


def _escape(text: str) -> str:
    """A document that begins with a tilde is no word of the matching language."""
    return f"~{text}" if text.startswith("~~") else text


def _build_status_mismatch(expected: str, response: WireResponse) -> Mismatch:
    body = response.json()
    title = f" ({show(body.get('title', ABSENT))})" if isinstance(body, dict) and "title" in body else ""
    return Mismatch(path="status", expected=expected, actual=f"{response.status}{title}")


def _check_error(
    expected: ExpectedError, response: WireResponse, variables: Variables, *, exact: bool
) -> Iterator[Mismatch]:
    body = response.json()
    code = _find_code(body)
    definition = CATALOGUE.get(code)
    expected_code = expected.codes[0] if ANY_ERROR not in expected.codes else ""
    if not 400 <= response.status < 500:
        yield _build_status_mismatch(f"{expected_code or 'an error'} (4xx)", response)
    elif definition and response.status != definition.status:
        yield _build_status_mismatch(f"{definition.status}, the status of {code}", response)
    elif code in expected.codes:
        yield from _check_substitutions(CATALOGUE[code], expected, body, variables, exact=exact)
    elif expected_code:
        # "While it is RECOMMENDED that implementations use those errors (for consistency), they MAY choose to use a
        # more appropriate one" (core/spec.md "Error Processing"): that there is an error is the rule, which one is not.
        expected_codes = " or ".join(expected.codes)
        actual = f"{response.status} {show(body)}"
        yield Mismatch(path="error", expected=expected_codes, actual=actual, advice=f"{code} for {expected_code}")


def _find_code(body: JSON) -> str:
    return str(body.get("type", "")).partition("#")[2] if isinstance(body, dict) else ""


def _check_substitutions(
    definition: ErrorDefinition, expected: ExpectedError, body: dict[str, Any], variables: Variables, *, exact: bool
) -> Iterator[Mismatch]:
    """R280, R281: the arguments of the title, and what the error is about."""
    args = body.get("args", {})
    expected_args = dict.fromkeys(definition.arguments, "~string") if exact else {}
    for name, value in {**expected_args, **expected.args}.items():
        yield from compare(fill(value, variables), args.get(name, ABSENT), variables, f"/args/{name}")
    subject = body.get("subject", ABSENT)
    if expected.subject is not ABSENT:
        yield from compare(fill(expected.subject, variables), subject, variables, "/subject")
    elif exact and "<subject>" in definition.title and not (isinstance(subject, str) and subject):
        yield Mismatch(path="/subject", expected="what the error is about", actual=show(subject))
    yield from _check_title(definition, expected, body, exact=exact)


def _check_title(
    definition: ErrorDefinition, expected: ExpectedError, body: dict[str, Any], *, exact: bool
) -> Iterator[Mismatch]:
    values = {**body.get("args", {}), "subject": str(body.get("subject", ""))}
    title = str(body.get("title", ""))
    full = PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), definition.title)
    if exact and title not in (full, full.removesuffix(".")):
        yield Mismatch(path="/title", expected=full, actual=title)
    lost = [name for name in expected.args if name != _FREE and str(values.get(name)) not in title]
    if lost and not exact:
        yield Mismatch(path="/title", expected=f"the values of {', '.join(lost)} in it", actual=title)
