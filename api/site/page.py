"""The view of a page: its visitor and form, and the ways to answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.answers.problems import Problem, problem_of
from api.context.context import Context
from api.site import flash, formatting, session, tables
from api.site.flash import Flash
from api.site.form import Form, form_errors
from api.site.navigation import Section
from api.site.session import Visitor, cookie_name, set_cookie
from api.site.site import Site
from api.site.static_files import ADDRESSES
from api.site.zone import COOKIE, zone_named
from hookfast.endpoints.health import Health, is_by_request
from hookfast.errors import FieldError, HookfastError
from hookfast.events.operational import is_reserved
from hookfast.version import VERSION

_SHARED: Final = Path(__file__).parent / "templates"
THEMES: Final = ("light", "dark")
_THEME_SECONDS = 31_536_000


@lru_cache
def templates(folder: Path) -> Environment:
    """Return a site's templates, in this folder, and those that sites share. They escape every
    value."""
    environment = Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., Any]] = {
        name: getattr(formatting, name)
        for name in (
            *("label", "tone", "health_tone", "reason", "explained", "curly"),
            *("span", "ago", "utc", "local", "both"),
            *("answer", "parsed", "shown_filter"),
            *("number", "percent", "millis", "seconds", "short_id", "endpoint_name"),
        )
    }
    environment.filters |= filters
    environment.filters["pair"] = lambda text: (text, text)  # an option that is its own label
    environment.filters |= {"columns": tables.columns, "cells": tables.cells}
    environment.filters |= {"is_reserved": is_reserved, "is_by_request": is_by_request}
    environment.globals |= {"asset": ADDRESSES, "version": VERSION, "healths": tuple(Health)}
    return environment


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to pick in a field by its name, with its other name, such as its URL, in `about`.
    `unique`: nothing else has this name."""

    id: str
    name: str
    about: str = ""
    unique: bool = True

    @property
    def value(self) -> str:
        """What the field has when this was picked."""
        return self.name if self.unique else self.id


@dataclass(frozen=True, slots=True)
class InvalidField:
    """An invalid input: the typed value, the reason, and what may have been meant."""

    value: str
    detail: str
    candidates: tuple[Choice, ...] = ()


@dataclass(slots=True, kw_only=True)
class View:
    """One request for a page of a site. `visitor` is None on pages that need no session."""

    site: Site[View]
    request: Request
    context: Context
    now: datetime
    visitor: Visitor | None
    form: Form = field(default_factory=lambda: Form([]))
    csrf: str = ""
    once: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """The token of the forms on this page; see `form_once`."""
    result_path: str = ""
    """Where the result can be seen later, if a form is answered by a page of its own."""
    invalid: dict[str, InvalidField] = field(default_factory=dict)
    """The invalid fields by name, which show their errors; see `filters` for those of lists."""
    picked: dict[str, Choice] = field(default_factory=dict)
    """What was picked in the fields of `choices`, by their names."""
    offered: dict[str, tuple[list[Choice], str | None]] = field(default_factory=dict)
    """What the fields of `choices` suggest, and where the script asks for more."""
    tenant_names: dict[str, str] = field(default_factory=dict)
    """The names of the tenants that the page shows, by their ids."""
    has_several_tenants: bool = False
    """Whether the list on the page has the rows of several tenants."""
    live: bool = False
    """Whether a live part is rendered. Then times are absolute, so that the HTML changes only with
    the data, and the script shows how long ago they are."""
    by_clock: bool = False
    """Whether lists show the clock's time instead of how long ago: they are about a fixed range."""

    @property
    def can_write(self) -> bool:
        """Whether the visitor may change anything."""
        return self.visitor is not None and self.visitor.principal.scope in ("operator", "tenant")

    @property
    def is_operator(self) -> bool:
        """Whether the visitor sees every tenant."""
        return self.visitor is not None and self.visitor.principal.scope == "operator"

    @property
    def links_to_temporal(self) -> bool:
        """Whether the page has links to the Temporal UI: for operators, if its address is set."""
        return self.is_operator and self.context.settings.temporal_ui_url is not None

    @property
    def tenant_id(self) -> str | None:
        """The id of the tenant to show: the visitor's own, or an operator's choice. None: all."""
        if self.visitor is None:
            return None
        return self.visitor.session.tenant_id or self.visitor.session.chosen_tenant_id

    @property
    def endpoint_id(self) -> str | None:
        """The only endpoint that the session of a portal link sees, if it is limited to one."""
        return None if self.visitor is None else self.visitor.session.endpoint_id

    @property
    def path(self) -> str:
        """This page's path."""
        return self.request.url.path

    @property
    def here(self) -> str:
        """This page's path and query."""
        query = self.request.url.query
        return f"{self.path}?{query}" if query else self.path

    @property
    def back(self) -> str:
        """The page that the submitted form was on (its field `back`), or the first page."""
        return self.site.path(self.form.text("back"))

    @property
    def theme(self) -> str | None:
        """The chosen theme; None: the system's."""
        chosen = self.request.cookies.get(cookie_name(self.request, f"{self.site.cookie}-theme"))
        return chosen if chosen in THEMES else None

    @property
    def zone(self) -> ZoneInfo:
        """The reader's time zone, in which the page shows times."""
        return zone_named(self.request.cookies.get(self.zone_cookie))

    @property
    def zone_cookie(self) -> str:
        """The name of the cookie in which the script stores the browser's time zone."""
        return cookie_name(self.request, COOKIE)

    @property
    def section(self) -> str:
        """The name of the menu line that this page belongs to: the second part of its path."""
        return self.path.removeprefix(self.site.home).lstrip("/").partition("/")[0] or "overview"

    @property
    def sections(self) -> list[Section]:
        """The menu lines that this visitor sees."""
        return self.site.sections(self)

    def link(self, **changes: str | None) -> str:
        """Return this page's address with changed query parameters; None removes one. A list's
        cursor belongs to its filters, so it is removed unless it is given."""
        query = dict(self.request.query_params) | {"cursor": None} | changes
        given = urlencode({name: value for name, value in query.items() if value})
        return f"{self.path}?{given}" if given else self.path

    def link_to(self, path: str) -> str:
        """Return another page's address with this page's query."""
        query = self.request.url.query
        return f"{path}?{query}" if query else path

    def html(self, template: str, **values: Any) -> str:
        """Return the HTML of a template."""
        template_ = templates(self.site.templates).get_template(template)
        return template_.render(view=self, **self.site.values(self), **values)

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Render a page, with the message that the previous POST left for it."""
        message = None if self.visitor is None else flash.take(self.request, owner=self._owner)
        html = self.html(template, flash=message, **values)
        response = HTMLResponse(
            html, status_code=status, headers={"Content-Security-Policy": self.site.policy(self)}
        )
        if message is not None:
            flash.drop(self.request, response)
        return response

    def render_form(
        self,
        template: str,
        *,
        error: HookfastError | None = None,
        label: Callable[[str], str] = str,
        **values: Any,
    ) -> Response:
        """Render a page with a form; after a failed submission, with what is wrong with it. `label`
        turns JSON Pointers into what the form calls these members."""
        status = 200 if error is None else problem_of(error).status
        found = () if error is None else form_errors(error)
        errors = [FieldError(label(each.pointer), each.detail) for each in found]
        return self.render(template, status=status, errors=errors, **values)

    def render_open_form(self, template: str, **values: Any) -> Response:
        """Render a page with a form that needs no session, but the token in a cookie."""
        token = session.sign_in_token(self.request)
        self.csrf = session.csrf_of(token)
        response = self.render(template, **values)
        session.keep_sign_in_token(self.request, response, token)
        return response

    def confirm(
        self,
        title: str,
        *,
        about: str | None = None,
        text: str,
        button: str,
        back: str | None = None,
        template: str = "confirm.html",
        **values: Any,
    ) -> Response:
        """Render the page that asks before an action on what it is `about`. Its form is sent to
        the page's own path, and leads to `back` (the path above, unless given)."""
        return self.render(
            template,
            title=title,
            about=about,
            text=text,
            button=button,
            back=back or self.path.rpartition("/")[0],
            **values,
        )

    def preview(self, template: str, **values: Any) -> Response:
        """Render the preview of a form's effect. Browsers may cache it, because they cannot load
        the answer to a form again when the visitor goes back to it."""
        response = self.render(template, **values)
        response.headers["Cache-Control"] = "private, no-cache"
        return response

    def redirect(
        self, path: str, notice: str | None = None, *, tone: flash.Tone = "good"
    ) -> Response:
        """Answer a POST: redirect to a page, which shows the notice."""
        response = RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)
        if notice is not None and self.visitor is not None:
            flash.put(self.request, response, Flash(tone, notice), owner=self._owner)
        return response

    def redirect_back(self, notice: str | None = None, *, tone: flash.Tone = "good") -> Response:
        """Answer a POST: redirect to the page that the form was on, which shows the notice."""
        return self.redirect(self.back, notice, tone=tone)

    def problem(self, problem: Problem) -> Response:
        """Render the page of an error."""
        response = self.render("problem.html", status=problem.status, problem=problem)
        for name, value in problem.headers.items():
            if name != "WWW-Authenticate":  # browsers would ask for a password
                response.headers[name] = value
        return response

    def choose_theme(self) -> Response:
        """Answer the form with the theme: store it, and return to the form's page."""
        response = self.redirect_back()
        self.keep_theme(response, self.form.text("theme"))
        return response

    def keep_theme(self, response: Response, theme: str | None) -> None:
        """Store the theme in a cookie, for a year; None or an unknown one: the system's."""
        kept = theme if theme in THEMES else None
        seconds = 0 if kept is None else _THEME_SECONDS
        set_cookie(self.request, response, f"{self.site.cookie}-theme", kept or "", seconds=seconds)

    @property
    def _owner(self) -> str:
        assert self.visitor is not None  # noqa: S101 - narrows for the type checker
        return self.visitor.session.token_sha256


async def _view(request: Request) -> View:
    view: View = request.state.view
    return view


PageView = Annotated[View, Depends(_view)]
"""The parameter of every page."""
