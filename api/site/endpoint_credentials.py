"""The forms that set and remove an endpoint's authentication and TLS identity. They never show a
stored secret."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.forms.credentials import BasicForm, BearerForm, OAuth2Form, TlsForm
from api.forms.endpoint import EndpointView
from api.routes.endpoint_credentials import (
    delete_endpoint_authentication,
    delete_endpoint_tls,
    set_endpoint_authentication,
    set_endpoint_tls,
)
from api.site.form import Form, validated
from api.site.formatting import endpoint_name
from api.site.from_path import StoredEndpoint
from api.site.overlap import OVERLAPS, overlap_seconds
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.site import Site
from hookfast.errors import Conflict, HookfastError, InvalidInput

Kind = Literal["oauth2", "basic", "bearer"]
KINDS: Final[dict[Kind, str]] = {
    "oauth2": "OAuth 2.0",
    "basic": "User name and password",
    "bearer": "Bearer token",
}
_FORMS: Final[dict[Kind, type[OAuth2Form | BasicForm | BearerForm]]] = {
    "oauth2": OAuth2Form,
    "basic": BasicForm,
    "bearer": BearerForm,
}
_VISIBLE: Final = (
    *("username", "token_url", "client_id", "scope", "audience", "client_authentication"),
)


def credential_pages(site: Site[View]) -> PageRouter:
    """Return the router of these pages on a site."""
    routes = PageRouter(site)
    path = "/endpoints/{endpoint_id}"
    routes.get(f"{path}/authentication")(authentication_page)
    routes.post(f"{path}/authentication")(set_authentication)
    routes.confirmed_action(
        f"{path}/authentication/delete",
        delete_endpoint_authentication,
        "The authentication is removed.",
        of=StoredEndpoint,
        title="Remove the authentication?",
        about=endpoint_name,
        text="Requests are sent without it from now on. Its secret cannot be shown again.",
        button="Remove",
        back=lambda endpoint: _page(site, endpoint, "authentication"),
    )
    routes.get(f"{path}/tls")(tls_page)
    routes.post(f"{path}/tls")(set_tls)
    routes.confirmed_action(
        f"{path}/tls/delete",
        delete_endpoint_tls,
        "The TLS identity is removed.",
        of=StoredEndpoint,
        title="Remove the TLS identity?",
        about=endpoint_name,
        text="New connections present no certificate and trust the system's CAs. The private key "
        "cannot be shown again.",
        button="Remove",
        back=lambda endpoint: _page(site, endpoint, "tls"),
    )
    return routes


async def authentication_page(
    endpoint: StoredEndpoint,
    view: PageView,
    _: Writer,
    kind: Annotated[Kind | None, Query()] = None,
) -> Response:
    """Show the form with which an authentication is set or replaced."""
    stored = {} if endpoint.authentication is None else endpoint.authentication.model_dump()
    shown = kind or stored.get("kind", "oauth2")
    fields = {name: stored.get(name) for name in _VISIBLE}
    return _authentication_form(view, endpoint, shown, fields)


async def set_authentication(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Set or replace the authentication."""
    kind = next((each for each in KINDS if each == view.form.text("kind")), None)
    if kind is None:
        raise InvalidInput.at("/kind", "choose one of those on the page")
    try:
        form = validated(_FORMS[kind], _members(view.form, _FORMS[kind]))
        await set_endpoint_authentication(endpoint.id, form, view.context, audit, principal)
    except (InvalidInput, Conflict) as error:
        fields = {name: view.form.text(name) for name in _VISIBLE}
        return _authentication_form(view, endpoint, kind, fields, error)
    return view.redirect(_page(view.site, endpoint, "authentication"), "The authentication is set.")


async def tls_page(endpoint: StoredEndpoint, view: PageView, _: Writer) -> Response:
    """Show the form with which a TLS identity is set or replaced."""
    return _tls_form(view, endpoint)


async def set_tls(
    endpoint: StoredEndpoint, view: PageView, audit: Audit, principal: Writer
) -> Response:
    """Set or replace the TLS identity."""
    try:
        form = validated(TlsForm, _members(view.form, TlsForm))
        await set_endpoint_tls(endpoint.id, form, view.context, audit, principal)
    except (InvalidInput, Conflict) as error:
        return _tls_form(view, endpoint, error)
    return view.redirect(_page(view.site, endpoint, "tls"), "The TLS identity is set.")


def _members(
    form: Form, kind: type[OAuth2Form | BasicForm | BearerForm | TlsForm]
) -> dict[str, Any]:
    """Return the filled-in fields as members of the API's document."""
    given = {name: form.text(name) for name in kind.model_fields}
    members = {name: value for name, value in given.items() if value is not None}
    return members | {"overlap_seconds": overlap_seconds(form)}


def _authentication_form(
    view: View,
    endpoint: EndpointView,
    kind: Kind,
    fields: dict[str, Any],
    error: HookfastError | None = None,
) -> Response:
    return view.render_form(
        "endpoint_authentication.html",
        error=error,
        endpoint=endpoint,
        kind=kind,
        kinds=KINDS,
        fields=fields,
        overlaps=OVERLAPS,
    )


def _tls_form(view: View, endpoint: EndpointView, error: HookfastError | None = None) -> Response:
    fields = {name: view.form.text(name) for name in ("certificate", "authorities")}
    return view.render_form(
        "endpoint_tls.html", error=error, endpoint=endpoint, fields=fields, overlaps=OVERLAPS
    )


def _page(site: Site[View], endpoint: EndpointView, setting: str) -> str:
    """Return the address of the endpoint's page, at this setting."""
    return f"{site.home}/endpoints/{endpoint.id}#setting-{setting}"
