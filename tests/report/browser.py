"""A headless chromium that opens one page, and remembers what the page asked the network for and complained of."""

import base64
import json
import pathlib
import shutil
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


def missing() -> str | None:
    """The missing requirements of these tests on this machine; None if all are there."""
    if not CHROMIUM or not DRIVER:
        return "chromium and its driver are missing: apt install chromium chromium-driver"
    try:
        import axe_playwright_python  # noqa: F401
        import selenium  # noqa: F401
    except ImportError as error:
        return f"{error.name} is missing: scripts/test --long installs it (tests/report/requirements.txt)"
    return None


class Browser:
    """`width` and `height` are those of what the page sees, in CSS pixels."""

    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_script_timeout(60)
        self.devtools("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])

    def close(self):
        self.driver.quit()

    def devtools(self, command: str, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def run(self, script: str, *arguments):
        """What the body of a function returns, called in the page; if that is a promise, what it becomes."""
        return self.driver.execute_script(script, *arguments)

    def open(self, page: pathlib.Path, width=1400, height=900, theme="light"):
        """Opens the page and waits until all of its figures are drawn."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.driver.get("about:blank")
        self.complaints(), self.requests()  # those of before
        self.driver.get(page.as_uri())
        deadline = time.monotonic() + 60
        while self.run("return document.body.dataset.drawn") is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{page}: not all figures were drawn; the console says {self.complaints()}")
            time.sleep(0.02)

    def complaints(self) -> list[str]:
        """The messages of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.devtools("Page.printToPDF", preferCSSPageSize=True)["data"])

    def grave_findings(self) -> list[str]:
        """The findings of axe that are serious or critical."""
        import axe_playwright_python
        script = pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js"
        self.run(script.read_text(encoding="utf-8") + "\nwindow.axe = axe;")
        found = self.run("return axe.run({resultTypes: ['violations']})")
        return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]
                if one["impact"] in ("serious", "critical")]
