"""What every page has: its visitor, its form, its answer."""

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

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from api.answers.page_policy import page_policy
from api.answers.problems import Problem
from api.dashboard.site import flash, formatting
from api.dashboard.site.flash import Flash
from api.dashboard.site.form import Form
from api.dashboard.site.navigation import SECTIONS, Section, sections_of_endpoint
from api.dashboard.site.session import Visitor, cookie_name, set_cookie
from api.dashboard.site.static_files import ADDRESSES
from api.process.context import Context
from hookfast.version import VERSION

HOME: Final = "/dashboard"
THEMES: Final = ("light", "dark")
_THEME = "hookfast-theme"
_THEME_SECONDS = 31_536_000
_POLICY: Final = page_policy(
    script_src=["'self'"],
    style_src=["'self'"],
    img_src=["'self'"],
    connect_src=["'self'"],
    form_action=["'self'"],
)


@lru_cache
def templates() -> Environment:
    """The templates. Whatever they show is escaped, unless it is `Markup`."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., Any]] = {
        name: getattr(formatting, name)
        for name in (
            *("label", "tone", "reason", "span", "ago", "utc"),
            *("number", "percent", "millis", "seconds", "short_id"),
        )
    }
    environment.filters |= filters
    environment.filters["pair"] = lambda text: (text, text)  # an option that is its own label
    environment.globals |= {"asset": ADDRESSES, "version": VERSION}
    return environment


@dataclass(frozen=True, slots=True)
class WrongField:
    """What was typed into a field, and why it cannot be right."""

    value: str
    why: str


@dataclass(slots=True, kw_only=True)
class View:
    """One request for a page. `visitor` is None on the sign-in page only."""

    request: Request
    context: Context
    now: datetime
    visitor: Visitor | None
    form: Form = field(default_factory=lambda: Form([]))
    csrf: str = ""
    once: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """The token of the forms on this page; see `one_effect`."""
    result_at: str = HOME
    """In the answer to a form that is a page of its own: where what came of it is seen later."""
    wrong: dict[str, WrongField] = field(default_factory=dict)
    """The fields that cannot be right, by name, which say so; for those of lists see `filters`."""
    live: bool = False
    """Whether it is rendered for a live part, again and again: then times are written so that they
    stay the same, and the script says how long ago they are."""

    @property
    def can_write(self) -> bool:
        """Whether to show what changes things."""
        return self.visitor is not None and self.visitor.principal.scope in ("operator", "tenant")

    @property
    def can_make_keys(self) -> bool:
        """Whether the visitor may make API keys: those would outlive a portal link."""
        return self.can_write and self.visitor is not None and self.visitor.session.via is None

    @property
    def is_operator(self) -> bool:
        """Whether every tenant is the visitor's to see."""
        return self.visitor is not None and self.visitor.principal.scope == "operator"

    @property
    def tenant_id(self) -> str | None:
        """The tenant to show: the visitor's own, or the one an operator chose; None: all."""
        if self.visitor is None:
            return None
        return self.visitor.session.tenant_id or self.visitor.session.chosen_tenant_id

    @property
    def endpoint_id(self) -> str | None:
        """The one endpoint that a portal link is about; see `confinement`."""
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
    def theme(self) -> str | None:
        """The theme that was chosen; None: the system's."""
        chosen = self.request.cookies.get(cookie_name(self.request, _THEME))
        return chosen if chosen in THEMES else None

    @property
    def sections(self) -> list[Section]:
        """The lines of the menu that are this visitor's."""
        if self.endpoint_id is not None:
            return sections_of_endpoint(self.endpoint_id)
        return [
            each
            for each in SECTIONS
            if (self.is_operator or not each.operator_only)
            and (self.can_make_keys or not each.key_makers_only)
        ]

    def link(self, **changes: str | None) -> str:
        """This page with other query parameters; None leaves one out. What a list's cursor points
        to depends on its filters, so it goes unless it is given."""
        query = dict(self.request.query_params) | {"cursor": None} | changes
        given = urlencode({name: value for name, value in query.items() if value})
        return f"{self.path}?{given}" if given else self.path

    def link_to(self, path: str) -> str:
        """Another page with this page's query."""
        query = self.request.url.query
        return f"{path}?{query}" if query else path

    @staticmethod
    def own(path: str | None) -> str:
        """A path that came with a request, if it is one of ours; see `own_path`."""
        return own_path(path)

    def text(self, template: str, **values: Any) -> str:
        """A template's text, for what is shown within a page."""
        return templates().get_template(template).render(view=self, **values)

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """The answer that is this page."""
        told = None if self.visitor is None else flash.take(self.request, owner=self._owner)
        html = self.text(template, flash=told, **values)
        response = HTMLResponse(
            html, status_code=status, headers={"Content-Security-Policy": _POLICY}
        )
        if told is not None:
            flash.drop(self.request, response)
        return response

    def preview(self, template: str, **values: Any) -> Response:
        """The page that says what a form would do. Browsers may keep it, to come back to: one that
        answers a form they could not load again. It has a token that was used by then."""
        response = self.render(template, **values)
        response.headers["Cache-Control"] = "private, no-cache"
        return response

    def go(self, path: str, notice: str | None = None, *, tone: flash.Tone = "good") -> Response:
        """The answer to a POST: see that page, with this message."""
        response = RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER)
        if notice is not None and self.visitor is not None:
            flash.put(self.request, response, Flash(tone, notice), owner=self._owner)
        return response

    def go_back(self, notice: str | None = None, *, tone: flash.Tone = "good") -> Response:
        """The answer to a POST: the page with the form (its field `back`), with this message."""
        return self.go(own_path(self.form.text("back")), notice, tone=tone)

    def problem(self, problem: Problem) -> Response:
        """The page that tells of an error."""
        response = self.render("problem.html", status=problem.status, problem=problem)
        for name, value in problem.headers.items():
            if name != "WWW-Authenticate":  # browsers would ask for a password
                response.headers[name] = value
        return response

    def choose_theme(self, response: Response, theme: str | None) -> None:
        """Remember a theme; None: what the system says."""
        seconds = 0 if theme is None else _THEME_SECONDS
        set_cookie(self.request, response, _THEME, theme or "", seconds=seconds)

    @property
    def _owner(self) -> str:
        assert self.visitor is not None  # noqa: S101 - narrows for the type checker
        return self.visitor.session.token_sha256


def own_path(path: str | None) -> str:
    """`path`, if it is one of the dashboard's; else its first page. A link must not make us send a
    visitor anywhere else, and `//host` and `/\\host` are other hosts."""
    if path is None or not path.isascii() or not path.isprintable() or "\\" in path:
        return HOME
    return path if path == HOME or path.startswith((f"{HOME}/", f"{HOME}?")) else HOME


def markup(html: str) -> Markup:
    """Text that a template of ours made, to be put into another one."""
    return Markup(html)  # noqa: S704 - rendered with autoescape


async def _view(request: Request) -> View:
    view: View = request.state.view
    return view


PageView = Annotated[View, Depends(_view)]
"""A page's parameter: its visitor, its form, its answer."""
