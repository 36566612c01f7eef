"""The inputs with which a form asks for an endpoint's credentials again: its URL gets another host
(`api.forms.moved_endpoint`)."""

from __future__ import annotations

from typing import Any, Final

from api.forms.credentials import (
    AuthenticationView,
    BasicView,
    BearerView,
    OAuth2Form,
    OAuth2View,
    TlsForm,
)
from api.forms.endpoint import EndpointView
from api.forms.moved_endpoint import is_moved
from api.site.form import Form
from hookfast.errors import HookfastError, InvalidInput

_LABELS: Final = {"/authentication": "the authentication", "/tls": "the TLS identity"}
_HEADER: Final = "/headers/"


def asks_again(form: Form, error: HookfastError | None) -> bool:
    """Whether a form that is shown with this error asks for the credentials: it did before, or they
    are the error."""
    return _asked(form) or (error is not None and error.code == "credentials_required")


def in_plain_words(error: HookfastError | None) -> HookfastError | None:
    """Return the error to show above the form."""
    if not isinstance(error, InvalidInput) or error.code != "credentials_required":
        return error
    names = (
        f"the header {each.pointer.removeprefix(_HEADER).replace('~1', '/').replace('~0', '~')}"
        if each.pointer.startswith(_HEADER)
        else _LABELS[each.pointer]
        for each in error.errors
    )
    return InvalidInput(
        "This URL has another scheme, host or port, and every request would carry the stored "
        f"credentials to it. Enter them again for it, or remove them: {', '.join(names)}.",
        code=error.code,
    )


def given_again(form: Form, endpoint: EndpointView) -> dict[str, Any]:
    """Return the members of the merge patch that the inputs give. A credential of which no secret
    is entered is not given."""
    if not (_asked(form) and _moves(endpoint, form.get("url", ""))):
        return {}
    given: dict[str, Any] = {}
    for name, entered in (
        ("authentication", _authentication(form, endpoint.authentication)),
        ("tls", {each: form.text(each) for each in TlsForm.model_fields if each in form}),
    ):
        if form.text(f"without_{name}"):
            given[name] = None
        elif any(entered.values()):
            given[name] = entered
    return given


def _asked(form: Form) -> bool:
    return form.get("moved") == "yes"


def _moves(endpoint: EndpointView, url: str) -> bool:
    try:
        return is_moved(endpoint.url or "", url)
    except InvalidInput:  # the API says what is wrong with it
        return False


def _authentication(form: Form, stored: AuthenticationView | None) -> dict[str, Any]:
    """Return an authentication of the stored kind with the secret of the form; {} without one."""
    match stored:
        case BearerView() if token := form.text("token"):
            return {"kind": "bearer", "token": token}
        case BasicView() if password := form.text("password"):
            return {"kind": "basic", "username": form.get("username", ""), "password": password}
        case OAuth2View() if secret := form.text("client_secret"):
            kept = stored.model_dump(include=set(OAuth2Form.model_fields))
            return kept | {"client_secret": secret}
        case _:
            return {}
