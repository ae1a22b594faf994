"""The page in a real browser: a server in this process, Chromium beside it.

The bundled model answers; the tests ask nothing that depends on how well it translates.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from tests.conftest import BUNDLED
from tests.environments import chromium
from tests.page import serving

try:
    from playwright.sync_api import Page, expect
except ImportError:  # the tests are skipped, with this reason, by the conftest above
    Page = expect = Any


@pytest.fixture(scope="session")
def url(bundled_model: Path) -> Iterator[str]:
    """Where the page is served."""
    registry = ModelRegistry(Translator.from_pretrained, {BUNDLED: bundled_model})
    with serving(registry) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests."""
    expect.set_options(timeout=TIMEOUT_MS)
    with chromium() as browser:
        yield browser


TIMEOUT_MS = 30_000
"""No answer takes as long on a machine that runs nothing else."""

NOT_OURS = (
    "Method not implemented.",  # when an upload ends: it closes a stream that knows no closing
    "AbortError",  # when a page is left that waits for an answer, as the next one
    "Connection errored out",
    "The input spec uses Vega-Lite",  # for each chart
)
"""What Gradio's own script (6.31) says in the browser's console."""


DRAWN = {
    "Steer": ".steering .words button",
    "Look inside": ".explorer .map td[aria-label]",
}
"""What shows in each tab below a translation that it is inspected."""


class Visit:
    """One visitor's page, and what went wrong while it was open."""

    def __init__(self, page: Page, url: str, name: str) -> None:
        self.page = page
        self.name = name
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self._complain("error", str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("response", self._check_status)
        page.on("request", lambda request: self._check_host(request.url, url))
        page.goto(url)
        page.wait_for_selector("#source textarea")
        self.settle()

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._complain(message.type, message.text)

    def _complain(self, kind: str, text: str) -> None:
        if not any(map(text.count, NOT_OURS)):
            self.complaints.append(f"{kind}: {text}")

    def _check_status(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.url}")

    def _check_host(self, asked: str, own: str) -> None:
        if not asked.startswith((own, "data:", "blob:")):
            self.complaints.append(f"left the host: {asked}")

    def translate(self, text: str) -> str:
        """Type a text, press Ctrl+Enter, wait for its translation, and return it.

        A second text must differ from the first: what is the same is not drawn again.
        """
        self.page.fill("#source textarea", text)
        self.page.press("#source textarea", "Control+Enter")
        self.page.wait_for_function(
            "document.querySelector('#target').dataset.state === ''"
            " && document.querySelector('#target textarea').value"
        )
        return self.target

    def inside(self, name: str) -> None:
        """Open a tab below the translation, and wait until it shows the translation."""
        self.page.locator("#inside [role=tab]:visible", has_text=name).first.click()
        if name in DRAWN:
            # What the last translation left stands there, marked, until this one is inspected.
            self.page.wait_for_selector(f"#inside[data-state=''] {DRAWN[name]}")

    @property
    def target(self) -> str:
        """The translation that stands in the page."""
        return self.page.input_value("#target textarea")

    def until_target(self, text: str) -> None:
        """Wait until this translation stands in the page."""
        self.until_value(self.page.locator("#target textarea"), text)

    @property
    def fits(self) -> bool:
        """Whether nothing is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth")
        return width <= self.page.viewport_size["width"]

    def keep_picture(self, view: str) -> None:
        """Save a screenshot where the environment asks for it, as CI does."""
        folder = os.environ.get("HUBNMT_SHOTS")
        if folder:
            path = Path(folder, f"{view}-{self.name.replace(' ', '-')}.png")
            self.page.screenshot(path=path, full_page=True)

    def ask(self, n: int) -> None:
        """Click a word of the steering row, and wait for what else could stand there."""
        self.inside("Steer")
        self.page.locator(".steering .words button").nth(n).click()
        self.page.wait_for_selector(".steering .choice")

    def open_tab(self, name: str) -> None:
        """Go to another tab."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        self.settle()

    def open_options(self, name: str = "") -> None:
        """Unfold the decoding options, or those of A or B."""
        self.page.click(f"text={f'Decoding options {name}'.strip()} >> visible=true")
        self.settle()

    def settle(self) -> None:
        """Wait until what has just appeared keeps what is typed into it.

        Gradio (6.31) draws what was hidden, and some 30 ms later sets its first values over what
        was typed in between. Only a robot is that fast.
        """
        self.page.evaluate("() => new Promise(done => requestIdleCallback(done, {timeout: 2000}))")
        self.page.wait_for_timeout(300)

    def until_value(self, control: Any, value: str | re.Pattern[str]) -> None:
        """Wait until a control says this, or something that the pattern finds."""
        expect(control).to_have_value(value)

    def compare(self, text: str) -> None:
        """Open the tab, type a text, press Enter, and wait for both translations."""
        self.open_tab("Compare")
        self.page.fill("#compare-source textarea", text)
        self.page.press("#compare-source textarea", "Enter")
        self.page.wait_for_selector("#comparison .sides")

    def choose_file(self, content: str, name: str) -> None:
        """Open the tab and give it a file."""
        self.open_tab("Files")
        file = {"name": name, "mimeType": "text/plain", "buffer": content.encode()}
        self.page.set_input_files("#upload input[type=file]", [file])

    def translate_file(self, content: str, name: str) -> None:
        """Give a file with the columns `de` and `en`, choose `de`, and wait for its translation."""
        self.choose_file(content, name)
        self.page.click("#source-column input")
        options = self.page.locator("#source-column")
        options.get_by_role("option", name="de", exact=True).click()
        self.page.click("#file-go")
        self.page.wait_for_selector("#file-download:not([disabled])")

    def learn(self) -> None:
        """Open the tab and wait for its drawings."""
        self.open_tab("Learn")
        self.page.wait_for_selector("#positions canvas")
        self.page.wait_for_selector("#beam .node")  # the last of the panels on one sentence


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Any, url: str) -> Iterator[Visit]:
    """A visit on a laptop by day, or as the test's parameter says; ends with what went wrong."""
    name = getattr(request, "param", "laptop light")
    device, shade = name.split()
    width, height = {"laptop": (1280, 900), "phone": (390, 844)}[device]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=shade, has_touch=device == "phone"
    )
    context.set_default_timeout(TIMEOUT_MS)
    visit = Visit(context.new_page(), url, name)
    yield visit
    context.close()
    assert visit.complaints == []
