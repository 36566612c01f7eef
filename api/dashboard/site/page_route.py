"""The route class of every page: signs in, checks forms, and makes errors pages."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from api.answers.problems import invalid_request, problem_for, problem_of
from api.dashboard.site.endpoint_scope import confine
from api.dashboard.site.filters import filtered
from api.dashboard.site.form import read_form
from api.dashboard.site.page import HOME, View, own_path
from api.dashboard.site.session import csrf_of, current_visitor, sign_in_token
from api.dashboard.site.submit_once import once
from api.process.context import Context
from hookfast.errors import Forbidden, HookfastError, InvalidInput, Unauthenticated

SIGN_IN = f"{HOME}/sign-in"
EVENT_STREAM = "text/event-stream"
_OWN_PAGE: Final = ("/new", "/edit", "/settings")
"""What the paths of forms end with that are sent to their own page; the others say `back`."""
_LONGEST_NEXT = 2_000
"""Characters of the address to come back to: it goes into another address, which has limits too."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

log = structlog.get_logger()


class PageRoute(APIRoute):
    """A page for those who are signed in."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            view = _anonymous(request)
            request.state.view = view
            try:
                _leave_out_empty(request)
                view.visitor = await current_visitor(request)
                view.csrf = view.visitor.csrf
                await _take_form(view)
                answer = once if request.method == "POST" else filtered
                return await confine(view) or await answer(view, handle)
            except Unauthenticated:
                return await _ask_to_sign_in(view)
            except (HookfastError, RequestValidationError) as error:
                return _refused(view, error)
            except Exception as error:
                problem = problem_for(request, error)
                return view.problem(problem)

        return page


class OpenPageRoute(APIRoute):
    """A page for those who are not: signing in."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            view = _anonymous(request)
            request.state.view = view
            try:
                view.csrf = csrf_of(sign_in_token(request))
                await _take_form(view)
                return await handle(request)
            except HookfastError as error:
                return view.problem(problem_of(error))
            except RequestValidationError as error:
                return view.problem(problem_of(invalid_request(error)))
            except Exception as error:
                return view.problem(problem_for(request, error))

        return page


def page_router() -> APIRouter:
    """A router for pages under `/dashboard`, which are not part of the OpenAPI document."""
    return APIRouter(prefix=HOME, route_class=PageRoute, include_in_schema=False)


def open_page_router() -> APIRouter:
    """A router for pages that need no session."""
    return APIRouter(prefix=HOME, route_class=OpenPageRoute, include_in_schema=False)


def _anonymous(request: Request) -> View:
    context: Context = request.app.state.context
    return View(request=request, context=context, now=context.clock(), visitor=None)


async def _take_form(view: View) -> None:
    """The form of a POST that a page of ours made. Raises Forbidden for another's."""
    if view.request.method in ("GET", "HEAD"):
        return
    # Sent by every browser of today, and by no script: a second lock beside the token.
    if view.request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("This form was sent from another site.", code="cross_site")
    view.form = await read_form(view.request)
    if not hmac.compare_digest(view.form.get("csrf", "").encode(), view.csrf.encode()):
        raise Forbidden(
            "This form is not from your session any more. Go back, reload the page, and send it "
            "again.",
            code="csrf",
        )


async def _ask_to_sign_in(view: View) -> Response:
    if EVENT_STREAM in view.request.headers.get("accept", ""):
        return Response(status_code=204)  # which tells an EventSource not to come back
    back = view.here if view.request.method == "GET" else await _page_of_form(view)
    after = f"?next={quote(back)}" if next_path(back) != HOME else ""
    return RedirectResponse(f"{SIGN_IN}{after}", status_code=303)


def next_path(path: str | None) -> str:
    """Where to go after signing in: a path that came with a request, if it is one of ours and not
    too long; else the first page."""
    return own_path(path) if path is not None and len(path) <= _LONGEST_NEXT else HOME


async def _page_of_form(view: View) -> str:
    """The page that a form was on. What was filled in is lost: it was another session's."""
    if view.path.endswith(_OWN_PAGE):
        return view.path
    with suppress(HookfastError):
        return own_path((await read_form(view.request)).text("back"))
    return HOME


def _refused(view: View, error: HookfastError | RequestValidationError) -> Response:
    """What a visitor sees when the API refuses: after a form the page it was on, else a page."""
    if isinstance(error, RequestValidationError):
        error = invalid_request(error)
    if view.form.text("back") is not None:
        return view.go_back(sentence(error), tone="bad")
    return view.problem(problem_of(error))


def sentence(error: HookfastError) -> str:
    """An error in one line."""
    if isinstance(error, InvalidInput) and error.errors:
        return "; ".join(
            f"{each.pointer.strip('/').replace('_', ' ')}: {each.detail}" for each in error.errors
        )
    return error.message


def _leave_out_empty(request: Request) -> None:
    """Forget query parameters without a value: forms send every field, chosen or not."""
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
