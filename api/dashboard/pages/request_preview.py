"""Previews of a delivery's request, without secrets: its headers, and a shell script that sends it
again, signed with the secret that the reader fills in."""

from __future__ import annotations

import shlex
from typing import Final

from api.forms.custom_headers import MASK
from api.forms.endpoint import EndpointView
from api.routes.deliveries import AttemptView, DeliveryView
from hookfast.deliveries.headers import JSON, request_headers
from hookfast.signing.encryption import CONTENT_TYPE as ENCRYPTED
from hookfast.signing.signature import HashName, Profile

MAX_BODY: Final = 65_536
"""The script contains bodies up to this many bytes, and reads a larger one from a file."""

_NO_KEY = bytes(32)
_ASYMMETRIC = (Profile.STANDARD_ED25519, Profile.RSA)
_SIGNATURES = {
    "X-Hook-Signature": "the HMAC of timestamp.body",
    "webhook-signature": "the HMAC of id.timestamp.body",
    "X-Webhook-Signature": "over the body",
}


def attempt_headers(
    delivery: DeliveryView, attempt: AttemptView, endpoint: EndpointView, *, traceparent: str
) -> list[tuple[str, str]]:
    """Return the headers of an attempt as the endpoint's settings produce them today. Signatures
    and custom headers are masked."""
    profiles = [Profile(name) for name in endpoint.signatures]
    trace = "-".join(traceparent.split("-")[:2])
    sent = request_headers(
        b"",
        message_id=delivery.id,
        event_type=delivery.event_type,
        attempt=attempt.number,
        timestamp=int(attempt.started_at.timestamp()),
        profiles=[profile for profile in profiles if profile not in _ASYMMETRIC],
        keys=[_NO_KEY],
        hash_name=HashName(endpoint.signature_hash),
        custom=dict.fromkeys(endpoint.headers, MASK),
        traceparent=f"{trace}-…",
        content_type=JSON if endpoint.encryption is None else ENCRYPTED,
    )
    for name in _SIGNATURES:
        if name in sent:
            sent[name] = MASK
    if "X-Webhook-Nonce" in sent:
        sent["X-Webhook-Nonce"] = "…"  # random for every attempt, and not stored
    if Profile.STANDARD_ED25519 in profiles:
        sent.setdefault("webhook-id", delivery.id)
        sent.setdefault("webhook-timestamp", str(int(attempt.started_at.timestamp())))
        sent["webhook-signature"] = MASK
    if Profile.RSA in profiles:
        sent["X-Webhook-Signature"] = MASK
        sent["X-Webhook-Timestamp"] = str(int(attempt.started_at.timestamp()))
    return list(sent.items())


def curl_script(
    delivery: DeliveryView, endpoint: EndpointView, *, body: bytes, attempt: int
) -> str:
    """Return a shell script that sends the delivery's request. The reader fills in the secret.

    It needs `bash`, `curl` and `openssl`, and signs with the profiles `hook` and `standard`.
    """
    text = body.decode()
    is_short = len(body) <= MAX_BODY
    lines = [
        "SECRET=whsec_…  # the endpoint's secret, shown when it was created",
        f"BODY={shlex.quote(text)}" if is_short else "BODY=$(cat body.json)  # the event's body",
        f"ID={delivery.id}",
        "TIME=$(date +%s)",
        'KEY=$(printf %s "${SECRET#whsec_}" | base64 -d | od -An -vtx1 | tr -d " \\n")',
    ]
    headers = [
        "Content-Type: application/json",
        "X-Hook-Id: $ID",
        f"X-Hook-Topic: {delivery.event_type}",
        f"X-Hook-Attempt: {attempt}",
    ]
    sign = 'openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY"'
    if Profile.HOOK in endpoint.signatures:
        name = endpoint.signature_hash
        signed = sign.replace("sha256", name)
        lines.append(f"""HOOK=$(printf %s "$TIME.$BODY" | {signed} | sed 's/^.* //')""")
        headers += [f"X-Hook-Signature: {name}=$HOOK", "X-Hook-Timestamp: $TIME"]
    if Profile.STANDARD in endpoint.signatures:
        lines.append(f"""STANDARD=$(printf %s "$ID.$TIME.$BODY" | {sign} -binary | base64)""")
        headers += [
            "webhook-id: $ID",
            "webhook-timestamp: $TIME",
            "webhook-signature: v1,$STANDARD",
        ]
    command = ["curl -sS -i", shlex.quote(endpoint.url or "")]
    command += [f'-H "{header}"' for header in headers]
    command += [f"-H {shlex.quote(f'{name}: …')}" for name in endpoint.headers]
    command.append('--data-binary "$BODY"')
    return "\n".join([*lines, " \\\n  ".join(command)])
