"""Takes the pictures of the README and the guides from the running demo: `make pictures`.

Starts `hookfast demo` in a new folder, with an outage every minute, and emits more events than the
demo alone. It needs Chromium: the program that CHROMIUM names, or Debian's. The picture of Grafana
is taken if GRAFANA names the folder of an unpacked Grafana and `prometheus` is on the PATH.
Everything takes three minutes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Page, sync_playwright

from hookfast.cli.demo.scene import ENDPOINTS, EVENT_TYPES, LATER_EVENTS

FOLDER = Path(__file__).parent / "pictures"
_DEPLOY = Path(__file__).parents[1] / "deploy"
_PORTS = {
    "PORT": "18080",
    "TEMPORAL_PORT": "17233",
    "TEMPORAL_UI_PORT": "18233",
    "WORKER_METRICS_PORT": "19464",
}
_PROMETHEUS, _GRAFANA = "127.0.0.1:19090", "127.0.0.1:13000"
_OUTAGE_EVERY_SECONDS = 60
_PAUSE_SECONDS = 0.25  # between two events, so that an outage holds dozens of deliveries
_TRAFFIC_SECONDS = 100  # then two outages are over, and charts have something to show
_PATIENCE_SECONDS = 180
_HELD = 10  # deliveries that are held when an outage has just begun, which lasts 20 s
_VIEW = {"width": 1280, "height": 800}
_MAX_BYTES = 150_000


@dataclass(frozen=True, slots=True)
class Demo:
    """The running demo. `endpoints` are the ids of its endpoints by their names."""

    url: str
    key: str
    tenant_id: str
    endpoints: dict[str, str]

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: Any) -> Any:
        return self._call("POST", path, json=body)

    def _call(self, method: str, path: str, **options: Any) -> Any:
        answer = httpx2.request(
            method,
            f"{self.url}{path}",
            headers={"Authorization": f"Bearer {self.key}"},
            trust_env=False,
            **options,
        )
        return answer.raise_for_status().json()


def main() -> None:
    """Take all pictures. Exits with 1 if one is larger than a page should load."""
    FOLDER.mkdir(exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium was not found: install Debian's `chromium`, or name one in CHROMIUM.")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as home,
        _running_demo(Path(home)) as demo,
        _more_events(demo),
        _running_grafana(Path(home)) as grafana,
        sync_playwright() as playwright,
    ):
        began = time.monotonic()
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        _photograph_temporal(browser, demo)
        operator, customer = _signed_in(browser, demo), _in_portal(browser, demo)
        time.sleep(max(0.0, began + _TRAFFIC_SECONDS - time.monotonic()))
        failing = demo.endpoints["analytics"]
        _wait_for(demo, f"?status=held&endpoint_id={failing}", rows=_HELD)
        _photograph(operator, f"/dashboard/endpoints/{failing}", "outage")
        _photograph(customer, f"/portal/endpoints/{failing}", "portal-endpoint")
        _photograph(operator, "/dashboard", "dashboard")
        operator.emulate_media(color_scheme="dark")
        _photograph(operator, "/dashboard", "dashboard-dark")
        _photograph(customer, "/portal/endpoints", "portal")
        if grafana:
            _photograph_grafana(browser, demo)
        browser.close()
    _check_sizes()


@contextmanager
def _running_demo(home: Path) -> Iterator[Demo]:
    """Run the demo on separate ports."""
    settings = {f"HOOKFAST_{name}": port for name, port in _PORTS.items()}
    settings["HOOKFAST_PORTAL_NAME"] = "Corner Shop"
    settings["HOOKFAST_FIRST_ATTEMPTS"] = "workflow"  # as on a machine that does nothing else
    command = ["hookfast.cli", "demo", "--outage-every", str(_OUTAGE_EVERY_SECONDS)]
    with _running([sys.executable, "-m", *command], **settings, HOOKFAST_HOME=str(home)) as process:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        saved: dict[str, Any] = {}
        while len(saved.get("endpoints", {})) < len(ENDPOINTS):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("The demo did not start; run `make demo` to see why.")
            time.sleep(0.5)
            if (home / "demo.json").exists():
                saved = json.loads((home / "demo.json").read_text())
        yield Demo(
            url=f"http://127.0.0.1:{_PORTS['PORT']}",
            key=saved["operator_key"],
            tenant_id=saved["tenant_id"],
            endpoints=saved["endpoints"],
        )


@contextmanager
def _running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    with subprocess.Popen(  # noqa: S603 - our own commands
        command, env=os.environ | environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


@contextmanager
def _more_events(demo: Demo) -> Iterator[None]:
    """Emit events in a thread until the end of the block."""
    ended = threading.Event()
    choice = random.Random(0)  # noqa: S311 - the same order of event types every time

    def emit() -> None:
        while not ended.wait(_PAUSE_SECONDS):
            event_type = EVENT_TYPES[choice.choice(LATER_EVENTS)]
            event = {"type": event_type.name, "data": event_type.generate()}
            demo.post("/v1/events", event | {"tenant_id": demo.tenant_id})

    thread = threading.Thread(target=emit)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _running_grafana(home: Path) -> Iterator[bool]:
    """Run Prometheus and Grafana, with the files of docker-compose.yml, if both are installed.
    Yields whether they are."""
    folder, prometheus = os.environ.get("GRAFANA"), shutil.which("prometheus")
    if folder is None or prometheus is None:
        print("No picture of Grafana: it needs GRAFANA, a Grafana's folder, and `prometheus`.")
        yield False
        return
    targets = [f"127.0.0.1:{_PORTS[name]}" for name in ("PORT", "WORKER_METRICS_PORT")]
    scraped = [{"job_name": "hookfast", "static_configs": [{"targets": targets}]}]
    config = {"global": {"scrape_interval": "5s"}, "scrape_configs": scraped}
    (home / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    for name in ("datasources", "dashboards"):
        text = (_DEPLOY / f"compose/grafana/{name}.yaml").read_text()
        text = text.replace("prometheus:9090", _PROMETHEUS)
        text = text.replace("/var/lib/grafana/dashboards", str(_DEPLOY / "grafana"))
        file = home / f"provisioning/{name}/hookfast.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    address, _, port = _GRAFANA.partition(":")
    with (
        _running(
            [
                prometheus,
                f"--config.file={home / 'prometheus.yml'}",
                f"--storage.tsdb.path={home / 'prometheus'}",
                f"--web.listen-address={_PROMETHEUS}",
                "--log.level=error",
            ]
        ),
        _running(
            [f"{folder}/bin/grafana", "server", "--homepath", folder],
            GF_SERVER_HTTP_ADDR=address,
            GF_SERVER_HTTP_PORT=port,
            GF_PATHS_DATA=str(home / "grafana"),
            GF_PATHS_PROVISIONING=str(home / "provisioning"),
            GF_AUTH_ANONYMOUS_ENABLED="true",
            GF_ANALYTICS_REPORTING_ENABLED="false",
            GF_ANALYTICS_CHECK_FOR_UPDATES="false",
        ),
    ):
        yield True


def _wait_for(demo: Demo, query: str, *, rows: int = 1, attempts: int = 0) -> str:
    """Wait until this many deliveries of the query have this many attempts. Returns the id of the
    first."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = demo.get(f"/v1/deliveries{query}&limit=200")["data"]
        found = [row["id"] for row in found if row["attempt_count"] >= attempts]
        if len(found) >= rows:
            return str(found[0])
        time.sleep(0.2)
    sys.exit(f"There are not {rows} deliveries with {query} and {attempts} attempts.")


def _signed_in(browser: Browser, demo: Demo) -> Page:
    """A page of the dashboard on which the operator is signed in."""
    page = browser.new_page(viewport=_VIEW, base_url=demo.url)
    page.goto("/")
    page.fill("input[name=key]", demo.key)
    page.press("input[name=key]", "Enter")
    page.wait_for_url("**/dashboard")
    return page


def _in_portal(browser: Browser, demo: Demo) -> Page:
    """A page of the portal, opened with a link."""
    link = demo.post(f"/v1/tenants/{demo.tenant_id}/portal-links", {"scope": "tenant"})
    page = browser.new_page(viewport=_VIEW, base_url=demo.url)
    page.goto(link["url"])
    return page


def _photograph(page: Page, path: str, name: str) -> None:
    answer = page.goto(path)
    if answer is None or not answer.ok:
        sys.exit(f"{path} is not there: {answer.status if answer else 'no answer'}.")
    page.evaluate("document.fonts.ready")
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")


def _photograph_temporal(browser: Browser, demo: Demo) -> None:
    """The timeline of a delivery that was delivered at its third attempt."""
    query = f"?status=delivered&endpoint_id={demo.endpoints['gradebook']}"
    delivery = _wait_for(demo, query, attempts=3)
    link = demo.get(f"/v1/deliveries/{delivery}")["workflow"]["url"]
    page = browser.new_page(viewport=_VIEW)
    page.goto(link)
    page.get_by_text("retry 2 of").first.wait_for()
    page.set_viewport_size({"width": 1280, "height": 1400})  # all of the timeline
    heading = page.get_by_role("heading", name="Timeline")
    heading.wait_for()
    page.wait_for_timeout(1_000)  # the timeline is drawn again after the size has changed
    box = heading.bounding_box()
    assert box is not None  # noqa: S101 - it was waited for
    clip = {"x": 272, "y": box["y"] - 16, "width": 992, "height": 305}
    page.screenshot(path=FOLDER / "temporal.png", clip=clip)
    page.close()


def _photograph_grafana(browser: Browser, demo: Demo) -> None:
    """The first two rows of Grafana's dashboard, with the marks of the outages."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(
        f"http://{_GRAFANA}/d/hookfast/hookfast?kiosk&theme=light&from=now-5m&to=now"
        f"&var-hookfast={demo.url}"
    )
    page.get_by_text("Circuits that are not closed").wait_for()
    page.wait_for_timeout(3_000)  # the panels ask Prometheus one after the other
    page.screenshot(path=FOLDER / "grafana.png", animations="disabled")
    page.close()


def _check_sizes() -> None:
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.glob("*.png"))}
    for name, size in sizes.items():
        print(f"{name:24} {size / 1_000:4.0f} KB")
    if large := [name for name, size in sizes.items() if size > _MAX_BYTES]:
        sys.exit(f"Larger than {_MAX_BYTES // 1_000} KB: {', '.join(large)}.")


if __name__ == "__main__":
    main()
