"""Takes the README's pictures from the running demo: `make pictures`.

Starts `hookfast demo` in a new folder, waits for its outage, and takes screenshots of the
dashboard's overview and of a delivery in the Temporal UI. Needs Chromium: the program
that CHROMIUM names, or Debian's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parent / "pictures"
_PORTS = {"PORT": "18080", "TEMPORAL_PORT": "17233", "TEMPORAL_UI_PORT": "18233"}
_PATIENCE_SECONDS = 360  # the demo has an outage every five minutes
_TRAFFIC_SECONDS = 120  # then the first outage is over, and the charts show some traffic
_VIEW = {"width": 1280, "height": 800}


def main() -> None:
    """Write `pictures/dashboard.png` and `pictures/temporal.png`."""
    FOLDER.mkdir(exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium was not found: install Debian's `chromium`, or name one in CHROMIUM.")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as home,
        _demo(Path(home)) as (url, key),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        retried = _wait_for(url, key, status="retrying", attempts=2)
        _photograph_temporal(browser, url, key, retried)
        time.sleep(_TRAFFIC_SECONDS)
        _wait_for(url, key, status="held")
        _photograph_dashboard(browser, url, key)
        browser.close()


@contextmanager
def _demo(home: Path) -> Iterator[tuple[str, str]]:
    """Run the demo on separate ports, and return its URL and its operator key."""
    settings = {f"HOOKFAST_{name}": port for name, port in _PORTS.items()}
    environment = os.environ | settings | {"HOOKFAST_HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, "-m", "hookfast.cli", "demo"], env=environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            url = f"http://127.0.0.1:{_PORTS['PORT']}"
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not (home / "demo.json").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("The demo did not start; run `make demo` to see why.")
                time.sleep(0.5)
            yield url, json.loads((home / "demo.json").read_text())["operator_key"]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def _wait_for(url: str, key: str, *, status: str, attempts: int = 0) -> str:
    """Wait for a delivery with this status and at least this many attempts, and return its id."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for row in _get(url, key, f"/v1/deliveries?status={status}&limit=200")["data"]:
            if row["attempt_count"] >= attempts:
                return str(row["id"])
        time.sleep(0.2)
    sys.exit(f"No delivery became {status} with {attempts} attempts.")


def _get(url: str, key: str, path: str) -> Any:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.get(f"{url}{path}", headers=headers, trust_env=False).raise_for_status().json()


def _photograph_dashboard(browser: Browser, url: str, key: str) -> None:
    page = browser.new_page(viewport=_VIEW)
    page.goto(f"{url}/")
    page.fill("input[name=key]", key)
    page.press("input[name=key]", "Enter")
    page.wait_for_selector("main svg")
    page.screenshot(path=FOLDER / "dashboard.png")
    page.close()


def _photograph_temporal(browser: Browser, url: str, key: str, delivery: str) -> None:
    link = _get(url, key, f"/v1/deliveries/{delivery}")["workflow"]["url"]
    page = browser.new_page(viewport=_VIEW)
    page.goto(link)
    page.get_by_text("retry 2 of").first.wait_for()
    page.set_viewport_size({"width": 1280, "height": 1400})  # all of the timeline
    heading = page.get_by_role("heading", name="Timeline")
    heading.wait_for()
    page.wait_for_timeout(1_000)  # the timeline is drawn again after the size has changed
    box = heading.bounding_box()
    assert box is not None  # noqa: S101 - it was waited for
    clip = {"x": 272, "y": box["y"] - 16, "width": 992, "height": 340}
    page.screenshot(path=FOLDER / "temporal.png", clip=clip)
    page.close()


if __name__ == "__main__":
    main()
