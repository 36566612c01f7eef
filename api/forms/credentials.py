"""The credentials of endpoints in requests and responses: an authentication and a TLS identity."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.context.context import Context
from api.http.fields import Input, Time, example
from api.openapi.glossary import described_as_in
from hookfast.endpoints.certificates import MAX_PEM
from hookfast.endpoints.credentials import (
    Access,
    AnyCredential,
    Authentication,
    Basic,
    Bearer,
    Credential,
    OAuth2,
    TlsIdentity,
    current_credential,
    replaced_until,
    seal_credential,
)
from hookfast.errors import InvalidInput, join_pointer
from hookfast.sender import check_identity, check_url

DEFAULT_OVERLAP_SECONDS = 86_400
MAX_OVERLAP_SECONDS = 7 * 86_400
CREDENTIALS = ("authentication", "tls")
"""The members of an endpoint that have routes of their own."""
_MAX_TOKEN = 8_192
_MAX_TEXT = 1_000
_BLOCKED_SECONDS = 5.0

Pem = Annotated[str, Field(max_length=MAX_PEM)]
Text = Annotated[str, Field(max_length=_MAX_TEXT)]
ClientAuthentication = Literal["basic", "body"]


class _CredentialForm(Input):
    overlap_seconds: int = Field(
        DEFAULT_OVERLAP_SECONDS,
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="How long the credential that this one replaces, if any, is still tried when "
        "the receiver rejects this one. 0 ends it now, for example after a leak.",
    )


class BearerForm(_CredentialForm):
    """A fixed token: `Authorization: Bearer <token>` (RFC 6750)."""

    model_config = example(kind="bearer", token="acme-4f1d9c")  # noqa: S106 - an example

    kind: Literal["bearer"] = Field(description="Always `bearer`: a fixed token.")
    token: str = Field(
        max_length=_MAX_TOKEN, description="Visible ASCII, without spaces.", repr=False
    )

    def credential(self) -> Bearer:
        return Bearer(self.token)


class BasicForm(_CredentialForm):
    """A user name and a password (RFC 7617), sent in UTF-8."""

    model_config = example(kind="basic", username="hookfast", password="9c-4f1d")  # noqa: S106 - an example

    kind: Literal["basic"] = Field(description="Always `basic`: a user name and a password.")
    username: Text = Field(description="The user name, without a colon.")
    password: Text = Field(description="Encrypted at rest, and never shown.", repr=False)

    def credential(self) -> Basic:
        return Basic(self.username, self.password)


class OAuth2Form(_CredentialForm):
    """The client credentials of OAuth 2.0 (RFC 6749, section 4.4): deliveries carry an access token
    from `token_url`, which is fetched when it is needed and kept until shortly before it expires.
    """

    model_config = example(
        kind="oauth2",
        token_url="https://login.example.com/oauth2/token",  # noqa: S106 - a URL
        client_id="hookfast",
        client_secret="9c-4f1d",  # noqa: S106 - an example
        scope="webhooks.write",
    )

    kind: Literal["oauth2"] = Field(description="Always `oauth2`: client credentials.")
    token_url: str = Field(
        description="The authorization server's token endpoint: https, at a public address.",
        examples=["https://login.example.com/oauth2/token"],
    )
    client_id: Text = Field(min_length=1, description="The client's id at that server.")
    client_secret: Text = Field(
        min_length=1, description="Encrypted at rest, and never shown.", repr=False
    )
    scope: Text | None = Field(None, description="Scopes, separated by spaces.")
    audience: Text | None = Field(None, description="Sent as `audience`, which some servers need.")
    client_authentication: ClientAuthentication = Field(
        "basic",
        description="Whether the token request carries id and secret of the client in its "
        "`Authorization` header (`basic`) or in its `body`.",
    )

    def credential(self) -> OAuth2:
        return OAuth2(**self.model_dump(exclude={"kind", "overlap_seconds"}))


AuthenticationForm = Annotated[BearerForm | BasicForm | OAuth2Form, Field(discriminator="kind")]


class TlsForm(_CredentialForm):
    """A TLS identity in PEM, for endpoints with an https URL: a client certificate with its private
    key (mutual TLS), the authorities that may have issued the server's certificate, or both."""

    model_config = example(
        certificate="-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n",
        private_key="-----BEGIN PRIVATE KEY-----\nMIGH…\n-----END PRIVATE KEY-----\n",
        overlap_seconds=3_600,
    )

    certificate: Pem | None = Field(
        None, description="The client certificate, followed by its intermediates, if any."
    )
    private_key: Pem | None = Field(
        None,
        description="The certificate's private key, not encrypted: RSA of 2048 to 4096 bits, or "
        "EC.",
        repr=False,
    )
    authorities: Pem | None = Field(
        None, description="Certificates of authorities; default: those that the system trusts."
    )

    def credential(self) -> TlsIdentity:
        return TlsIdentity(self.certificate, self.private_key, self.authorities)


class _CredentialView(BaseModel):
    created_at: Time
    previous_expires_at: Time | None = Field(
        description="When the credential that it replaced is no longer tried; null: it ended at "
        "once, or there was none."
    )


class BearerView(_CredentialView):
    """A fixed token, which is never shown."""

    kind: Literal["bearer"] = Field(description="Always `bearer`: a fixed token.")


class BasicView(_CredentialView):
    """A user name; its password is never shown."""

    kind: Literal["basic"] = Field(description="Always `basic`: a user name and a password.")
    username: str = Field(description="The user name that requests carry.")


class OAuth2View(_CredentialView):
    """An OAuth 2.0 client; its secret and its tokens are never shown."""

    model_config = ConfigDict(json_schema_extra=described_as_in(OAuth2Form))

    kind: Literal["oauth2"] = Field(description="Always `oauth2`: client credentials.")
    token_url: str
    client_id: str
    scope: str | None
    audience: str | None
    client_authentication: ClientAuthentication


AuthenticationView = Annotated[BearerView | BasicView | OAuth2View, Field(discriminator="kind")]


class CertificateView(BaseModel):
    """Facts about a certificate. Names are in the form of RFC 4514."""

    subject: str = Field(description="Whom the certificate names.")
    issuer: str = Field(description="The authority that issued it.")
    serial_number: str = Field(description="Its serial number, in hexadecimal.")
    not_before: Time = Field(description="Start of its validity.")
    not_after: Time = Field(description="End of its validity; replace it before.")
    sha256: str = Field(description="The fingerprint, in hexadecimal.")


class TlsView(_CredentialView):
    """A TLS identity; its private key is never shown."""

    certificate: CertificateView | None = Field(description="Null: none is presented.")
    authorities: list[CertificateView] | None = Field(
        description="Null: those that the system trusts."
    )


def credential_members(stored: Sequence[Credential]) -> dict[str, Any]:
    """Return the members `authentication` and `tls` of an endpoint's view."""
    return {name: _view(stored, tls=name == "tls") for name in CREDENTIALS}


def _view(stored: Sequence[Credential], *, tls: bool) -> dict[str, Any] | None:
    current = current_credential(stored, tls=tls)
    if current is None:
        return None
    return {
        "kind": current["kind"],
        **current["shown"],
        "created_at": current["created_at"],
        "previous_expires_at": replaced_until(stored, tls=tls),
    }


async def checked_authentication(
    form: AuthenticationForm, context: Context, *, pointer: str = ""
) -> Authentication:
    """Return the credential of the form at `pointer`. Raises InvalidInput for a token endpoint to
    which no requests may be sent. `sealed` checks the other members."""
    credential = form.credential()
    if not isinstance(credential, OAuth2):
        return credential
    at = f"{pointer}/token_url"
    url = check_url(credential.token_url, allow_http=context.settings.allow_http, pointer=at)
    blocked = await context.sender.blocked_reason(url, timeout=_BLOCKED_SECONDS)
    if blocked is not None:
        raise InvalidInput.at(at, f"{blocked} Use a token endpoint that may be reached.")
    return replace(credential, token_url=url)


async def checked_identity(form: TlsForm, *, pointer: str = "") -> TlsIdentity:
    """Return the TLS identity of the form at `pointer`, as it is stored and used. Raises
    InvalidInput at the faulty member, also for an identity with which no request could be sent."""
    given = form.credential()

    def checked() -> TlsIdentity:
        identity = given.cleaned()
        identity.shown()
        check_identity(identity)
        return identity

    try:
        return await asyncio.to_thread(checked)
    except InvalidInput as error:
        raise error.below(pointer) from None


def sealed(
    credential: AnyCredential, context: Context, *, endpoint_id: str, pointer: str = ""
) -> Credential:
    """Seal the credential of the form at `pointer`. Raises InvalidInput at the faulty member."""
    try:
        return seal_credential(
            credential, context.keyring, endpoint_id=endpoint_id, now=context.clock()
        )
    except InvalidInput as error:
        raise error.below(pointer) from None


async def access_of_new(
    context: Context,
    *,
    authentication: AuthenticationForm | None,
    tls: TlsForm | None,
    url: str,
    headers: Iterable[str],
) -> Access:
    """Return the credentials of a new endpoint with this URL and these custom headers. Raises
    InvalidInput if they do not fit together, and as `checked_authentication` does."""
    if authentication is not None:
        _check_no_authorization(headers)
    if tls is not None and not is_https(url):
        raise InvalidInput.at("/tls", "needs an https URL; leave it out, or use one")
    return Access(
        ()
        if authentication is None
        else (await checked_authentication(authentication, context, pointer="/authentication"),),
        () if tls is None else (await checked_identity(tls, pointer="/tls"),),
    )


def sealed_access(access: Access, context: Context, *, endpoint_id: str) -> list[Credential]:
    """Return the column of a new endpoint. Raises InvalidInput."""
    pointers = [(each, "/authentication") for each in access.authentication]
    return [
        sealed(each, context, endpoint_id=endpoint_id, pointer=pointer)
        for each, pointer in (*pointers, *((each, "/tls") for each in access.tls))
    ]


def check_compatible(
    credentials: Sequence[Credential], *, url: str, headers: Iterable[str]
) -> None:
    """Raise InvalidInput if an endpoint with these credentials cannot get this URL or one of these
    custom headers."""
    if current_credential(credentials, tls=False) is not None:
        _check_no_authorization(headers)
    if current_credential(credentials, tls=True) is not None and not is_https(url):
        raise InvalidInput.at(
            "/url",
            "must be https, because the endpoint has a TLS identity; or remove that first with "
            "`DELETE /v1/endpoints/{endpoint_id}/tls`",
        )


def check_no_credentials(patch: Container[str]) -> None:
    """Raise InvalidInput if a merge patch that does not move the endpoint has a credential: its
    secrets cannot be merged, and only a replacement can have an overlap."""
    for name in CREDENTIALS:
        if name in patch:
            path = f"/v1/endpoints/{{endpoint_id}}/{name}"
            raise InvalidInput.at(
                f"/{name}",
                f"cannot be patched without a `url` of another host; set it with `PUT {path}`, "
                "remove it with DELETE",
            )


def has_authorization(headers: Iterable[str]) -> bool:
    """Whether one of these custom headers is `Authorization`."""
    return any(name.lower() == "authorization" for name in headers)


def is_https(url: str) -> bool:
    """Whether requests to this normalised URL use TLS."""
    return url.startswith("https:")


def _check_no_authorization(headers: Iterable[str]) -> None:
    for name in headers:
        if has_authorization([name]):
            raise InvalidInput.at(
                join_pointer("/headers", name),
                "the endpoint's `authentication` sets this header; leave one of them out",
                code="invalid_header",
            )
