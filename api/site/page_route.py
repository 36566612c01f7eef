"""The route classes of the pages, which check the session and form, and render errors as pages."""

from __future__ import annotations

import hmac
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar, Final, get_args
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from api.access.authentication import Writer
from api.answers.problems import invalid_request, problem_of, problem_of_unexpected
from api.context.context import Context
from api.http.prefix_router import PrefixRouter
from api.site.filters import show_filtered
from api.site.form import read_form
from api.site.form_once import run_once
from api.site.page import PageView, View
from api.site.session import csrf_of, current_visitor, sign_in_token
from api.site.site import Site
from hookfast.errors import Forbidden, HookfastError, InvalidInput, Unauthenticated

EVENT_STREAM = "text/event-stream"
_OWN_PAGE: Final = ("/new", "/edit", "/settings", "/authentication", "/tls")
"""Path endings of forms that are sent to their own page; the others have a field `back`."""
_LONGEST_NEXT = 2_000
"""Characters of the address to return to, which is part of the sign-in page's address."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _Route(APIRoute):
    """A page of a site, which shows errors as pages."""

    site: ClassVar[Site[View]]

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            view = _new_view(request, self.site)
            try:
                return await self.answer(view, handle)
            except (HookfastError, RequestValidationError) as error:
                return _error_answer(view, error)
            except Exception as error:
                return view.problem(problem_of_unexpected(request, error))

        return page

    @abstractmethod
    async def answer(self, view: View, handle: Handler) -> Response:
        """Prepare the view, and return the page that `handle` makes of the request."""


class PageRoute(_Route):
    """A page that needs a session."""

    async def answer(self, view: View, handle: Handler) -> Response:
        try:
            _remove_empty_parameters(view.request)
            view.visitor = await current_visitor(view.request, self.site)
            view.csrf = view.visitor.csrf
            await _read_form(view)
            if view.request.method == "POST":
                return await self.site.prepare(view) or await run_once(view, handle)
            async with view.context.turns.of(view.visitor.principal.tenant_id):
                return await self.site.prepare(view) or await show_filtered(view, handle)
        except Unauthenticated:
            return await _redirect_without_session(view)


class OpenPageRoute(_Route):
    """A page that needs no session: signing in, and opening a portal link."""

    async def answer(self, view: View, handle: Handler) -> Response:
        view.csrf = csrf_of(sign_in_token(view.request))
        await _read_form(view)
        return await handle(view.request)


class PageRouter(PrefixRouter):
    """A router for pages of a site, which are not part of the OpenAPI document. `opens`: they need
    no session. `path`: they are below this one of the site's paths instead of its `home`."""

    def __init__(self, site: Site[View], *, opens: bool = False, path: str | None = None) -> None:
        route = OpenPageRoute if opens else PageRoute
        super().__init__(
            prefix=path or site.home,
            route_class=type(route.__name__, (route,), {"site": site}),
            include_in_schema=False,
        )

    def action(
        self,
        path: str,
        act: Callable[..., Any],
        notice: str | Callable[[Any], str],
        *,
        leads_to: str | None = None,
    ) -> None:
        """Add a POST form that calls `act`, a route function of the API, and then shows `notice`,
        which may be computed from the result, on the form's page or on `leads_to`.

        FastAPI calls `act` as it does for the API, with the path's parameters, the audit log and
        the principal, whose scope it checks.
        """

        @self.post(path)
        async def action(view: PageView, result: Any = Depends(act)) -> Response:
            text = notice if isinstance(notice, str) else notice(result)
            return view.redirect_back(text) if leads_to is None else view.redirect(leads_to, text)

    def confirmed_action(
        self,
        path: str,
        act: Callable[..., Any],
        notice: str,
        *,
        of: Any,
        title: str,
        about: Callable[[Any], str],
        text: str,
        button: str,
        back: Callable[[Any], str] | None = None,
        leads_to: str | None = None,
        allowed: Any = Writer,
    ) -> None:
        """Add an `action`, and the page that asks before it, for those with an `allowed` scope.

        `of` is the type of the parameter that the question is `about`, such as StoredEndpoint;
        `back` returns the page to go back to, if that is not the one above.
        """

        stored = get_args(of)[1]

        @self.get(path, dependencies=[get_args(allowed)[1]])
        async def ask(view: PageView, thing: Any = stored) -> Response:
            return view.confirm(
                title,
                about=about(thing),
                text=text,
                button=button,
                back=None if back is None else back(thing),
            )

        self.action(path, act, notice, leads_to=leads_to)


def _new_view(request: Request, site: Site[View]) -> View:
    context: Context = request.app.state.context
    view = View(site=site, request=request, context=context, now=context.clock(), visitor=None)
    request.state.view = view
    return view


async def _read_form(view: View) -> None:
    """Read the form of a POST. Raises Forbidden if it does not come from one of our pages."""
    if view.request.method in ("GET", "HEAD"):
        return
    # All current browsers send this header and no script can set it: a second check, with the token
    if view.request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("This form was sent from another site.", code="cross_site")
    view.form = await read_form(view.request)
    if not hmac.compare_digest(view.form.get("csrf", "").encode(), view.csrf.encode()):
        raise Forbidden(
            "This form is not from your session. Go back, reload the page, and send it again.",
            code="csrf",
        )


async def _redirect_without_session(view: View) -> Response:
    if EVENT_STREAM in view.request.headers.get("accept", ""):
        return Response(status_code=204)  # tells an EventSource not to reconnect
    back = view.here if view.request.method == "GET" else await _page_of_form(view)
    after = f"?next={quote(back)}" if next_path(view.site, back) != view.site.home else ""
    return RedirectResponse(f"{view.site.without_session}{after}", status_code=303)


def next_path(site: Site[View], path: str | None) -> str:
    """Return the page to show after signing in: the requested path, if it is one of the site's
    and not too long, else the first page."""
    return site.path(path) if path is not None and len(path) <= _LONGEST_NEXT else site.home


async def _page_of_form(view: View) -> str:
    """Return the page that a form was on. Its input is lost: it belonged to another session."""
    if view.path.endswith(_OWN_PAGE):
        return view.path
    with suppress(HookfastError):
        return view.site.path((await read_form(view.request)).text("back"))
    return view.site.home


def _error_answer(view: View, error: HookfastError | RequestValidationError) -> Response:
    """Show an error: on the page that the form was on, or on a page of its own."""
    if isinstance(error, RequestValidationError):
        error = invalid_request(error)
    if view.visitor is not None and view.form.text("back") is not None:
        return view.redirect_back(error_sentence(error), tone="bad")
    return view.problem(problem_of(error))


def error_sentence(error: HookfastError) -> str:
    """Return an error in one line."""
    if isinstance(error, InvalidInput) and error.errors:
        return "; ".join(
            f"{each.pointer.strip('/').replace('_', ' ')}: {each.detail}" for each in error.errors
        )
    return error.message


def _remove_empty_parameters(request: Request) -> None:
    """Remove query parameters without a value: forms send every field, filled in or not."""
    query = request.scope["query_string"].decode("latin-1")
    if not query:
        return
    try:
        given = parse_qsl(query, errors="strict", max_num_fields=100)
    except ValueError:
        raise InvalidInput("The address could not be read.") from None
    kept = [(name, value.strip()) for name, value in given if value.strip()]
    if any("\x00" in part for pair in kept for part in pair):
        raise InvalidInput("A NUL character is not allowed.")
    request.scope["query_string"] = urlencode(kept).encode("ascii")
