"""A shell script that sends a delivery's request again. The reader fills in the secret."""

from __future__ import annotations

import shlex
from typing import Final

from api.forms.endpoint import EndpointView
from api.routes.deliveries import DeliveryView
from hookfast.signing.signature import Profile

MAX_BODY: Final = 65_536
"""The script contains bodies up to this many bytes, and reads a larger one from a file."""


def curl_script(
    delivery: DeliveryView, endpoint: EndpointView, *, body: bytes, attempt: int
) -> str:
    """Return a shell script that sends the delivery's request. The reader fills in the secret, and
    the values and files of headers and credentials.

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
    names = ["Authorization"] if endpoint.authentication is not None else []
    command += [f"-H {shlex.quote(f'{name}: …')}" for name in (*names, *endpoint.headers)]
    if endpoint.tls is not None:
        command += ["--cert client.pem --key client.key"] if endpoint.tls.certificate else []
        command += ["--cacert authorities.pem"] if endpoint.tls.authorities else []
    command.append('--data-binary "$BODY"')
    return "\n".join([*lines, " \\\n  ".join(command)])
