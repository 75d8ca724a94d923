"""The pages in a browser: accessible, in bounds on a phone, usable by keyboard, and readable without scripts.

One Chromium for the whole process; each test has a context, and so cookies and a cache, of its own.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect, sync_playwright
from tests.serving import serving

from ..test_pipelines import report
from .conftest import PATHS, REGISTRY

AXE = Path(sys.prefix) / "brokers" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
"""Where ``tools/setup test`` puts it."""
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AUDIT = "async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html)])"
_PATIENT = 120_000
GROUPS: dict[str, Any] = {f"g{number:02}": {"description": "one of many"} for number in range(60)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
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


@contextmanager
def opened(
    browser: Browser, url: str, *, width: int = 1400, scheme: str = "light", scripts: bool = True
) -> Iterator[Page]:
    """A page in a browser of its own; anything that its policy forbids, or its scripts do wrong, fails the test."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=scripts,
    )
    # A busy machine must not fail a test.
    context.set_default_timeout(_PATIENT)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
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
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
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


def test_all_of_it_reads_without_scripts(browser: Browser, url: str) -> None:
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
