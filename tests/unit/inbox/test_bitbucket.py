"""Bitbucket's signatures, against the vector that Atlassian publishes for X-Hub-Signature."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.hashes import SHA1

from hookfast.inbox import provider
from tests.unit.inbox.requests import ACCEPTED, mac, outcome, received

BITBUCKET = provider("bitbucket")

# https://developer.atlassian.com/cloud/jira/platform/webhooks/ ("Secure admin webhooks"), for the
# same header in the same scheme as Bitbucket's:
# https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
DOCS_SECRET = "It's a Secret to Everybody"
DOCS_BODY = b"Hello World!"
HEX = "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
SHA1_OF_IT = mac(DOCS_SECRET, DOCS_BODY, SHA1()).hex()  # noqa: S303 - to be rejected


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (f"sha256={HEX}", ACCEPTED),
        (f"sha1={SHA1_OF_IT}", "signature_not_accepted"),
        ("md5=ed076287532e86365e841e92bfc50d8c", "signature_not_accepted"),
        (f"sha512={HEX}", "signature_malformed"),
        (HEX, "signature_malformed"),
        (f"SHA256={HEX}", "signature_malformed"),
        (f"sha256={HEX.upper()}", "signature_malformed"),
        (f"sha256={HEX[:-2]}", "signature_malformed"),
        (f"sha256={SHA1_OF_IT}", "signature_malformed"),
        (f"sha256={HEX}=", "signature_malformed"),
        (f"sha256 = {HEX}", "signature_malformed"),
        (f"sha256={HEX}ü", "signature_malformed"),
        ("sha256", "signature_malformed"),
        ("sha256=", "signature_malformed"),
        ("", "signature_malformed"),
        (f"sha256={'0' * 64}", "signature_mismatch"),
        (f"sha256={mac('', DOCS_BODY).hex()}", "signature_mismatch"),
    ],
)
def test_only_sha256_is_accepted(given: str, code: str) -> None:
    request = received({"X-Hub-Signature": given}, DOCS_BODY)
    assert outcome(BITBUCKET, request, DOCS_SECRET) == code


def test_githubs_header_is_ignored() -> None:
    request = received({"X-Hub-Signature-256": f"sha256={HEX}"}, DOCS_BODY)
    assert outcome(BITBUCKET, request, DOCS_SECRET) == "signature_missing"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("repo:push", "bitbucket.repo.push"),
        ("pullrequest:comment_created", "bitbucket.pullrequest.comment_created"),
        ("pr:reviewer:changes_requested", "bitbucket.pr_reviewer.changes_requested"),
        ("diagnostics:ping", "bitbucket.diagnostics.ping"),
        (None, "bitbucket.event.received"),
    ],
)
def test_event_keys_become_event_types(key: str | None, name: str) -> None:
    headers = {} if key is None else {"X-Event-Key": key}
    assert BITBUCKET.event_type(received(headers), {}) == name


def test_the_delivery_id_is_that_of_cloud_or_data_center() -> None:
    cloud = received({"X-Request-UUID": "c", "X-Hook-UUID": "the same for every request"})
    assert BITBUCKET.delivery_id(cloud, {}) == "c"
    assert BITBUCKET.delivery_id(received({"X-Request-Id": "d"}), {}) == "d"
    assert BITBUCKET.delivery_id(received({"X-Hook-UUID": "h"}), {}) is None
