"""The choice of a signature, and what is filled into the code; that it runs is tested in
tests/integration/portal."""

from __future__ import annotations

import pytest

from api.portal.snippets import LANGUAGES, challenge_snippet, snippet_profile, verify_snippet
from hookfast.signing.signature import Profile


@pytest.mark.parametrize(
    ("signatures", "profile"),
    [
        (["hook", "standard"], Profile.STANDARD),
        (["hook", "nonce"], Profile.NONCE),
        (["body", "hook"], Profile.HOOK),
        (["body"], Profile.BODY),
        (["standard-ed25519", "rsa", "hook"], Profile.HOOK),
        (["standard-ed25519", "rsa"], None),
        ([], None),
    ],
)
def test_strongest_signature_by_the_secret_is_verified(
    signatures: list[str], profile: Profile | None
) -> None:
    assert snippet_profile(signatures) is profile


@pytest.mark.parametrize("language", LANGUAGES)
def test_secret_is_filled_in_or_read_from_the_environment(language: str) -> None:
    filled = verify_snippet(language, signatures=["standard"], secrets=["whsec_new", "whsec_old"])
    assert '"whsec_new", "whsec_old"' in filled
    assert "WEBHOOK_SECRET" not in filled
    assert "WEBHOOK_SECRET" in verify_snippet(language, signatures=["standard"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_receiver_without_a_challenge_answers_none(language: str) -> None:
    code = verify_snippet(language, signatures=["standard"], challenge="none")
    assert "hallenge" not in code
    assert "asks whether" not in code


def test_impossible_requests_are_rejected() -> None:
    with pytest.raises(ValueError, match="unknown language"):
        challenge_snippet("cobol")
    with pytest.raises(ValueError, match="no signature"):
        verify_snippet("go", signatures=["rsa"])
