"""Writes the test vectors of docs/signatures.md and docs/signature-vectors.json.

    python docs/signature_vectors.py

All inputs are fixed, and so is the output; a test compares it with the committed files. The keys
here are only for these vectors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from joserfc.jwk import RSAKey

from hookfast.signing.keys import RsaSigner, ed25519_key, public_key_text, rsa_jwk
from hookfast.signing.signature import HashName, Profile, merged_headers, secret_key, sign

FOLDER = Path(__file__).parent
JSON_FILE = FOLDER / "signature-vectors.json"
GUIDE = FOLDER / "signatures.md"

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - for the vectors alone
OLDER_SECRET = "whsec_b2xkZXIgc2VjcmV0IG9mIHRoZSB2ZWN0b3Jz"  # noqa: S105
# RFC 8032, section 7.1, test 1
ED25519 = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
MESSAGE_ID = "dlv_0199f0a17c4e7d2f8b6a3c5e9d1f7042"
EVENT_TYPE = "order.invoice.paid"
TIMESTAMP = 1795173300
NONCE = "6b1d0c8f3a5e4f7291b0c4d8e2f6a795"
BODY = (
    '{"id":"evt_0199f0a17c4e7d2f8b6a3c5e9d1f7041","type":"order.invoice.paid",'
    '"created_at":"2026-11-20T11:15:00.000000Z","tenant_id":null,'
    '"data":{"amount":129900,"note":"grüße"}}'
)
_BEGIN, _END = "<!-- vectors: begin -->", "<!-- vectors: end -->"


def document() -> dict[str, Any]:
    """Return the content of the JSON file."""
    signer = _signer()
    return {
        "comment": "Test vectors of Hookfast's signatures. The keys are for these alone.",
        "keys": {
            "secret": SECRET,
            "older_secret": OLDER_SECRET,
            "ed25519": {"private": ED25519, "public": public_key_text(ed25519_key(ED25519))},
            "rsa": {"private": RSA_PRIVATE, "public": rsa_jwk(signer.key)},
        },
        "request": {
            "message_id": MESSAGE_ID,
            "event_type": EVENT_TYPE,
            "attempt": 1,
            "timestamp": TIMESTAMP,
            "nonce": NONCE,
            "body": BODY,
        },
        "vectors": list(_vectors(signer)),
    }


def table() -> str:
    """Return the vectors as Markdown, each with its headers."""
    found = document()
    public = found["keys"]["ed25519"]["public"]
    lines = [
        "| | |",
        "|---|---|",
        f"| secret | `{SECRET}` |",
        f"| older secret, while rotating | `{OLDER_SECRET}` |",
        f"| ed25519 | `{ED25519}`, public `{public}` |",
        "| rsa | `keys.rsa` in [signature-vectors.json](signature-vectors.json) |",
        f"| message id | `{MESSAGE_ID}` |",
        f"| timestamp | `{TIMESTAMP}` |",
        f"| nonce | `{NONCE}` |",
        f"| body, UTF-8 | `{BODY}` |",
        "",
    ]
    for vector in found["vectors"]:
        lines += [f"**{vector['name']}**", "", "```"]
        lines += [f"{name}: {value}" for name, value in vector["headers"].items()]
        lines += ["```", ""]
    return "\n".join(lines)


def guide(text: str) -> str:
    """Return the guide's text with the vectors replaced."""
    inside = re.compile(f"{_BEGIN}.*{_END}", re.DOTALL)
    assert inside.search(text), "the guide has no place for the vectors"  # noqa: S101
    return inside.sub(lambda _: f"{_BEGIN}\n\n{table()}\n{_END}", text)


def rendered() -> str:
    """Return the text of the JSON file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write both files."""
    JSON_FILE.write_text(rendered())
    GUIDE.write_text(guide(GUIDE.read_text()))


def _vectors(signer: RsaSigner) -> Iterator[dict[str, Any]]:
    hook, standard, nonce = Profile.HOOK, Profile.STANDARD, Profile.NONCE
    for hash_name in (HashName.SHA256, HashName.SHA512, HashName.SHA1):
        yield _vector(f"hook, {hash_name}", [hook], signer, hash_name=hash_name)
    yield _vector("hook, while rotating", [hook], signer, rotating=True)
    yield _vector("standard", [standard], signer)
    yield _vector("standard, while rotating", [standard], signer, rotating=True)
    yield _vector("standard-ed25519", [Profile.STANDARD_ED25519], signer)
    both = [standard, Profile.STANDARD_ED25519]
    yield _vector("standard and standard-ed25519", both, signer)
    yield _vector("nonce", [nonce], signer)
    yield _vector("nonce, while rotating", [nonce], signer, rotating=True)
    yield _vector("body", [Profile.BODY], signer)
    yield _vector("body, while rotating", [Profile.BODY], signer, rotating=True)
    yield _vector("rsa", [Profile.RSA], signer)


def _vector(
    name: str,
    profiles: Sequence[Profile],
    signer: RsaSigner,
    *,
    hash_name: HashName = HashName.SHA256,
    rotating: bool = False,
) -> dict[str, Any]:
    secrets = [SECRET, OLDER_SECRET] if rotating else [SECRET]
    headers = merged_headers(
        sign(
            profile,
            keys=[secret_key(secret) for secret in secrets],
            message_id=MESSAGE_ID,
            timestamp=TIMESTAMP,
            body=BODY.encode(),
            hash_name=hash_name,
            event_type=EVENT_TYPE,
            nonce=NONCE,
            ed25519=[ed25519_key(ED25519)],
            rsa=signer,
        )
        for profile in profiles
    )
    return {
        "name": name,
        "profiles": [profile.value for profile in profiles],
        "secrets": secrets,
        "headers": headers,
    }


def _signer() -> RsaSigner:
    key = RSAKey.import_key(dict(RSA_PRIVATE)).private_key
    assert isinstance(key, RSAPrivateKey)  # noqa: S101 - narrows for the type checker
    return RsaSigner(kid=rsa_jwk(key)["kid"], key=key)


RSA_PRIVATE = {
    "kty": "RSA",
    "n": (
        "piWZw5dC-SJkgk1LZb62LPm3tl_fXWGHweYm4W-Yydw2TpDtb83-aaUFO9Z-"
        "edwcsd3jYLzFPaS_QEocNx8Bwq-6aiyYmPaHI9_lZV3y_h_y-"
        "Q4BTzEvonD0M4q_WyfyoBXnqZ83QOwqp422AGMJSejjdB2o6WIyQsp3Bl9c37IDMBKGRgHP9zfwzVjJVArFM"
        "IQE1ZQq0zGqIyvd9mCpsi_3bsr-vm8rAZJJehET5VunpQNbUdP9Xb4dw3BTuqFyWC8qESDihrkaR-"
        "y016994TkIXLdaYipH1_guC2yKAGWF5RVQtSLiSOuhelmUZuBGQeR930n6oF1IL9wyU48UXQ"
    ),
    "e": "AQAB",
    "d": (
        "DCzv5RLN_aPflGJFsYxq8pt6Mws45dxNLpBx2PjB9vOu_HhHw3cSZdDfXqXhWYd1Mt5Sg2GnXVUYDttfe0qd"
        "E79SUeWNaT2SZGFMAO8EQks6awtJB_H6zlSou1OM97PTEULfBIx-aBY71KY16DavFOjULPY0zVA85ALM-"
        "308OR2cNiK1Yc2X5mdKs5pYfHHmrYeJgwsSBrF25Slc6EZr9TXyw8MUtwQ8MqQsR41ImhrRAQW1vqalZEz-"
        "UjgHHX_sjEULieTyBpd5QMPwi7GrNUk2SFb4T3hFxDj6cKfiipR2eR3JQq-"
        "kjMeGAkkz_pU8QUPqaLgl7wEwCyyIMwXDoQ"
    ),
    "p": (
        "2CmHeZzwpBAuR2ITeKCigeb1Jd3o9eEmUA31O7u8_5SecOnvBZjVq13Fqs7P0C91WO_PZSDXB9GZNPOP1EOr"
        "mpU_W8B0g8NSohBMXU12OClc3r8eEvtaX8ZkLG-"
        "KjtM6qhxZhfOrXev2jbHQY_qtSg7OMnIOnZp1ihyCdhlkulM"
    ),
    "q": (
        "xMRcqldReLsolxIFIgAJkjUK3vjYkIisGjEPSrlA7wDlZCvZrGt7wu75KwzS9AAzU1YJGaMJiVyKi1Lg_tCP"
        "0SQ4TydIqTMv5RYWiQZ7JKeP7PrZWdI9ydY6q2IMdCaukbbhebV6ivNFGPI50p6YLpkjCKgVxGgH6ucKzt8p"
        "AI8"
    ),
    "dp": (
        "14hBHs-PWecQXfi6tXJl1uS01zb3DAOdMgFY3mCJSMWlXazDuW70zdPIPlHMACbx-"
        "OXUg19FSPSCsLuSU_HNb2sVK6UwCBl_kTxzCC0ujT0g7rDdicu6BvlH9M6a92JCgk-WK-"
        "wUmKeoxQvhX28ZzlgI3V_AlwDl5fobUypqtyU"
    ),
    "dq": (
        "pZfjrG-D3ykTReAidbS2WVdOaMvf5fM_c2NqTSaO4RVN9_l3XUWviCP5iiNmvXYVu8KiMfMlqXY6GnqLY6c-"
        "AXKL-"
        "QFEgzDS0-a83GCZ7gUeeP-7P35SBbTG90iy1mVfcL4KD5WNJbcJpa7kvr49sKmr9DMQ7pPmZeg_Dk58gT0"
    ),
    "qi": (
        "FRWPLr45Ne_dpq8fRr9xnW1wXBhmRIXIbKQgu73xaCNTlP04p2a1RpddWogRhoCwfKFA0xx0SxkPLZ0GVeBY"
        "1hSqTRWsshGzrALmyTe303zZvNSkrlu8TSjvQYAMKL2xouytPlEjpKvNtv7vBaH7nUS4w9xBASZRDUqV-"
        "IAvkjE"
    ),
}


if __name__ == "__main__":
    main()
