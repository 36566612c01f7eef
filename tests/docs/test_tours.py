"""The quickstart and the guides, run as written, against one running service."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.command_server import command_server
from tests.docs.fenced import DOCS, PAGES, ROOT, Block, blocks
from tests.docs.shell_commands import shell_commands
from tests.docs.walk import FOLLOWED
from tests.e2e.service_process import environment
from tests.e2e.tour import on_ports, receiver, service, tour_ports

ELSEWHERE = {
    "listen": "it ends when it is stopped: tests/integration/cli/test_listen.py",
    "--follow": "it ends when it is stopped",
    "--to": "needs a server under development: tests/integration/cli/test_trigger.py",
    "--batch": "needs a file; guides/emitting.md has one",
    "up": "every test here runs it",
    "worker": "tests/e2e/test_crash.py",
    "api": "tests/e2e/test_crash.py",
    "migrate": "tests/integration/storage/database/test_migrate.py",
    "doctor": "tests/integration/doctor",
    "outbox-relay": "needs a database: tests/integration/client/outbox",
    "config": "tests/unit/cli/test_config.py",
    "secrets": "tests/integration/cli/test_secrets.py",
}
"""Words of commands that are not run here, and the tests that run them."""
CONFIRMED = {"recover", "redrive", "resend", "pause", "resume", "cancel", "replay", "run", "revoke"}

# In this order. Each continues where the quickstart ended, and leaves the receiver working.
GUIDES = [
    *("concepts", "endpoints", "emitting", "filters", "verifying", "retries", "replaying"),
    *("circuits", "mapping"),
]

EMIT_TWICE = """
first = emit("order.refund.created", {"refund_id": "re_90", "amount": 5},
             tenant_id=os.environ["TENANT"], idempotency_key="refund-90")
assert first.startswith("evt_")
print(first)
"""
EMIT_AGAIN = """
import { emit } from "./emit.mjs";
const data = { refund_id: "re_90", amount: 5 };
console.log(await emit("order.refund.created", data,
  { tenantId: process.env.TENANT, idempotencyKey: "refund-90" }));
"""


@pytest.mark.timeout(400)  # mostly waiting, but some sixty programs start
@pytest.mark.slow
def test_the_quickstart_and_the_guides_work_as_they_are_written(tmp_path: Path) -> None:
    ports = tour_ports()
    (tmp_path / "var/tour").mkdir(parents=True)
    with (
        service(tmp_path, ports),
        receiver(tmp_path, ports["9000"]) as output_file,
        command_server(tmp_path) as command,
    ):
        tour = Tour(tmp_path, ports, command)
        quickstart = tour.run(DOCS / "quickstart.md")
        assert quickstart.count(" delivered ") == 4  # two waits, both in the last list
        assert "/data/invoice_id: does not satisfy the schema" in quickstart
        assert [line.split(": ")[1] for line in output_file.read_text().splitlines()] == [
            "order.invoice.paid, thanks",
            "order.invoice.paid, answering 503",
            "order.invoice.paid, thanks",
        ]
        output = {name: tour.run(_page(name)) for name in GUIDES}
        _emit_from_python_and_node(tour, blocks(_page("emitting")))
        _run_what_other_pages_show(tour)

    assert '"deliveries":1' in output["emitting"]
    assert '"retries_planned":4' in output["retries"]  # from the workflow's state query
    assert re.search(r"circuit +open", output["circuits"])
    assert output["circuits"].count(" held ") >= 1
    assert re.search(r"circuit +(closed|draining)", output["circuits"])
    assert '{"text":":moneybag: Invoice *in_4711* is paid: 129900"}' in output["mapping"]
    assert '"value":"129900"' in output["mapping"]
    assert " done: 2/2" in output["replaying"]


class Tour:
    """A folder with the files of the tours, in which pages are run."""

    def __init__(self, folder: Path, ports: dict[str, str], command: str) -> None:
        self.folder = folder
        self._ports = ports
        self._prologue = f"set -euo pipefail\n{command}\n"

    def run(self, page: Path) -> str:
        """Run the page's shell blocks in one shell, and return what they printed."""
        script = "\n".join(_runnable(block) for block in blocks(page) if block.language == "sh")
        return self.shell(script)

    def shell(self, script: str) -> str:
        """Run a script in the folder of the tours, and return its output."""
        bin_folder = Path(sys.executable).parent
        done = subprocess.run(
            ["bash", "-c", self._prologue + on_ports(script, self._ports)],
            cwd=self.folder,
            env=environment()
            | {
                "PATH": f"{bin_folder}:{environment()['PATH']}",
                "TEMPORAL_ADDRESS": f"127.0.0.1:{self._ports['7233']}",
                "COLUMNS": "200",
            },
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def _page(name: str) -> Path:
    inside = DOCS / "guides" / f"{name}.md"
    return inside if inside.exists() else DOCS / f"{name}.md"


def _runnable(block: Block) -> str:
    if block.mark.startswith("not run: ") or block.mark == "with openssl":
        return ""  # test_blocks.py runs the blocks with openssl
    if code := re.fullmatch(r"exit code: (\d+)", block.mark):
        return f"set +e\n{block.text}\n[ $? = {code[1]} ] || exit 99\nset -e"
    return block.text


STAGE = r"""
. var/tour/env
EVENT=$(hookfast events list --json | field '["data"][0]["id"]')
DELIVERY=$(hookfast deliveries list --json | field '["data"][0]["id"]')
JOB=$(hookfast jobs list --json | field '["data"][0]["id"]')
hookfast endpoints create --poll --tenant "$TENANT" --events 'order.**' --json > polled
POLLED=$(field '["id"]' < polled)
hookfast sources create stage --provider github --tenant "$TENANT" --json > source
SOURCE=$(field '["id"]' < source)
export HOOKFAST_TRIGGER_SECRET=$(field '["secret"]' < source)
curl -sS -X PUT "$HOOKFAST_URL/v1/event-types/github.push.received" \
  -H "Authorization: Bearer $HOOKFAST_API_KEY" -H 'Content-Type: application/json' -d '{}'
"""


def _run_what_other_pages_show(tour: Tour) -> None:
    """Run the commands of every other page, with existing ids."""
    toured = {DOCS / "quickstart.md", ROOT / "README.md", *map(_page, GUIDES)}
    toured.update(DOCS / name for name in FOLLOWED)
    # Its commands name what an invented installation has; test_commands.py checks their options.
    toured.add(DOCS / "cli.md")
    shown = {
        tuple(arguments)
        for page in PAGES
        if page not in toured
        for program, *arguments in shell_commands(page, tour.folder / page.stem)
        if program == "hookfast" and not ELSEWHERE.keys() & set(arguments)
    }
    assert len(shown) > 20
    lines = [STAGE]
    for arguments in sorted(shown):
        line = "hookfast " + " ".join(_with_real_ids(word, arguments) for word in arguments)
        # answers the confirmation, as a reader would
        yes = " --yes" if CONFIRMED & set(arguments) and arguments[0] != "endpoints" else ""
        lines.append(f"{line}{yes} || {{ echo {shlex.quote(line)}; exit 1; }}")
    tour.shell("\n".join(lines))


def _with_real_ids(word: str, arguments: tuple[str, ...]) -> str:
    if arguments == ("find", "hooks.example.com") and word == arguments[1]:
        return "127.0.0.1"  # the host of the tour's endpoint
    endpoint = "$POLLED" if "poll" in arguments else "$ENDPOINT"
    known = {"tnt_…": "$TENANT", "ep_…": endpoint, "src_…": "$SOURCE", "job_…": "$JOB"}
    known |= {"evt_…": "$EVENT", "dlv_…": "$DELIVERY"}
    return f'"{known[word]}"' if word in known else shlex.quote(word)


def _emit_from_python_and_node(tour: Tour, found: list[Block]) -> None:
    """Run both functions of the guide with one idempotency key: they must emit one event."""
    [python] = [one for one in found if (one.language, one.mark) == ("python", "emits")]
    [node] = [one for one in found if (one.language, one.mark) == ("js", "emits")]
    (tour.folder / "emit.py").write_text(python.text + EMIT_TWICE)
    (tour.folder / "emit.mjs").write_text(node.text)
    (tour.folder / "again.mjs").write_text(EMIT_AGAIN)
    first = tour.shell(". var/tour/env\nexport TENANT\npython emit.py")
    assert first.startswith("evt_")
    if tour.shell("command -v node || true"):
        assert tour.shell(". var/tour/env\nexport TENANT\nnode again.mjs") == first
