"""The pages in a browser: accessible, in bounds on a phone, usable by keyboard, and readable without scripts.

One Chromium for the whole process; each test has a context, and so cookies and a cache, of its own.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, FilePayload, Page, expect, sync_playwright
from tests.access.provider import AUDIENCE, Provider, provider
from tests.serving import serving

from signalbook.storage import open_store

from ..conftest import bearer
from ..test_pipelines import report
from .conftest import PATHS, REGISTRY
from .test_site import made

pytestmark = pytest.mark.merge

AXE = Path(sys.prefix) / "brokers" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
"""Where ``tools/setup test`` puts it."""
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AUDIT = "async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html)])"
_PATIENT = 120_000
ROOT = Path(__file__).parents[3]
EXAMPLES, DOCS = ROOT / "examples" / "orders" / "orders.xreg.yaml", ROOT / "docs"
POLICY = {
    "rules": [
        {"who": ["subject:root"], "role": "administrator"},
        {"who": ["group:team"], "role": "writer"},
        {"who": ["anyone"], "role": "reader", "on": ["/messagegroups/open"]},
    ]
}
GROUPS: dict[str, Any] = {f"g{number:02}": {"description": "one of many"} for number in range(60)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "chromium is missing: tools/setup test installs it"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, headless=True, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The explorer of a real server."""
    with serving(tmp_path_factory.mktemp("explorer")) as root:
        httpx.put(root, json=REGISTRY, timeout=120).raise_for_status()
        httpx.post(f"{root}/messagegroups", json=GROUPS, timeout=120).raise_for_status()
        httpx.post(f"{root}/pipelines/orders/reports", json=report(), timeout=120).raise_for_status()
        yield f"{root}/ui"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with provider() as running:
        yield running


@dataclass(frozen=True)
class Closed:
    """The explorer of a server with a policy, the headers of its administrator, and an API token of ann."""

    url: str
    root: dict[str, str]
    ann: str

    def send(self, method: str, path: str, body: object) -> None:
        """A write by the administrator."""
        url = self.url.removesuffix("/ui") + path
        httpx.request(method, url, json=body, headers=self.root, timeout=120).raise_for_status()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory, issuer: Provider) -> Iterator[Closed]:
    """The explorer of a server with a policy, at which people log in."""
    folder = tmp_path_factory.mktemp("closed")
    database = f"sqlite:///{folder / 'signalbook.db'}"
    (folder / "policy.json").write_text(json.dumps(POLICY))
    (folder / "secret").write_text("explorer's + secret")
    options = ("--access-file", "policy.json", "--oidc-issuers", issuer.url, "--oidc-audience", AUDIENCE)
    client = ("--login-client-id", "explorer", "--login-client-secret", "file:secret")
    with serving(folder, "--db", database, *options, *client) as root:
        issuer.let_in(root)
        with closing(open_store(database)) as store:
            ann = bearer(store, "ann", "team")["Authorization"].removeprefix("Bearer ")
            explorer = Closed(f"{root}/ui", bearer(store, "root"), ann)
        for group in ("open", "closed"):
            explorer.send("PUT", f"/messagegroups/{group}", {})
        yield explorer


@contextmanager
def opened(
    browser: Browser, url: str, *, width: int = 1400, scheme: str = "light", scripts: bool = True, status: int = 0
) -> Iterator[Page]:
    """A page in a browser of its own; anything that its policy forbids, or its scripts do wrong, fails the test.

    ``status`` is that of answers which are errors, and are meant to be: browsers say so.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=scripts,
    )
    # A busy machine must not fail a test.
    context.set_default_timeout(_PATIENT)
    page, wrong = context.new_page(), list[str]()
    ours = urlsplit(url).netloc

    def noted(message: ConsoleMessage) -> None:
        # An issuer's pages are not ours.
        if message.type not in ("error", "warning") or urlsplit(page.url).netloc != ours:
            return
        if not (status and f"responded with a status of {status}" in message.text):
            wrong.append(message.text)

    page.on("console", noted)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(url)
    yield page
    context.close()
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_barrier(browser: Browser, url: str, scheme: str) -> None:
    """WCAG 2.2 AA, as far as axe-core can tell; and no page scrolls sideways on a phone."""
    axe = AXE.read_text(encoding="utf-8")
    with opened(browser, url, width=390, scheme=scheme) as page:
        for path in PATHS:
            page.goto(url + path)
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            page.evaluate(axe)
            assert page.evaluate(AUDIT) == [], path


def test_the_keyboard_leads_everywhere(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}/messagegroups") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search"
        page.keyboard.type("/")
        assert page.input_value("main input[name=q]") == "/", "in a box it is a character like any other"


def test_the_filter_answers_while_one_types(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}/messagegroups") as page:
        page.fill("main input[name=q]", "g4")
        expect(page.locator("a.id")).to_have_count(10, timeout=_PATIENT)
        assert "q=g4" in page.url, "it can be shared"


def test_explorer_works_without_scripts(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}/messagegroups", scripts=False) as page:
        page.get_by_role("link", name="next").click()
        page.get_by_role("link", name="shop", exact=True).click()
        page.get_by_role("link", name="placed", exact=True).click()
        assert page.locator("h1").inner_text() == "Order placed"
        page.goto(f"{url}/messagegroups")
        page.fill("main input[name=q]", "g4")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=g4**")
        assert page.locator("a.id").count() == 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same registry as a site of files, by its URL on the disk."""
    folder = tmp_path_factory.mktemp("site")
    with made(REGISTRY) as site:
        for file in site.files():
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.path).write_bytes(file.content)
    return folder.as_uri()


def test_a_site_is_searched_on_a_disk(browser: Browser, folder: str) -> None:
    with opened(browser, f"{folder}/index.html", width=390) as page:
        page.fill("#everything", "title")
        page.keyboard.press("Enter")
        expect(page.locator("#results")).to_contain_text("0 found", timeout=_PATIENT)
        page.fill("#search", "customer placed -never")
        page.keyboard.press("Enter")
        expect(page.locator(".hits a.id")).to_have_text("placed", timeout=_PATIENT)
        schema, message = "schemagroups/shop/schemas/order", "messagegroups/shop/messages/placed/index.html"
        around = (f"{schema}/-relations.html", f"{schema}/-impact.html")
        for path in ("-/search/index.html?q=order", "index.html", message, *around):
            page.goto(f"{folder}/{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            page.evaluate(AXE.read_text(encoding="utf-8"))
            # The policy lets nothing read a style sheet but the browser.
            assert page.evaluate(AUDIT.replace("run()", "run({preload: false})")) == [], path
        page.goto(f"{folder}/-/search/index.html?q=order&type=schemas")
        page.locator(".hits a.id").first.click()
        assert page.url == f"{folder}/schemagroups/shop/schemas/order/index.html"


def test_a_site_reads_without_scripts(browser: Browser, folder: str) -> None:
    with opened(browser, f"{folder}/index.html", scripts=False) as page:
        page.get_by_role("link", name="4 schemas").click()
        page.get_by_role("link", name="shop", exact=True).click()
        page.get_by_role("link", name="order", exact=True).click()
        page.get_by_role("link", name="versions", exact=True).click()
        page.get_by_role("link", name="what changed since 1").click()
        assert page.locator("h1").inner_text() == "1 and 2"
        page.fill("#search", "order")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="browse the registry").click()
        assert page.locator("h1").inner_text() == "The workshop"


def test_a_newcomer_finds_where_a_message_is_sent_and_what_a_change_breaks(browser: Browser, url: str) -> None:
    """Tasks 3, 4 and 6 of docs/ui-tasks.md, by what there is to read."""
    with opened(browser, f"{url}/messagegroups/shop/messages/placed") as page:
        page.locator("aside").get_by_role("link", name="orders", exact=True).click()
        assert page.locator("h1").inner_text() == "orders"
        page.goto(f"{url}/schemagroups/shop/schemas/order")
        expect(page.locator("aside")).to_contain_text("placed message")
        page.get_by_role("link", name="try a change").click()
        expect(page.get_by_label("The document of a new version")).to_be_in_viewport()
        page.get_by_label("The document of a new version").fill('{"type": "string"}')
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_role("heading", name="It breaks something")).to_be_in_viewport()


def test_violation_leads_to_its_field(browser: Browser, orders: str) -> None:
    with opened(browser, f"{orders}/-/pipelines/orders") as page:
        page.get_by_role("link", name="/total").click()
        expect(page.locator("li:target")).to_contain_text("total")
        expect(page.locator("li:target")).to_be_in_viewport()


def test_a_message_is_tried_in_place(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}/messagegroups/shop/messages/placed") as page:
        page.get_by_role("link", name="Try a message of your own").click()
        page.get_by_role("button", name="Try it").click()
        expect(page.locator("#outcome h2")).to_have_text("conforms", timeout=_PATIENT)
        page.fill("#message", "{}")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator("#outcome h2")).to_contain_text("rejected", timeout=_PATIENT)
        file: FilePayload = {"name": "a", "mimeType": "", "buffer": b"\xff\x00"}
        page.set_input_files("#file", files=file)
        expect(page.locator("#message")).to_have_value("/wA=", timeout=_PATIENT)
        assert page.is_checked("input[name=base64]")


def log_in(page: Page, user: str, issuer: Provider) -> None:
    """Log in at the issuer, on its own pages."""
    page.get_by_role("link", name=f"Log in at {issuer.url}").click()
    page.fill("input[name=login]", user)
    page.fill("input[name=password]", "any")
    page.get_by_role("button").click()
    page.get_by_role("button", name="Continue").click()


def accessible(page: Page) -> None:
    """Check that axe-core finds no barrier and that nothing is wider than the window."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(AUDIT) == [], page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url


def sessions(page: Page) -> list[Any]:
    return [cookie for cookie in page.context.cookies() if cookie["name"].startswith("signalbook-session")]


def test_people_log_in_at_the_issuer_and_out_again(browser: Browser, closed: Closed, issuer: Provider) -> None:
    """Code flow, session, a form that writes, and both sessions ended; each page as a browser lets it be."""
    group = f"{closed.url}/messagegroups/open"
    with opened(browser, group, scripts=False, width=390) as page:
        page.get_by_role("link", name="Log in").click()
        log_in(page, "ann", issuer)
        page.wait_for_url(group)
        (cookie,) = sessions(page)
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
        page.get_by_role("link", name="Edit").click()
        page.fill("input[name=name]", "by ann")
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(group)
        assert page.locator("h1").inner_text() == "by ann"
        page.get_by_role("link", name="You are ann of the team").click()
        page.get_by_role("button", name="Log out", exact=True).click()
        page.get_by_role("button", name="Yes").click()
        page.wait_for_url(f"{closed.url}/-/login**")
        assert sessions(page) == []
        page.goto(group)
        page.get_by_role("link", name="Log in").click()
        page.get_by_role("link", name=f"Log in at {issuer.url}").click()
        page.wait_for_selector("input[name=login]")


def test_user_with_a_token_logs_in_and_sees_live_changes(browser: Browser, closed: Closed) -> None:
    """The stream of changes counts the session, and shows what it may see."""
    with opened(browser, f"{closed.url}/-/changes", width=390, status=401) as page:
        accessible(page)
        page.get_by_role("link", name="Log in").first.click()
        accessible(page)
        page.fill("#secret", "sbk_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("no API token")
        accessible(page)
        page.fill("#secret", closed.ann)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{closed.url}/-/changes")
        expect(page.locator("#live")).to_be_visible(timeout=_PATIENT)
        closed.send("PUT", "/messagegroups/new", {"name": "A new one"})
        expect(page.locator("ol.changes a").first).to_have_text("A new one", timeout=_PATIENT)
        expect(page.locator("ol[data-live] li").first).to_contain_text("/messagegroups/new")
        page.get_by_role("link", name="You are ann").click()
        accessible(page)
        page.get_by_role("button", name="Log out everywhere").click()
        page.wait_for_url(f"{closed.url}/-/login?out=yes")
        assert sessions(page) == []


def test_conflicting_edits_of_two_users(browser: Browser, closed: Closed) -> None:
    """The second user sees the saved change, overwrites it on purpose, and is told where that is not allowed."""
    form = f"{closed.url}/-/edit/messagegroups/closed"
    with opened(browser, form, width=390, status=401) as page:
        accessible(page)
    with opened(browser, f"{closed.url}/-/login?back=/ui/-/edit/messagegroups/closed", width=390, status=409) as page:
        page.fill("#secret", closed.ann)
        page.get_by_role("button", name="Log in").click()
        page.fill("input[name=name]", "Mine")
        closed.send("PATCH", "/messagegroups/closed", {"name": "Theirs"})
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("It was changed meanwhile", timeout=_PATIENT)
        expect(page.locator(".stored")).to_contain_text("When you opened the form")
        expect(page.locator(".stored")).to_contain_text("Theirs")
        accessible(page)
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(f"{closed.url}/messagegroups/closed")
        assert page.locator("h1").inner_text() == "Mine"


def test_a_schema_is_checked_and_stored(browser: Browser, url: str) -> None:
    """The form detects the format, shows the document with highlighting, and the page of the schema has its rule."""
    with opened(browser, f"{url}/-/edit/schemagroups/shop/schemas", width=390) as page:
        page.fill("input[name=id]", "checked")
        page.select_option("select[name=compatibility]", "backward")
        page.fill("textarea[name=document]", '{"type":"object","properties":{"id":{"type":"string"}}}')
        page.get_by_role("button", name="Check").click()
        expect(page.locator("details pre .nt").first).to_be_visible(timeout=_PATIENT)
        expect(page.get_by_text("The document with highlighting")).to_contain_text("JsonSchema/draft/2020-12")
        accessible(page)
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(f"{url}/schemagroups/shop/schemas/checked")
        accessible(page)
        page.get_by_role("link", name="Change the rule").click()
        expect(page.locator("select[name=compatibility]")).to_have_value("backward")
        page.fill("input[name='deprecated.removal']", "2031-02-03")
        page.check("input[name=deprecated]")
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(f"{url}/schemagroups/shop/schemas/checked/meta")
        expect(page.locator("main")).to_contain_text("removal 2031-02-03 00:00", use_inner_text=True)
        accessible(page)


def test_a_group_is_made_and_found_among_the_changes_of_its_day(browser: Browser, closed: Closed) -> None:
    with opened(browser, f"{closed.url}/-/login?back=/ui/messagegroups", scripts=False) as page:
        page.fill("#secret", closed.ann)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="New messagegroup").click()
        page.fill("input[name=id]", "made")
        page.fill("input[name=name]", "Made here")
        page.get_by_role("button", name="Save").click()
        page.wait_for_url(f"{closed.url}/messagegroups/made")
        page.get_by_role("link", name="Changes of this").click()
        page.fill("#from", str(page.locator(".day h2").get_attribute("id")).removeprefix("d"))
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="Made here").click()
        assert page.locator("h1").inner_text() == "Made here"


def test_the_graph_is_walked_and_a_change_is_tried(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}/schemagroups/shop/schemas/order") as page:
        page.get_by_role("link", name="Relations", exact=True).click()
        box = page.locator(".graph a").first
        box.focus()
        assert box.evaluate("each => each === document.activeElement")
        page.keyboard.press("Enter")
        page.wait_for_url("**/-/relations/endpoints/orders")
        page.goto(f"{url}/-/impact/schemagroups/shop/schemas/order")
        page.fill("#document", '{"type": "string"}')
        page.get_by_role("button", name="Try it").click()
        expect(page.locator("#tried")).to_have_text("It breaks something", timeout=_PATIENT)
        accessible(page)


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The explorer of the examples, with a second version of a schema and a pipeline that landed their messages."""
    message = "/messagegroups/shop.orders/messages/shop.order.placed"
    with serving(tmp_path_factory.mktemp("orders")) as root:
        command = (sys.executable, "-m", "signalbook", "import", str(EXAMPLES), "--server", root)
        subprocess.run(command, check=True, capture_output=True)
        endpoint = {"usage": ["producer"], "protocol": "KAFKA", "protocoloptions": {"topic": "shop-orders"}}
        endpoint |= {"name": "Orders on Kafka", "messagegroups": ["/messagegroups/shop.orders"]}
        httpx.put(f"{root}/endpoints/orders", json=endpoint, timeout=120).raise_for_status()
        for hour, rejected in enumerate((0, 2, 1, 0, 12, 40, 9, 1)):
            landed = 900 + 37 * hour
            times = {"oldest": f"2026-11-24T{hour:02}:00:00Z", "newest": f"2026-11-24T{hour:02}:59:00Z", "seconds": 4.0}
            reasons = {"schema_violation": rejected} if rejected else {}
            share = round(rejected / (landed + rejected), 6)
            by_message = {"landed": landed, "rejected": rejected, "rejected_share": share, "reasons": reasons}
            example = {"source": "orders", "position": 7, "message": "-5 is less than 0", "excerpt": '{"total":-5}'}
            violation = {"definition": message, "path": "/total", "rule": "minimum", "messages": rejected}
            counts = {"read": landed + rejected, "landed": landed, "dead_lettered": rejected, "lag": times}
            parts = {"by_message": {message: by_message}, "reasons": reasons}
            violations = [{**violation, "example": example}] if rejected else []
            finished = f"2026-11-24T{hour + 1:02}:00:00Z"
            sent = report(f"b{hour}", finished=finished, violations=violations, **counts, **parts)
            httpx.post(f"{root}/pipelines/orders/reports", json=sent, timeout=120).raise_for_status()
        yield f"{root}/ui"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("home", ""),
        ("message", "/messagegroups/shop.orders/messages/shop.order.placed"),
        ("search", "/-/search?q=order"),
        ("relations", "/-/relations/schemagroups/shop.orders/schemas/placed"),
        ("pipeline", "/-/pipelines/orders"),
    ],
)
def test_the_pictures_in_the_documentation(
    browser: Browser, orders: str, tmp_path: Path, pytestconfig: pytest.Config, name: str, path: str
) -> None:
    """``pytest --pictures`` makes them anew; without it they are there, and their pages still show without a fault."""
    folder = DOCS / "images" if pytestconfig.getoption("pictures") else tmp_path
    with opened(browser, orders + path, width=1280 if name == "home" else 1100) as page:
        page.screenshot(path=folder / f"{name}.png", animations="disabled")
    assert 10_000 < (folder / f"{name}.png").stat().st_size < 150_000
    assert (DOCS / "images" / f"{name}.png").stat().st_size < 150_000
    assert f"](images/{name}.png)" in (DOCS / "ui.md").read_text(encoding="utf-8")
