"""The code of docs/verify.md, run in its language with requests as Hookfast sends them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.receiver import sent

GUIDE = (Path(__file__).parents[3] / "docs" / "verify.md").read_text()

NODE = """
import { readFileSync } from "node:fs";
import { verify } from "./verify.mjs";
const answers = JSON.parse(readFileSync(0)).map(({ secrets, headers, body }) => {
  try {
    return verify(secrets, headers, Buffer.from(body)).id;
  } catch (error) {
    return error.message;
  }
});
console.log(JSON.stringify(answers));
"""

GO = """
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"time"

	"example.test/receiver/webhooks"
)

func main() {
	var requests []struct {
		Secrets []string
		Headers map[string]string
		Body    string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		panic(err)
	}
	answers := []string{}
	for _, request := range requests {
		header := http.Header{}
		for name, value := range request.Headers {
			header.Set(name, value)
		}
		body := []byte(request.Body)
		id, err := webhooks.Verify(request.Secrets, header, body, time.Now())
		if err != nil {
			id = err.Error()
		}
		answers = append(answers, id)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
"""


def block(language: str) -> str:
    """Return the guide's block in this language that is marked to run."""
    (found,) = re.findall(rf"<!-- run -->\n```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert isinstance(found, str)
    return found


def requests() -> list[dict[str, Any]]:
    """Return requests of which only the first two are valid."""
    body = sent.body()

    def request(content: bytes = body, **changes: Any) -> dict[str, Any]:
        headers = {name.lower(): value for name, value in sent.headers(body, **changes).items()}
        return {"secrets": [sent.SECRET], "headers": headers, "body": content.decode()}

    forged = request()
    forged["headers"]["webhook-id"] = "dlv_2"
    unsigned = request()
    del unsigned["headers"]["webhook-timestamp"]
    return [
        request(),
        request(secrets=[sent.OLD_SECRET, sent.SECRET]),
        request(body + b" "),
        request(secrets=[sent.OLD_SECRET]),
        forged,
        request(seconds_ago=400),
        request(seconds_ago=-400),
        unsigned,
        request() | {"secrets": [""]},
    ]


def expected() -> list[str]:
    wrong, late = "no signature fits these bytes", "signed too long ago, or a clock is wrong"
    return ["dlv_1", "dlv_1", wrong, wrong, wrong, late, late, "the request is not signed"]


def test_the_guides_python_says_why_a_request_is_rejected() -> None:
    space: dict[str, Any] = {}
    exec(block("python"), space)  # noqa: S102 - the guide of this repository
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    body = b'{"test": 2432232314}'  # the published vector: signed correctly, but long ago
    assert space["receive"](headers, body) == (401, "timestamp_too_old")
    assert space["receive"](headers, body + b" ") == (401, "wrong_signature")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")
def test_the_guides_node_code_accepts_only_requests_signed_by_hookfast(
    tmp_path: Path,
) -> None:
    (tmp_path / "verify.mjs").write_text(block("js"))
    (tmp_path / "main.mjs").write_text(NODE)
    answers = _run("node", "main.mjs", cwd=tmp_path)
    assert answers == [*expected(), "a secret is whsec_ and base64"]


@pytest.mark.skipif(
    not os.environ.get("HOOKFAST_TEST_GO") or shutil.which("go") is None,
    reason="compiling net/http takes half a minute: HOOKFAST_TEST_GO=1 runs it where there is go",
)
def test_the_guides_go_code_accepts_only_requests_signed_by_hookfast(
    tmp_path: Path,
) -> None:
    (tmp_path / "webhooks").mkdir()
    (tmp_path / "webhooks" / "verify.go").write_text(block("go"))
    (tmp_path / "main.go").write_text(GO)
    (tmp_path / "go.mod").write_text("module example.test/receiver\n\ngo 1.21\n")
    answers = _run("go", "run", ".", cwd=tmp_path)
    assert answers == [*expected(), "a secret is whsec_ and the base64 of at least 24 bytes"]


def _run(*command: str, cwd: Path) -> Any:
    done = subprocess.run(
        command, input=json.dumps(requests()), capture_output=True, text=True, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
