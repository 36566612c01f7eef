"""The encodings of signatures that providers send: only the canonical one of a digest is read."""

from __future__ import annotations

import base64

import pytest

from hookfast.inbox import RequestRejected
from hookfast.inbox.hmac_check import decode_signature

RAW = bytes(range(0xE0, 0x100))
HEX = RAW.hex()
B64 = base64.b64encode(RAW).decode()
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
# 32 bytes leave two bits of the 43rd character; Python's decoder ignores them
UNUSED_BITS = B64[:-2] + ALPHABET[ALPHABET.index(B64[-2]) ^ 1] + "="


def test_the_canonical_encoding_of_a_digest_is_read() -> None:
    url = B64.replace("+", "-").replace("/", "_")
    assert decode_signature(HEX, header="X") == RAW
    assert decode_signature(f"sha256={HEX}", header="X", prefix="sha256=") == RAW
    assert decode_signature(B64, header="X", encoding="base64") == RAW
    assert url != B64
    assert decode_signature(url, header="X", encoding="base64url") == RAW
    assert decode_signature(HEX[:40], header="X", hash_name="sha1") == RAW[:20]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256=",
        HEX,  # no prefix
        f"sha512={HEX}",
        f"SHA256={HEX}",
        f"sha256={HEX.upper()}",
        f"sha256={HEX[:-1]}",
        f"sha256={HEX[:-2]}",
        f"sha256={HEX[:40]}",  # of SHA-1
        f"sha256={HEX}00",
        f"sha256={HEX}=",
        f"sha256={HEX[:-1]}g",
        f"sha256={HEX[:-1]}٣",  # a digit, in Arabic
        f"sha256={HEX[:-1]}é",
        f"sha256= {HEX}",
        f"sha256 = {HEX}",
        f" sha256={HEX}",
        f"sha256={HEX} ",
        f"sha256={HEX}\n",
        f"sha256={HEX[:32]} {HEX[32:]}",
        f"sha256={HEX},sha256={HEX}",
        f"sha256=sha256={HEX}",
        f"sha256={B64}",
    ],
)
def test_other_text_than_the_prefix_and_lower_case_hex_is_malformed(text: str) -> None:
    with pytest.raises(RequestRejected) as rejected:
        decode_signature(text, header="X", prefix="sha256=")
    assert rejected.value.code == "signature_malformed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        B64.rstrip("="),
        f"{B64}=",
        f" {B64}",
        f"{B64[:20]} {B64[20:]}",
        B64[:-4],
        f"{B64}ü",
        HEX,
        base64.b64encode(RAW + b"\0").decode(),
        base64.b64encode(RAW[:20]).decode(),
        f"{B64},{B64}",
        f"sha256={B64}",
        B64.replace("+", "-").replace("/", "_"),
        UNUSED_BITS,
    ],
)
def test_other_text_than_padded_canonical_base64_is_malformed(text: str) -> None:
    with pytest.raises(RequestRejected) as rejected:
        decode_signature(text, header="X", encoding="base64")
    assert rejected.value.code == "signature_malformed"
