"""Images of others are pinned by digest, and `deploy/images.py` finds their digests."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

ROOT = Path(__file__).parents[3]
tool = SimpleNamespace(**runpy.run_path(str(ROOT / "deploy/images.py")))

INDEX = "application/vnd.oci.image.index.v1+json"
DIGEST = f"sha256:{'a' * 64}"
# The newest patch releases, which no source but the registry knew when they were chosen:
# `make images` writes their digests.
ONLY_BY_TAG = {
    *("caddy:2.11.9-alpine", "postgres:17.12"),
    *("temporalio/admin-tools:1.32.2", "temporalio/server:1.32.2"),
}


def test_images_are_pinned_by_digest() -> None:
    named = {one for name in tool.FILES for one in tool.images((ROOT / name).read_text())}
    assert {str(one) for one in named if one.digest is None} == ONLY_BY_TAG
    assert len(named) == len(ONLY_BY_TAG) + 6


def test_no_other_file_names_an_image_of_others() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in (ROOT, ROOT / "deploy")
        for path in (folder.glob("*") if folder == ROOT else folder.rglob("*"))
        if path.is_file() and path.suffix in ("", ".yml", ".yaml")
        for one in tool.images(path.read_text())
        if one.name != "hookfast"
    }
    assert found == set(tool.FILES)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("FROM caddy:2.11.9-alpine AS x", ("registry-1.docker.io", "library/caddy")),
        ("    image: grafana/grafana:12.4.3", ("registry-1.docker.io", "grafana/grafana")),
        (f"ARG A_IMAGE=ghcr.io/a/b:v1@{DIGEST}", ("ghcr.io", "a/b")),
        ("FROM registry.example:5000/b:1", ("registry.example:5000", "b")),
    ],
)
def test_image_is_asked_for_at_its_registry(line: str, place: tuple[str, str]) -> None:
    [image] = tool.images(line)
    assert image.place == place
    assert tool.pinned(line, {str(image): DIGEST}).split(" AS ")[0].endswith(f"@{DIGEST}")
    assert list(tool.images("FROM ${PYTHON_IMAGE}\n  image: ${A:-hookfast:1}\n# FROM a:1")) == []


def asked(handler: Callable[[httpx2.Request], httpx2.Response]) -> str:
    [image] = tool.images("FROM caddy:2.11.9-alpine")
    with httpx2.Client(transport=httpx2.MockTransport(handler)) as client:
        return str(tool.digest_of(image, client))


def test_digest_of_a_tag_is_that_of_its_index() -> None:
    def registry(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "auth.example":
            assert dict(request.url.params) == {"service": "r", "scope": "repository:caddy:pull"}
            return httpx2.Response(200, json={"token": "t"})
        assert request.url.path == "/v2/library/caddy/manifests/2.11.9-alpine"
        if request.headers.get("authorization") != "Bearer t":
            challenge = (
                'Bearer realm="https://auth.example/t",service="r",scope="repository:caddy:pull"'
            )
            return httpx2.Response(401, headers={"WWW-Authenticate": challenge})
        assert INDEX in request.headers["accept"]
        return httpx2.Response(
            200, headers={"Docker-Content-Digest": DIGEST, "Content-Type": INDEX}
        )

    assert asked(registry) == DIGEST


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(404),
        httpx2.Response(401),
        httpx2.Response(200, headers={"Content-Type": INDEX}),
        httpx2.Response(
            200, headers={"Docker-Content-Digest": DIGEST, "Content-Type": "text/html"}
        ),
    ],
)
def test_answer_without_a_digest_is_an_error_that_names_the_image(answer: httpx2.Response) -> None:
    with pytest.raises(tool.Unresolved, match=r"caddy:2\.11\.9-alpine"):
        asked(lambda request: answer)
