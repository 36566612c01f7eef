"""A change of an endpoint's URL to another origin: another scheme, host or port.

Requests carry the endpoint's credentials to its URL. No response shows them, so a caller must not
be able to read them by a URL of its own: it has to give them again with the new origin, or to
remove them. The operator does not: an operator's key may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import Field, ValidationError

from api.access.authentication import Principal
from api.answers.problems import invalid_members
from api.context.context import Context
from api.forms.credentials import (
    CREDENTIALS,
    AuthenticationForm,
    TlsForm,
    access_of_new,
    check_no_credentials,
    sealed_access,
)
from api.forms.endpoint import EndpointForm
from api.http.fields import Input
from hookfast.endpoints.credentials import Credential, has_secret, without_credential
from hookfast.errors import FieldError, InvalidInput, join_pointer
from hookfast.sender.url import parse_url
from hookfast.storage.tables import Endpoint

_ONLY_THEN: Final = (
    "Only with a `url` of another scheme, host or port: the {} for it, or null to remove it, "
    "without an overlap. Otherwise use `PUT /v1/endpoints/{{endpoint_id}}/{}`."
)


class GivenCredentials(Input):
    """The credentials in a merge patch of an endpoint. Null removes a credential; one that is left
    out is kept."""

    authentication: AuthenticationForm | None = Field(
        None, description=_ONLY_THEN.format("authentication", "authentication")
    )
    tls: TlsForm | None = Field(None, description=_ONLY_THEN.format("TLS identity", "tls"))

    @classmethod
    def taken_from(cls, patch: Mapping[str, Any]) -> tuple[GivenCredentials, dict[str, Any]]:
        """Return the credentials in a patch, and the patch without them. Raises InvalidInput."""
        given = {name: patch[name] for name in CREDENTIALS if name in patch}
        try:
            taken = cls.model_validate(given)
        except ValidationError as error:
            raise invalid_members(error, given) from None
        return taken, {name: value for name, value in patch.items() if name not in given}

    @property
    def names(self) -> frozenset[str]:
        """The members that are given."""
        return frozenset(self.model_fields_set)

    async def sealed(
        self, context: Context, *, endpoint_id: str, url: str, headers: Mapping[str, str]
    ) -> list[Credential]:
        """Return them for the column of an endpoint that gets this URL and these custom headers.
        Raises InvalidInput as for a new endpoint."""
        access = await access_of_new(
            context, authentication=self.authentication, tls=self.tls, url=url, headers=headers
        )
        return sealed_access(access, context, endpoint_id=endpoint_id)

    def kept(self, stored: Sequence[Credential]) -> list[Credential]:
        """Return the stored credentials that these neither replace nor remove."""
        kept = list(stored)
        for name in self.names:
            kept = without_credential(kept, tls=name == "tls")
        return kept


class ChangedEndpoint(GivenCredentials, EndpointForm):
    """The members of a merge patch of an endpoint."""


def check_credentials(
    endpoint: Endpoint,
    *,
    url: str,
    patch: Mapping[str, Any],
    given: GivenCredentials,
    principal: Principal,
    now: datetime,
) -> None:
    """Check the credentials in a patch that gives a stored endpoint the URL `url`. Raises
    InvalidInput: `credentials_required` if they must be given for it and are not, and another one
    if there are any for the present origin."""
    if not is_moved(endpoint.url, url):
        check_no_credentials(given.names)
        return
    if principal.scope == "operator":
        return
    missing = [
        f"/{name}"
        for name in CREDENTIALS
        if name not in given.names and has_secret(endpoint.credentials, tls=name == "tls", now=now)
    ]
    headers = patch.get("headers", {})
    if headers is not None:  # null removes all of them
        missing += (join_pointer("/headers", name) for name in endpoint.headers.keys() - headers)
    if missing:
        detail = "is required with a URL of another host: give it again, or null to remove it"
        raise InvalidInput(
            "The URL has another scheme, host or port, to which requests would carry the "
            "credentials of this endpoint. Send them again with the URL, or null to remove them.",
            code="credentials_required",
            errors=tuple(FieldError(pointer, detail) for pointer in sorted(missing)),
        )


def is_moved(before: str, after: str) -> bool:
    """Whether requests to the URL `after` go to another origin than those to `before`. Both are
    valid, or empty for a polled endpoint."""
    if before == after or not before or not after:
        return False
    old, new = parse_url(before), parse_url(after)
    return (old.scheme, old.host, old.port) != (new.scheme, new.host, new.port)
