"""Pins the images of others that the deployment files name to their digests.

    python deploy/images.py            write the digest that each tag has now
    python deploy/images.py --check    exit with 1 if a digest is missing or no longer the tag's

A tag can be moved to another image; a digest cannot. It is that of the index of all platforms, as
the registry returns it (OCI Distribution Specification, section "Pulling manifests"). Files are
changed in place; look at the difference before you commit it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

ROOT: Final = Path(__file__).parents[1]
FILES: Final = ("Dockerfile", "docker-compose.yml", "deploy/compose/proxy/Dockerfile")
"""The files that name images of others; those in deploy/kubernetes name only our own."""

_REFERENCE = re.compile(
    r"^(?P<before>\s*image: |FROM |ARG \w+_IMAGE=)"
    r"(?P<name>(?:[\w.-]+:\d+/)?[a-z0-9][\w./-]*):(?P<tag>\w[\w.-]*)(?:@(?P<digest>sha256:[0-9a-f]{64}))?(?=\s|$)",
    re.MULTILINE,
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_DEFAULT_REGISTRY = "registry-1.docker.io"  # of names without a host
_SECONDS = 30.0


class Unresolved(Exception):
    """The registry returned no digest for an image. Check its name and tag, and the network."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image by tag, and the digest to which it is pinned, if any."""

    name: str
    tag: str
    digest: str | None

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}"

    @property
    def place(self) -> tuple[str, str]:
        """The host of its registry, and its repository there."""
        host, _, rest = self.name.partition("/")
        if rest and ("." in host or ":" in host):
            return host, rest
        return _DEFAULT_REGISTRY, self.name if rest else f"library/{self.name}"


def images(text: str) -> Iterator[Image]:
    """Return the images that a file names, in order."""
    for found in _REFERENCE.finditer(text):
        yield Image(found["name"], found["tag"], found["digest"])


def pinned(text: str, digests: dict[str, str]) -> str:
    """Return the file with these digests, by image and tag."""

    def pin(found: re.Match[str]) -> str:
        reference = f"{found['name']}:{found['tag']}"
        return f"{found['before']}{reference}@{digests[reference]}"

    return _REFERENCE.sub(pin, text)


def digest_of(image: Image, client: httpx2.Client) -> str:
    """Return the digest of the index that the image's tag names now. Raises Unresolved."""
    host, repository = image.place
    url = f"https://{host}/v2/{repository}/manifests/{image.tag}"
    headers = {"Accept": ", ".join(_INDEXES)}
    try:
        answer = client.head(url, headers=headers)
        if answer.status_code == 401:
            token = _token(answer.headers.get("www-authenticate", ""), client)
            answer = client.head(url, headers=headers | {"Authorization": f"Bearer {token}"})
        answer.raise_for_status()
    except (httpx2.HTTPError, LookupError, ValueError) as error:
        raise Unresolved(f"{image}: {error}") from None
    digest: str = answer.headers.get("docker-content-digest", "")
    if answer.headers.get("content-type") not in _INDEXES or not _DIGEST.fullmatch(digest):
        raise Unresolved(f"{image}: {host} returned no digest of an index")
    return digest


def _token(challenge: str, client: httpx2.Client) -> str:
    """Return an anonymous token for this challenge (RFC 6750, section 3)."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    answer = client.get(asked.pop("realm"), params=asked)
    answer.raise_for_status()
    token: str = answer.json()["token"]
    return token


def main(arguments: list[str]) -> str | None:
    """Pin or check all images. Return what is wrong, None if nothing is."""
    texts = {name: (ROOT / name).read_text() for name in FILES}
    named = dict.fromkeys(one for text in texts.values() for one in images(text))
    with httpx2.Client(timeout=_SECONDS, follow_redirects=True) as client:
        try:
            digests = {str(image): digest_of(image, client) for image in named}
        except Unresolved as error:
            return str(error)
    if "--check" in arguments:
        wrong = [
            f"{image} is {digests[str(image)]}, and pinned to {image.digest or 'nothing'}"
            for image in named
            if image.digest != digests[str(image)]
        ]
        return "\n".join(wrong) or None
    for name, text in texts.items():
        (ROOT / name).write_text(pinned(text, digests))
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
