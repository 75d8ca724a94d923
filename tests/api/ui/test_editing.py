"""Editing: forms that save what is entered, or say why not; tokens; conflicts; who may."""

import re
from typing import Any

import httpx
import pytest

from signalbook.api.ui import forms
from signalbook.api.ui.pages import escape_hidden, restore_hidden
from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .conftest import Document, parse, show
from .test_pages import HOSTILE, harmless

GROUP = "/messagegroups/shop"
SCHEMA = "/schemagroups/shop/schemas/order"
MESSAGE = "/messagegroups/shop/messages/placed"


def fields(page: Document) -> dict[str, str]:
    """Return the values that a browser would send for the edit form."""
    form = next(tag for tag in page.all("form") if tag.get("class") == "edit")
    values = {str(tag.get("name")): tag.get("value", "") for tag in form.iter("input") if tag.get("name")}
    for mark in (tag for tag in form.iter("input") if tag.get("type") == "checkbox"):
        if "checked" not in mark.attrib:
            del values[str(mark.get("name"))]
    for box in form.iter("textarea"):
        values[str(box.get("name"))] = "".join(box.itertext()).replace("\n", "\r\n")
    for choice in form.iter("select"):
        chosen = [tag for tag in choice.iter("option") if "selected" in tag.attrib]
        values[str(choice.get("name"))] = chosen[0].get("value", "") if chosen else ""
    return values


def opened(client: Client, path: str, **sent: Any) -> dict[str, str]:
    page = show(client, f"/-/edit{path}", **sent)
    assert page.status == 200, page.text
    harmless(page)
    return fields(page)


def post(client: Client, path: str, form: dict[str, str], do: str = "save", **sent: Any) -> httpx.Response:
    return client.send("POST", f"/ui/-/edit{path}", data={**form, "do": do}, **sent)


def refused(client: Client, path: str, form: dict[str, str], status: int, do: str = "save") -> Document:
    """The page of a form that was not saved: nothing is written."""
    before = client.get("/export").text
    answer = post(client, path, form, do)
    assert answer.status_code == status, answer.text
    assert client.get("/export").text == before
    page = Document(answer.status_code, answer.headers, answer.text, parse(answer.text))
    harmless(page)
    return page


def test_attributes_are_saved_and_nothing_else(explorer: Client) -> None:
    before = explorer.get(GROUP).json()
    form = opened(explorer, GROUP)
    assert form["labels"] == "team=checkout"
    form |= {"description": "All\r\nof them", "labels": "team=payment\r\nnew="}
    form["deprecated.removal"] = "2031-01-01T00:00:00Z"
    answer = post(explorer, GROUP, form)
    assert (answer.status_code, answer.headers["location"]) == (303, f"http://r.example/ui{GROUP}")
    after = explorer.get(GROUP).json()
    assert after.pop("description") == "All\nof them"
    assert after.pop("labels") == {"team": "payment", "new": ""}
    assert after.pop("deprecated") == {**before.pop("deprecated"), "removal": "2031-01-01T00:00:00Z"}
    changes = {"epoch", "modifiedat"}
    assert {name: value for name, value in before.items() if name not in {"labels", *changes}} == {
        name: value for name, value in after.items() if name not in changes
    }


def test_unchanged_form_writes_nothing(explorer: Client) -> None:
    explorer.send("PATCH", GROUP, json={"description": "a\r\nb \u202ec", "labels": {"a": "b\u200b"}})
    for path in (GROUP, f"{MESSAGE}/versions/1", f"{MESSAGE}/meta"):
        before = explorer.get("/export").text
        assert post(explorer, path, opened(explorer, path)).status_code == 303
        assert explorer.get("/export").text == before


def test_deprecation_can_be_set_and_removed(explorer: Client) -> None:
    form = opened(explorer, GROUP)
    del form["deprecated"]
    assert post(explorer, GROUP, form).status_code == 303
    assert "deprecated" not in explorer.get(GROUP).json()
    form = opened(explorer, GROUP) | {"deprecated.removal": "2031-01-01T00:00:00Z"}
    assert "mark it as deprecated, too" in refused(explorer, GROUP, form, 400).words("main")


def test_dates_of_a_deprecation_have_date_fields(explorer: Client) -> None:
    name = "deprecated.removal"
    form = opened(explorer, GROUP)
    assert (form["deprecated.effective"], form[name]) == ("2030-01-01", "")
    kinds = {tag.get("name"): tag.get("type") for tag in show(explorer, f"/-/edit{GROUP}").all("input")}
    assert (kinds["deprecated.effective"], kinds[name], kinds["deprecated.alternative"]) == ("date", "date", "text")
    assert post(explorer, GROUP, form | {name: "2031-02-03"}).status_code == 303
    deprecated = explorer.get(GROUP).json()["deprecated"]
    assert (deprecated["effective"], deprecated["removal"]) == ("2030-01-01T00:00:00Z", "2031-02-03T00:00:00Z")
    early = opened(explorer, GROUP) | {name: "2029-01-01"}
    assert "must not be before effective" in refused(explorer, GROUP, early, 400).words("main")


def test_time_of_a_deprecation_is_kept(explorer: Client) -> None:
    deprecated = {"effective": "2030-01-01T12:30:00Z", "removal": "2031-01-01T00:00:00.500000Z"}
    assert explorer.send("PATCH", GROUP, json={"deprecated": deprecated}).is_success
    form = opened(explorer, GROUP)
    assert {name: form[f"deprecated.{name}"] for name in deprecated} == deprecated
    assert post(explorer, GROUP, form | {"deprecated.alternative": "https://example.com/new"}).status_code == 303
    assert explorer.get(GROUP).json()["deprecated"] == {**deprecated, "alternative": "https://example.com/new"}


def test_the_default_version_is_chosen(explorer: Client) -> None:
    path = f"{SCHEMA}/meta"
    assert post(explorer, path, opened(explorer, path) | {"defaultversionid": "1"}).status_code == 303
    meta = explorer.get(path).json()
    assert (meta["defaultversionid"], meta["defaultversionsticky"]) == ("1", True)
    assert post(explorer, path, opened(explorer, path) | {"defaultversionid": ""}).status_code == 303
    assert explorer.get(path).json()["defaultversionid"] == "2"
    page = refused(explorer, path, opened(explorer, path) | {"defaultversionid": "9"}, 400)
    assert "cannot be found" in page.words("main")


def test_a_check_stores_nothing(explorer: Client) -> None:
    page = refused(explorer, GROUP, opened(explorer, GROUP) | {"name": "Another"}, 200, "check")
    assert "It can be saved" in page.words("main")
    assert f"updated {GROUP}" in page.words("main")
    assert fields(page)["name"] == "Another"
    assert post(explorer, GROUP, fields(page)).status_code == 303
    assert explorer.get(GROUP).json()["name"] == "Another"


def test_conflicting_edit_is_shown_three_ways_and_not_saved(explorer: Client) -> None:
    """Every differing field shows its original, stored and edited value; unedited fields have the stored value."""
    same = "https://example.com/same"
    form = opened(explorer, GROUP) | {"name": "Mine", "labels": "team=mine", "documentation": same}
    theirs = {"name": "Theirs", "description": "New", "documentation": same, "deprecated": None}
    explorer.send("PATCH", GROUP, json=theirs)
    page = refused(explorer, GROUP, form, 409)
    words = page.words("main")
    assert "changed meanwhile" in words
    assert "epoch" not in words, "a word for machines"
    texts = {
        str(tag.get("id")): " ".join(" ".join(tag.itertext()).split())
        for tag in page.all("div")
        if "stored" in (tag.get("class") or "").split()
    }
    both = "Somebody else changed it, and so did you: what you entered is in the field."
    other = "Somebody else changed it, and you did not: the field has what is stored now."
    was = "When you opened the form"
    assert texts["field-name-stored"] == f"{both} {was} Orders Stored now Theirs"
    assert texts["field-description-stored"] == f"{other} {was} nothing Stored now New"
    assert texts["field-labels-stored"] == f"You changed it; nobody else did. {was} team=checkout"
    assert texts["field-deprecated-stored"] == f"{other} {was} yes Stored now nothing"
    assert "field-documentation-stored" not in texts, "both want the same"
    again = fields(page)
    assert (again["name"], again["description"], again["labels"]) == ("Mine", "New", "team=mine")
    assert "deprecated" not in again
    assert post(explorer, GROUP, again).status_code == 303
    stored = explorer.get(GROUP).json()
    assert (stored["name"], stored["description"], stored["labels"]) == ("Mine", "New", {"team": "mine"})
    assert "deprecated" not in stored


def test_a_form_of_which_the_beginning_is_not_known_still_overwrites_nothing(explorer: Client) -> None:
    form = {name: text for name, text in opened(explorer, GROUP).items() if not name.startswith("was.")}
    explorer.send("PATCH", GROUP, json={"name": "Theirs"})
    page = refused(explorer, GROUP, form | {"name": "Mine"}, 409)
    assert "It differs from what is stored now. Stored now Theirs" in page.words("main")
    assert fields(page)["name"] == "Mine"


def test_returned_form_keeps_the_original_values(explorer: Client) -> None:
    form = opened(explorer, GROUP) | {"name": "Mine"}
    checked = post(explorer, GROUP, form, "check")
    again = fields(Document(200, checked.headers, checked.text, parse(checked.text)))
    assert again | {"token": ""} == form | {"token": ""}
    explorer.send("PATCH", GROUP, json={"name": "Theirs"})
    assert "When you opened the form Orders Stored now Theirs" in refused(explorer, GROUP, again, 409).words("main")


def test_new_version_from_an_outdated_form_is_rejected(explorer: Client) -> None:
    path = f"{SCHEMA}/versions"
    form = opened(explorer, path)
    explorer.send("PATCH", f"{SCHEMA}/versions/2$details", json={"name": "Theirs"})
    refused(explorer, path, form, 409)


def test_without_the_right_token_nothing_is_written(explorer: Client, store: Store, serve: Serve) -> None:
    form = opened(explorer, GROUP) | {"name": "Mine"}
    other = serve(store, model="default")
    foreign = opened(other, GROUP)["token"]
    elsewhere = opened(explorer, f"{SCHEMA}/meta")["token"]
    for token in ("", "x", "é", foreign, elsewhere):
        assert "Nothing was done" in refused(explorer, GROUP, form | {"token": token}, 403).words("main")
    assert post(other, GROUP, form).status_code == 403, "another browser's"
    sent = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert post(explorer, GROUP, form, headers=sent).status_code == 403
    assert post(explorer, GROUP, form).status_code == 303


def test_the_cookie_is_out_of_reach(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", base_url="https://example.com/r", allow_hosts=("r.example",))
    client.put("/messagegroups/g", {})
    cookie = show(client, "/-/edit/messagegroups/g").headers["set-cookie"]
    assert re.fullmatch(r"__Host-signalbook-form=[\w-]{43}; HttpOnly; SameSite=Lax; Path=/; Secure", cookie)


def test_form_requires_the_right_to_write(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    client.put("/messagegroups/g", {"messages": {"m": {}}})
    reads = {"who": ["subject:ann", "subject:bob"], "role": "reader"}
    put_policy(store, reads, {"who": ["subject:bob"], "role": "writer", "on": ["/messagegroups/g/messages/m"]})
    ann, bob = {"X-User": "ann"}, {"X-User": "bob"}
    message = "/messagegroups/g/messages/m"
    assert "Edit" not in show(client, message, headers=ann).links()
    assert show(client, message, headers=bob).links()["Edit"] == f"/ui/-/edit{message}/versions/1"
    assert show(client, f"/-/edit{message}/meta", headers=ann).status == 403
    assert show(client, "/-/edit/messagegroups/g", headers=bob).status == 403
    assert show(client, f"/-/edit{message}/meta").status == 401
    form = opened(client, f"{message}/versions/1", headers=bob) | {"name": "Bob's"}
    assert post(client, f"{message}/versions/1", form, headers=ADMINISTRATOR).status_code == 403, "it is bob's form"
    assert post(client, f"{message}/versions/1", form, headers=bob).status_code == 303
    assert client.get(f"{message}/versions/1", headers=ann).json()["name"] == "Bob's"
    put_policy(store, reads)
    assert post(client, f"{message}/versions/1", form, headers=bob).status_code == 403


def test_error_is_shown_at_its_field_and_input_is_kept(explorer: Client) -> None:
    form = opened(explorer, GROUP) | {"documentation": "no url <b>", "name": "kept"}
    page = refused(explorer, GROUP, form, 400)
    assert fields(page)["documentation"] == "no url <b>"
    assert fields(page)["name"] == "kept"
    (wrong,) = [tag for tag in page.all("input") if tag.get("aria-invalid")]
    assert wrong.get("name") == "documentation"
    assert f"#{wrong.get('id')}" in page.links().values()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_content_is_echoed_as_text(explorer: Client, text: str) -> None:
    form = opened(explorer, GROUP) | {"description": text, "documentation": text, "labels": text}
    page = refused(explorer, GROUP, form, 200, "check")
    assert fields(page)["description"] == escape_hidden(text)
    assert post(explorer, GROUP, opened(explorer, GROUP) | {"description": fields(page)["description"]}).is_redirect
    assert explorer.get(GROUP).json()["description"] == text
    path = "/schemagroups/shop/schemas"
    new = {name: value if name in ("token", "made-from") else text for name, value in opened(explorer, path).items()}
    assert fields(refused(explorer, path, new, 400))["id"] == escape_hidden(text)


def test_hidden_characters_survive_a_form() -> None:
    for text in ("a\u202eb\x00\U000e0001", "⟨U+0041⟩ ⟨U+FFFFFF⟩ ⟨U+D800⟩"):
        assert restore_hidden(str(escape_hidden(text))) == text


def test_a_document_becomes_a_new_version(explorer: Client) -> None:
    path = f"{SCHEMA}/versions"
    form = opened(explorer, path)
    assert '"title": "A better one"' in form["document"].replace('":"', '": "')
    assert form["format"] == "JsonSchema/draft-07"
    assert form["attributes"] == "{}", "what the registry itself says is not sent back"
    form |= {"document": '{"type": "object", "title": "The best"}', "versionid": "best"}
    checked = refused(explorer, path, form, 200, "check")
    assert f"created {SCHEMA}/versions/best" in checked.words("main")
    assert checked.links()["try the change there"] == f"/ui/-/impact{SCHEMA}#try-a-change"
    answer = post(explorer, path, fields(checked))
    assert answer.headers["location"] == f"http://r.example/ui{SCHEMA}/versions/best"
    assert explorer.get(f"{SCHEMA}/versions/best").json()["title"] == "The best"
    assert explorer.get(f"{SCHEMA}/versions/best$details").json()["format"] == "JsonSchema/draft-07"


def test_document_is_filled_in_with_indentation_and_shown_with_highlighting(explorer: Client) -> None:
    path, schema = f"{SCHEMA}/versions", '{"type":"object","maximum":1.0,"title":"caf\\u00e9 \\/","minimum":1E2}'
    headers = {"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"}
    assert explorer.send("PUT", f"{path}/3", content=schema, headers=headers).is_success
    form = opened(explorer, path)
    indented = '{\r\n  "type": "object",\r\n  "maximum": 1.0,\r\n  "title": "caf\\u00e9 \\/",\r\n  "minimum": 1E2\r\n}'
    assert form["document"] == indented, "only the space between values differs"
    assert show(explorer, f"/-/edit{path}").all("pre") == []
    for document in ('{"type": "object", "title": "<script>"}', "[" * 10_000):
        answer = post(explorer, path, form | {"document": document}, "check")
        page = Document(answer.status_code, answer.headers, answer.text, parse(answer.text))
        harmless(page)
    page = refused(explorer, path, form | {"document": schema}, 200, "check")
    (markup,) = page.all("pre")
    assert "".join(markup.itertext()) == indented.replace("\r\n", "\n")
    assert [tag.get("class") for tag in markup.iter("span")].count("nt") == 4
    assert "The document with highlighting: JsonSchema/draft-07" in page.words("main")
    assert fields(page)["document"] == schema, "what was entered is kept"


def test_document_whose_indentation_is_too_long_is_filled_in_as_stored(explorer: Client) -> None:
    path = f"{SCHEMA}/versions"
    schema = '{"enum":[' + ",".join(["1"] * 20_000) + "]}"
    headers = {"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"}
    assert explorer.send("PUT", f"{path}/3", content=schema, headers=headers).is_success
    assert opened(explorer, path)["document"] == schema


def test_document_that_is_too_long_with_indentation_is_not_shown(explorer: Client) -> None:
    path = f"{SCHEMA}/versions"
    for count, shown in ((1_000, 1), (3_000, 0)):
        schema = '{"enum":[' + ",".join(str(number) for number in range(count)) + "]}"
        page = refused(explorer, path, opened(explorer, path) | {"document": schema}, 200, "check")
        assert len(page.all("pre")) == shown, count
        assert ("The document with highlighting" in page.words("main")) is (shown == 1)


def record_calls_in_turn(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Record the arguments of calls of a function of the module ``forms`` while a submitted form is executed."""
    function, execute = getattr(forms, name), forms.Posted.execute
    in_turn: list[bool] = []
    calls: list[object] = []

    def record(*arguments: Any) -> Any:
        if in_turn:
            calls.append(arguments)
        return function(*arguments)

    def execute_in_turn(*arguments: Any) -> Any:
        in_turn.append(True)
        try:
            return execute(*arguments)
        finally:
            in_turn.clear()

    monkeypatch.setattr(forms, name, record)
    monkeypatch.setattr(forms.Posted, "execute", execute_in_turn)
    return calls


def test_stored_document_is_not_indented_in_the_turn_of_the_write(
    explorer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls_in_turn(monkeypatch, "indent_single_line")
    path = f"{SCHEMA}/versions"
    form = opened(explorer, path) | {"document": '{"type": "object"}'}
    for do, status in (("check", 200), ("save", 303)):
        assert post(explorer, path, form, do).status_code == status
    assert calls == []


def test_an_incompatible_document_is_explained(explorer: Client) -> None:
    explorer.send("PATCH", f"{SCHEMA}/meta", json={"compatibility": "backward"})
    path = f"{SCHEMA}/versions"
    form = opened(explorer, path) | {"document": '{"type": "object", "required": ["id"]}'}
    for do, status in (("check", 200), ("save", 400)):
        page = refused(explorer, path, form, status, do)
        assert "compatibility" in page.words("main")
        assert "required" in page.words("main")
        assert "#field-document" in page.links().values()


def test_existing_version_is_not_replaced(explorer: Client) -> None:
    path = f"{SCHEMA}/versions"
    for wrong in ({"versionid": "1"}, {"attributes": '{"versionid": "1"}'}):
        assert "already" in refused(explorer, path, opened(explorer, path) | wrong, 400).words("main")
    for wrong in ({"document": ""}, {"attributes": "[]"}, {"attributes": "{"}, {"format": "Avro/1.11"}):
        refused(explorer, path, opened(explorer, path) | wrong, 400)


def test_attributes_become_a_new_version_of_a_message(explorer: Client) -> None:
    path = f"{MESSAGE}/versions"
    form = opened(explorer, path)
    form["attributes"] = form["attributes"].replace("shop.placed", "shop.placed.v2")
    assert post(explorer, path, form).headers["location"] == f"http://r.example/ui{MESSAGE}/versions/2"
    version = explorer.get(f"{MESSAGE}/versions/2").json()
    assert version["envelopemetadata"]["type"]["value"] == "shop.placed.v2"
    assert version["labels"] == {"pii": "yes", "empty": ""}


def test_group_is_created(explorer: Client) -> None:
    """Groups of any type can be created; required attributes without a field are entered as JSON."""
    assert show(explorer, "/messagegroups").links()["New messagegroup"] == "/ui/-/edit/messagegroups"
    form = opened(explorer, "/messagegroups") | {"id": "paid", "name": "Paid", "labels": "team=x"}
    answer = post(explorer, "/messagegroups", form)
    assert (answer.status_code, answer.headers["location"]) == (303, "http://r.example/ui/messagegroups/paid")
    group = explorer.get("/messagegroups/paid").json()
    assert (group["name"], group["labels"], group["epoch"]) == ("Paid", {"team": "x"}, 1)
    assert "description" not in group
    form = opened(explorer, "/endpoints") | {"id": "new"}
    page = refused(explorer, "/endpoints", form | {"attributes": '{"usage": 1}'}, 400)
    (wrong,) = [tag.get("name") for tag in page.all("textarea") if tag.get("aria-invalid")]
    assert wrong == "attributes"
    assert post(explorer, "/endpoints", form | {"attributes": '{"usage": ["consumer"]}'}).status_code == 303
    assert explorer.get("/endpoints/new").json()["usage"] == ["consumer"]


def test_required_attributes_are_requested(store: Store, serve: Serve) -> None:
    client = serve(store)
    boxes = {"singular": "box", "attributes": {"size": {"type": "integer", "required": True}}}
    assert client.put("/modelsource", {"groups": {"boxes": boxes}}).is_success
    assert "It needs size (integer)." in show(client, "/-/edit/boxes").words("main")
    form = opened(client, "/boxes") | {"id": "b"}
    page = refused(client, "/boxes", form, 400)
    assert [tag.get("name") for tag in page.all("textarea") if tag.get("aria-invalid")] == ["attributes"]
    assert post(client, "/boxes", form | {"attributes": '{"size": 3}'}).status_code == 303
    assert client.get("/boxes/b").json()["size"] == 3


def test_a_schema_is_made_with_its_first_version(explorer: Client) -> None:
    path = "/schemagroups/shop/schemas"
    links = show(explorer, "/schemagroups/shop").links()
    assert links["New schema"] == show(explorer, path).links()["New schema"] == f"/ui/-/edit{path}"
    document = '{"type": "object"}\r\n'
    form = opened(explorer, path) | {"id": "paid", "versionid": "v1", "name": "Paid", "document": document}
    form |= {"format": "JsonSchema/draft-07", "contenttype": "application/json"}
    assert "created /schemagroups/shop/schemas/paid/versions/v1" in post(explorer, path, form, "check").text
    assert explorer.get(f"{path}/paid").status_code == 404
    assert post(explorer, path, form).status_code == 303
    assert explorer.get(f"{path}/paid").text == '{"type": "object"}\n'
    schema = explorer.get(f"{path}/paid$details").json()
    assert (schema["versionid"], schema["name"], schema["format"]) == ("v1", "Paid", "JsonSchema/draft-07")
    assert schema["contenttype"] == "application/json"


FORMATS_OF_DOCUMENTS = {
    "JsonSchema/draft-07": ('{"$schema": "http://json-schema.org/draft-07/schema#"}', "application/schema+json"),
    "Avro/1.12.0": ('{"type": "record", "name": "Paid", "fields": []}', "application/json"),
    "Protobuf/3": ('syntax = "proto3";\r\nmessage Paid {}\r\n', "text/plain"),
    "XSD/1.1": ('<schema xmlns="http://www.w3.org/2001/XMLSchema"/>', "application/xml"),
}


@pytest.mark.parametrize("format", FORMATS_OF_DOCUMENTS)
def test_format_and_content_type_are_detected(explorer: Client, format: str) -> None:
    path = "/schemagroups/shop/schemas"
    document, contenttype = FORMATS_OF_DOCUMENTS[format]
    form = opened(explorer, path)
    assert form["format"] == "", "it is detected unless a format is chosen"
    assert post(explorer, path, form | {"id": "paid", "document": document}).status_code == 303
    schema = explorer.get(f"{path}/paid$details").json()
    assert (schema["format"], schema["contenttype"]) == (format, contenttype)


def test_format_is_not_detected_in_the_turn_of_the_write(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = record_calls_in_turn(monkeypatch, "guess_format")
    path = "/schemagroups/shop/schemas"
    document, _ = FORMATS_OF_DOCUMENTS["JsonSchema/draft-07"]
    form = opened(explorer, path) | {"id": "paid", "document": document}
    for do, status in (("check", 200), ("save", 303)):
        assert post(explorer, path, form, do).status_code == status
    assert calls == []


def test_formats_of_the_registry_can_be_chosen(explorer: Client) -> None:
    path = "/schemagroups/shop/schemas"
    (choice,) = [tag for tag in show(explorer, f"/-/edit{path}").all("select") if tag.get("name") == "format"]
    names = [tag.get("value", "") for tag in choice.iter("option")]
    assert names[0] == ""
    assert {"Avro/1.11", "JsonSchema/draft/2020-12", "Protobuf/3", "XSD/1.0"} < set(names)
    assert not any("*" in name for name in names)
    form = opened(explorer, path) | {"id": "own", "document": "anything"}
    page = refused(explorer, path, form, 400)
    assert "the document does not show its format" in page.words("main")
    assert [tag.get("name") for tag in page.all("select") if tag.get("aria-invalid")] == ["format"]
    assert post(explorer, path, form | {"attributes": '{"format": "Own/1"}'}).status_code == 303
    assert explorer.get(f"{path}/own$details").json()["format"] == "Own/1"


def test_format_of_a_group_is_preselected(explorer: Client) -> None:
    assert explorer.put("/schemagroups/avro", {"format": "Avro/1.11"}).is_success
    path = "/schemagroups/avro/schemas"
    form = opened(explorer, path) | {"id": "row", "document": FORMATS_OF_DOCUMENTS["Avro/1.12.0"][0]}
    assert form["format"] == "Avro/1.11"
    assert post(explorer, path, form).status_code == 303


def test_compatibility_is_chosen_for_a_new_schema(explorer: Client) -> None:
    path = "/schemagroups/shop/schemas"
    form = opened(explorer, path) | {"id": "paid", "document": '{"type": "object", "properties": {}}'}
    assert form["compatibility"] == ""
    page = show(explorer, f"/-/edit{path}")
    assert "full: A new version and the previous version can read each other's data." in page.words("main")
    assert "compatibility" not in opened(explorer, "/messagegroups/shop/messages"), "messages are not compared"
    other = {"attributes": '{"meta": {"labels": {"a": "b"}}}'}
    assert post(explorer, path, form | {"compatibility": "full"} | other).status_code == 303
    meta = explorer.get(f"{path}/paid/meta").json()
    assert (meta["compatibility"], meta["labels"], meta["epoch"]) == ("full", {"a": "b"}, 1)
    assert explorer.get(f"{path}/paid").text == form["document"]
    for wrong in ({"compatibility": "none"}, {"attributes": '{"meta": 1}', "compatibility": "full"}):
        refused(explorer, path, form | {"id": "other"} | wrong, 400)


def test_compatibility_of_a_schema_is_shown_and_changed(explorer: Client) -> None:
    path = f"{SCHEMA}/meta"
    page = show(explorer, SCHEMA)
    assert "It has no compatibility rule" in page.words("main")
    assert page.links()["Set a rule"] == f"/ui/-/edit{path}#field-compatibility"
    assert post(explorer, path, opened(explorer, path) | {"compatibility": "backward"}).status_code == 303
    assert explorer.get(path).json()["compatibility"] == "backward"
    page = show(explorer, SCHEMA)
    assert "Compatibility: backward A new version can read data of the previous version." in page.words("main")
    assert page.links()["Change the rule"] == f"/ui/-/edit{path}#field-compatibility"
    assert "no compatibility rule" not in page.words()
    form = opened(explorer, path)
    assert form["compatibility"] == "backward"
    assert post(explorer, path, form | {"compatibility": ""}).status_code == 303
    assert "compatibility" not in explorer.get(path).json()


def test_rule_in_capitals_survives_the_form(explorer: Client) -> None:
    path = f"{SCHEMA}/meta"
    assert explorer.send("PATCH", path, json={"compatibility": "BACKWARD"}).is_success
    form = opened(explorer, path) | {"deprecated": "yes"}
    assert post(explorer, path, form).status_code == 303
    meta = explorer.get(path).json()
    assert (meta["compatibility"], meta["deprecated"]) == ("BACKWARD", {})
    assert post(explorer, path, opened(explorer, path) | {"compatibility": "full"}).status_code == 303
    assert explorer.get(path).json()["compatibility"] == "full"


def test_rule_that_stored_versions_break_is_refused_at_its_field(explorer: Client) -> None:
    schema = {"type": "object", "required": ["id"]}
    assert explorer.put(f"{SCHEMA}/versions/3$details", {"format": "JsonSchema/draft-07", "schema": schema}).is_success
    path = f"{SCHEMA}/meta"
    page = refused(explorer, path, opened(explorer, path) | {"compatibility": "backward"}, 400)
    assert [tag.get("name") for tag in page.all("select") if tag.get("aria-invalid")] == ["compatibility"]


def test_missing_rule_is_not_reported_where_nothing_can_be_compared(explorer: Client) -> None:
    own = "/schemagroups/shop/schemas/own"
    assert explorer.put(f"{own}$details", {"format": "Own/1", "schema": "anything"}).is_success
    for path in (own, f"{SCHEMA}/versions/1", MESSAGE, GROUP):
        assert "compatibility rule" not in show(explorer, path).words()


@pytest.mark.parametrize("scope", [":.__GLOBAL:", ":.shop:", ":.shop:order"])
def test_missing_rule_is_not_reported_where_a_confluent_level_applies(explorer: Client, scope: str) -> None:
    config = f"/compat/confluent/config/{scope}"
    for level, reported in (("FULL", False), ("NONE", True)):
        assert explorer.put(config, {"compatibility": level}).is_success
        assert ("It has no compatibility rule" in show(explorer, SCHEMA).words("main")) is reported
    other = {"format": "Avro/1.11", "schema": {"type": "record", "name": "Row", "fields": []}}
    assert explorer.put("/schemagroups/other", {"schemas": {"row": other}}).is_success
    assert explorer.put(config, {"compatibility": "BACKWARD"}).is_success
    words = show(explorer, "/schemagroups/other/schemas/row").words("main")
    assert ("It has no compatibility rule" in words) is (scope != ":.__GLOBAL:")


def test_readers_see_the_missing_rule_without_the_link(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    row = {"format": "Avro/1.11", "schema": {"type": "record", "name": "Row", "fields": []}}
    assert client.put("/schemagroups/g", {"schemas": {"s": row}}).is_success
    put_policy(store, {"who": ["subject:ann"], "role": "reader"})
    page = show(client, "/schemagroups/g/schemas/s", headers={"X-User": "ann"})
    assert "It has no compatibility rule" in page.words("main")
    assert "Set a rule" not in page.links()


def test_a_message_is_made_with_its_first_version(explorer: Client) -> None:
    path = "/messagegroups/shop/messages"
    form = opened(explorer, path) | {"id": "paid", "attributes": '{"envelope": "CloudEvents/1.0"}'}
    assert post(explorer, path, form).status_code == 303
    assert explorer.get(f"{path}/paid/versions/1").json()["envelope"] == "CloudEvents/1.0"


@pytest.mark.parametrize(
    ("entered", "field", "why"),
    [
        ({"id": ""}, "id", "an id has 1 to 128 characters"),
        ({"id": "a/b"}, "id", "an id has 1 to 128 characters"),
        ({"id": "order"}, "id", "there is one of this id already"),
        ({"versionid": "?"}, "versionid", ""),
        ({"document": ""}, "document", "it is empty"),
        ({"document": "no schema"}, "document", ""),
        ({"labels": "a=1\na=2"}, "labels", "twice"),
        ({"attributes": "[]"}, "attributes", "a JSON object"),
        ({"attributes": '{"icon": 1}'}, "attributes", ""),
    ],
)
def test_error_of_a_new_entity_is_shown_at_its_field(
    explorer: Client, entered: dict[str, str], field: str, why: str
) -> None:
    path = "/schemagroups/shop/schemas"
    form = opened(explorer, path) | {"id": "paid", "format": "JsonSchema/draft-07", "document": "{}"}
    page = refused(explorer, path, form | entered, 400)
    assert why in page.words("main")
    wrong = [node.get("name") for tag in ("input", "textarea") for node in page.all(tag) if node.get("aria-invalid")]
    assert wrong == [field], page.words("main")
    assert fields(page)["format"] == (form | entered)["format"], "what was entered is kept"


def test_creating_requires_the_right_for_the_id(store: Store, serve: Serve) -> None:
    """The ids that a caller can use depend on patterns; the form rejects other ids."""
    client = serve(store, model="default", **PROXIED)
    client.put("/messagegroups/hidden-x", {})
    client.put("/messagegroups/team-a", {})
    reads = {"who": ["subject:ann", "subject:bob"], "role": "reader", "on": ["/messagegroups/team-*"]}
    put_policy(store, reads, {"who": ["subject:bob"], "role": "writer", "on": ["/messagegroups/team-*"]})
    ann, bob = {"X-User": "ann"}, {"X-User": "bob"}
    for path in ("/messagegroups", "/messagegroups/team-a/messages"):
        assert not any(text.startswith("New ") for text in show(client, path, headers=ann).links())
        assert any(text.startswith("New ") for text in show(client, path, headers=bob).links())
        assert show(client, f"/-/edit{path}", headers=ann).status == 403
        assert show(client, f"/-/edit{path}").status == 401
    form = opened(client, "/messagegroups", headers=bob)
    answers = [post(client, "/messagegroups", form | {"id": name}, headers=bob) for name in ("hidden-x", "hidden-y")]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert {answer.text.replace("hidden-x", "hidden-y") for answer in answers} == {answers[1].text}, "nothing is told"
    assert 'aria-invalid="true"' in answers[0].text
    assert post(client, "/messagegroups", form | {"id": "team-b"}, headers=bob).status_code == 303
    assert show(client, "/-/edit/messagegroups/none/messages", headers=ADMINISTRATOR).status == 404


def test_uneditable_paths_have_no_form(explorer: Client) -> None:
    schemas = f"{SCHEMA} {SCHEMA}/versions/9"
    for path in f"/nothing /messagegroups/gone /messagegroups/gone/messages {schemas} /model /x /~1".split():
        assert show(explorer, f"/-/edit{path}").status == 404, path
    assert post(explorer, GROUP, {"name": "x" * (1 << 20)}).status_code == 400
    assert explorer.send("POST", f"/ui/-/edit{GROUP}", content=b"\xff").status_code == 400


def test_long_text_is_hidden_and_kept(explorer: Client) -> None:
    long = "<" * 4_000
    assert explorer.send("PATCH", GROUP, json={"description": long}).is_success
    form = opened(explorer, GROUP)
    assert "description" not in form
    assert post(explorer, GROUP, form | {"name": "short"}).status_code == 303
    assert explorer.get(GROUP).json()["description"] == long
    schema = {"type": "object", "title": "<" * 20_000}
    assert explorer.put(f"{SCHEMA}/versions/3$details", {"format": "JsonSchema/draft-07", "schema": schema}).is_success
    page = show(explorer, f"/-/edit{SCHEMA}/versions")
    assert len(page.text.encode()) < 200_000
    assert "enter all of the new one" in page.words("main")
