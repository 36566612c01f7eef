"""The settings of an endpoint, as the API accepts them and pages show them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS
from hookfast.resources.fields import Description, Email, Input, Metadata
from hookfast.resources.setting import Dashboard, Page, Portal
from hookfast.signing.encryption import Algorithm, ContentEncryption
from hookfast.signing.signature import DEFAULT_PROFILES, Profile
from hookfast.strict_json.numbers import with_floats

Mode = Literal["push", "poll"]
Verification = Literal["header", "query", "none"]
Seconds = Annotated[float, Field(ge=1, le=86_400)]

CUSTOM_PLAN = "custom"
"""The choice of a retry plan that is given as an object."""
_PLANS = {name: name for name in PRESETS} | {CUSTOM_PLAN: "custom plan"}
_PROFILES = {profile.value: profile.value for profile in Profile}


class CircuitForm(Input):
    """When deliveries to a failing endpoint are held. Members left out keep their defaults."""

    failure_threshold: Annotated[int | None, Dashboard("Failures in a row that open it")] = Field(
        None, ge=1, le=1_000, description="Consecutive failures that open the circuit."
    )
    min_span_seconds: Annotated[float | None, Dashboard("Seconds that they span at least")] = Field(
        None, ge=0, le=86_400, description="Shortest time those failures must span."
    )
    probe_delays_seconds: Annotated[
        list[Seconds] | None,
        Page(kind="numbers"),
        Dashboard("Seconds before each probe", "The last repeats.", placeholder="60, 120, 300"),
    ] = Field(
        None, min_length=1, max_length=100, description="Waits between probes; the last repeats."
    )
    disable_after_seconds: Annotated[
        float | None,
        Dashboard("Disable after (seconds)", "Without a success for this long."),
    ] = Field(
        None, ge=60, le=2_592_000, description="Time without a success that disables the endpoint."
    )


class EncryptionForm(Input):
    """Encrypt deliveries to this key (compact JWE, sent as `application/jose`). A merge patch
    merges the members of the key too: to change the key, send all of them, with `kid` or null."""

    jwk: dict[str, Any] = Field(
        description="The receiver's public key (RFC 7517): RSA of at least 2048 bits, EC on P-256, "
        "P-384 or P-521, or OKP on X25519. Its `kid`, if any, is in the header of the JWE.",
        examples=[
            {"kty": "OKP", "crv": "X25519", "x": "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"}
        ],
    )
    alg: Algorithm = Field(description="`RSA-OAEP-256` for RSA keys, else `ECDH-ES+A256KW`.")
    enc: ContentEncryption = Field("A256GCM", description="The cipher of the body.")


class EndpointSettings(Input):
    """The settings of an endpoint, which can be changed later, except for the mode."""

    mode: Annotated[Mode, Page(for_polled=True)] = Field(
        "push",
        description="`push` sends each event to `url`. `poll` sends nothing and creates no "
        "deliveries: a consumer that cannot receive requests fetches the events from "
        "`GET /v1/endpoints/{endpoint_id}/poll`. The mode cannot be changed.",
    )
    url: Annotated[
        str | None,
        Page(kind="url", section="receiver", note="A new URL is verified first."),
        Dashboard("URL"),
        Portal("URL", "A new URL has to answer the challenge first."),
    ] = Field(
        None,
        description="The URL that events are sent to: https, no credentials, no fragment. Required "
        "with the mode `push`; not allowed with `poll`, like all other settings of requests.",
        examples=["https://example.com/webhooks"],
    )
    description: Annotated[
        Description,
        Page(for_polled=True, section="receiver", wide=True),
        Dashboard("Name", unset="none"),
        Portal("Name", "Shown here and in emails. Empty: the URL."),
    ] = ""
    owner_emails: Annotated[
        list[Email],
        Page(group="owners", section="receiver"),
        Dashboard(
            "Owner emails",
            "One per line. They get mail when it fails, recovers or is disabled.",
            unset="none",
        ),
        Portal(
            "Alert emails",
            "One address per line. They are told when the endpoint fails, works again or "
            "is switched off.",
            unset="nobody",
        ),
    ] = Field(
        default_factory=list,
        max_length=20,
        description="Addresses that get mail when the endpoint fails, recovers or is disabled.",
        examples=[["ops@example.com"]],
    )
    verification: Annotated[
        Verification,
        Page(group="url", section="receiver"),
        Dashboard(
            "Verification",
            options={
                "header": "header: echoes X-Hook-Challenge",
                "query": "query: answers ?challenge=…",
                "none": "none, if the settings allow it",
            },
        ),
        Portal(
            "Challenge",
            "How your endpoint shows that it wants these messages.",
            options={
                "header": "Echo the header X-Hook-Challenge",
                "query": "Answer with the parameter challenge",
                "none": "None, if this is allowed",
            },
        ),
    ] = Field(
        "header",
        description="How the receiver confirms that it wants the events: it returns the header "
        "`X-Hook-Challenge`, or the query parameter `challenge` as its body; `none` if the "
        "server's settings allow it.",
    )
    retry_plan: Annotated[
        str | dict[str, Any],
        AfterValidator(with_floats),
        Page(kind="retry_plan", group="retries"),
        Dashboard("Retry plan", options=_PLANS),
        Portal(
            "Retries",
            "When a message is sent again after a failure. The default tries 78 times "
            "over three days.",
            options=_PLANS,
        ),
    ] = Field(
        DEFAULT_PLAN,
        description=f"A preset ({', '.join(PRESETS)}) or an object with `delays_seconds`, "
        "`jitter` and `retry_on`.",
        examples=["hourly", {"delays_seconds": [1, 5, 30], "jitter": 0.1, "retry_on": "all"}],
    )
    timeout_seconds: Annotated[
        float | None,
        Page(group="retries"),
        Dashboard("Timeout in seconds", "1 to 30. Default: as the plan says."),
        Portal(
            "Timeout in seconds",
            "How long an answer may take, 1 to 30. Empty: as the retry plan says.",
        ),
    ] = Field(
        None, ge=1, le=30, description="Total time for one attempt; default: the retry plan's."
    )
    rate_limit_per_second: Annotated[
        float | None,
        Page(group="limits"),
        Dashboard(
            "Rate limit per second", "Empty: no limit.", fact="{} per second", unset="no rate limit"
        ),
        Portal(
            "Messages per second",
            "Most messages sent per second; the others wait. Empty: no limit.",
            fact="{} per second",
        ),
    ] = Field(
        None,
        ge=0.00001,  # not quite one a day
        le=10_000,
        description="Maximum deliveries per second, 0.00001 to 10,000; default: no limit.",
    )
    max_in_flight: Annotated[
        int | None,
        Page(group="limits"),
        Dashboard(
            "Max in flight", "Empty: no limit.", fact="{} in flight", unset="any number in flight"
        ),
        Portal(
            "Messages at once",
            "Most requests open at the same time; the others wait. Empty: no limit.",
            fact="{} at once",
        ),
    ] = Field(None, ge=1, le=1_000, description="Maximum requests in progress; default: no limit.")
    ordered: Annotated[
        bool,
        Page(
            group="order",
            note="For all subscriptions of this endpoint. In order, each event waits until the one "
            "before it with its ordering key is done.",
        ),
        Dashboard(
            "Order",
            options={
                "": "as its subscriptions say",
                "yes": "in order, one at a time per ordering key",
            },
            unset="as its subscriptions say",
        ),
        Portal(
            "Order",
            "In order, each message waits until the previous one has arrived.",
            options={"": "Any order", "yes": "In order"},
        ),
    ] = Field(
        False,
        description="Send events with the same `ordering_key` one after the other, each when the "
        "one before it is done, for every subscription of this endpoint.",
    )
    signatures: Annotated[
        list[str],
        Page(kind="checks", section="security"),
        Dashboard("Signatures", options=_PROFILES),
        Portal(
            "Signatures",
            "The formats in which messages are signed. “standard” is that of Standard Webhooks.",
            options=_PROFILES,
        ),
    ] = Field(
        default_factory=lambda: [profile.value for profile in DEFAULT_PROFILES],
        max_length=10,
        description="Signature profiles; each adds its headers to every delivery: "
        f"{', '.join(Profile)}. At most one of `nonce`, `body` and `rsa`.",
    )
    signature_hash: Annotated[
        Literal["sha1", "sha256", "sha512"],
        Page(group="signatures", section="security", later=True),
        Dashboard("Hash of the profile “hook”"),
    ] = Field("sha256", description="The hash of the profile `hook`.")
    circuit: Annotated[CircuitForm, Page(kind="circuit", later=True), Dashboard("Circuit")] = Field(
        default_factory=CircuitForm,
        description="When deliveries are held because the endpoint fails, and when it is disabled.",
    )
    headers: Annotated[
        dict[str, str],
        Page(kind="headers", later=True),
        Dashboard(
            "Custom headers",
            "One per line, to add or replace: X-Environment: staging. Stored values are not shown.",
            unset="none",
        ),
        Portal(
            "Headers",
            "Sent with every message, one per line: X-Environment: staging. Stored values "
            "are not shown.",
        ),
    ] = Field(
        default_factory=dict,
        description="Headers added to every delivery. Responses show only their names.",
        examples=[{"Authorization": "Basic Zm9vOmJhcg=="}],
    )
    encryption: Annotated[
        EncryptionForm | None,
        Page(kind="json", section="security", later=True, rows=8),
        Dashboard(
            "Encryption",
            'The key to encrypt to, as JSON: {"jwk": {…}, "alg": "RSA-OAEP-256", "enc": '
            '"A256GCM"}, with the public key of the receiver. Empty: not encrypted.',
            unset="none",
        ),
    ] = Field(None, description="Encrypt deliveries to the receiver's key; default: not encrypted.")
    allowed_networks: Annotated[
        list[str],
        Page(group="networks", section="security", later=True),
        Dashboard(
            "Allowed networks",
            "One per line, e.g. 203.0.113.0/24. The URL must resolve into one of them. "
            "Empty: any public address.",
            unset="any public address",
        ),
    ] = Field(
        default_factory=list,
        max_length=50,
        description="Networks (CIDR) that the URL must resolve to; default: any public address.",
        examples=[["203.0.113.0/24"]],
    )
    metadata: Annotated[Metadata, Page(for_polled=True)] = Field(default_factory=dict)
