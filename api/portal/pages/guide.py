"""The guide for the developers of receivers. It needs no session; with one it has the portal's menu
and the look of the visitor's portal."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any, Final

from fastapi import Query, Response

from api.answers.problems import Problem
from api.forms.verification import REQUEST_SECONDS
from api.portal import guide, snippets
from api.portal.site import GUIDE, PORTAL
from api.routes.endpoint_secrets import DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS
from api.routes.endpoint_tests import TEST_HEADER
from api.routes.signing_keys import PATH as KEY_DIRECTORY
from api.site.overlap import OVERLAPS
from api.site.page import PageView, View
from api.site.page_route import PageRouter
from api.site.session import cookie_name, current_visitor, set_cookie
from hookfast.deliveries.retry_plan import MAX_DELAY, PRESETS
from hookfast.endpoints.secrets import MAX_LIVE
from hookfast.errors import Unauthenticated
from hookfast.sender.connection import MAX_BODY
from hookfast.sender.verify import CHALLENGE_HEADER, CHALLENGE_PARAMETER
from hookfast.settings.portal_settings import PortalSettings
from hookfast.signing.signature import DEFAULT_PROFILES

open_routes = PageRouter(PORTAL, opens=True, path=GUIDE)

_LANGUAGE: Final = "hookfast-guide-language"
_LANGUAGE_SECONDS: Final = 31_536_000
_UNNAMED: Final = PortalSettings.model_fields["portal_name"].default
_REMEMBER: Final = """CREATE TABLE received (
    message_id text PRIMARY KEY,
    at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
);

-- with each message, in the transaction of the work:
INSERT INTO received (message_id) VALUES ('dlv_…') ON CONFLICT DO NOTHING;"""

Chosen = Annotated[str | None, Query(alias="language")]


@open_routes.get("")
async def guide_contents(view: PageView) -> Response:
    """Show what the guide is about, and its pages."""
    await _greet(view)
    return _render(view, "index", page=None)


@open_routes.get("/{slug}")
async def guide_page(view: PageView, slug: str, chosen: Chosen = None) -> Response:
    """Show a page. `language` is that of its code, which the browser remembers."""
    await _greet(view)
    page = guide.BY_SLUG.get(slug)
    if page is None:
        return _unknown(view)
    language = _language(view, chosen)
    response = _render(view, slug, page=page, language=language)
    if language.id == chosen:
        set_cookie(view.request, response, _LANGUAGE, language.id, seconds=_LANGUAGE_SECONDS)
    return response


@open_routes.get("/{path:path}")
async def unknown_guide_page(view: PageView, path: str) -> Response:
    """Answer 404 for a path without a page."""
    await _greet(view)
    return _unknown(view)


def _unknown(view: View) -> Response:
    return view.problem(
        Problem(status=404, code="not_found", detail="There is no such page in the guide.")
    )


async def _greet(view: View) -> None:
    """Find the visitor's session, if there is one."""
    with suppress(Unauthenticated):
        view.visitor = await current_visitor(view.request, PORTAL)
        view.csrf = view.visitor.csrf


def _language(view: View, chosen: str | None) -> snippets.Language:
    """Return the chosen language, else the remembered one, else the first."""
    kept = view.request.cookies.get(cookie_name(view.request, _LANGUAGE))
    wanted = (snippets.LANGUAGES.get(name or "") for name in (chosen, kept))
    return next(filter(None, wanted), next(iter(snippets.LANGUAGES.values())))


def _render(
    view: View,
    template: str,
    *,
    page: guide.GuidePage | None,
    language: snippets.Language | None = None,
) -> Response:
    values = _facts(view) | {"page": page, "pages": guide.PAGES, "neighbours": guide.neighbours}
    if language is not None:
        values |= _code(language)
    # without a session, the form for the theme needs a token in a cookie
    render = view.render if view.visitor else view.render_open_form
    return render(f"guide/{template}.html", **values)


def _facts(view: View) -> dict[str, Any]:
    """Return the facts that the pages state, from the code and the settings."""
    settings, brand = view.context.settings, PORTAL.values(view)["brand"]
    plans = guide.plan_rows()
    return {
        "platform": None if brand.name == _UNNAMED else brand.name,
        "example": guide.example_request(),
        "words": guide.words,
        "plans": plans,
        "default_plan": next(plan for plan in plans if plan.is_default),
        "longest_plan": timedelta(seconds=max(plan.length for plan in PRESETS.values())),
        "max_delay": timedelta(seconds=MAX_DELAY),
        "disable_after": settings.circuit_policy.disable_after,
        "dead_letters": settings.dead_letter_retention,
        "results": guide.RESULTS.values(),
        "statuses": guide.STATUSES,
        "remember": _REMEMBER,
        "test_header": TEST_HEADER,
        "key_directory": KEY_DIRECTORY,
        "default_profiles": DEFAULT_PROFILES,
        "tolerance": snippets.TOLERANCE,
        "challenge_header": CHALLENGE_HEADER,
        "challenge_parameter": CHALLENGE_PARAMETER,
        "challenge_timeout": REQUEST_SECONDS,
        "challenge_request": "GET /webhooks HTTP/1.1\nHost: shop.example\n"
        f"{CHALLENGE_HEADER}: tnt_0199f0a17c4e7d2f8b6a3c5e9d1f7040.order.invoice.paid",
        "overlap": timedelta(seconds=DEFAULT_OVERLAP_SECONDS),
        "max_overlap": timedelta(seconds=MAX_OVERLAP_SECONDS),
        "overlap_none": OVERLAPS["0"],
        "max_secrets": MAX_LIVE,
        "allow_http": settings.allow_http,
        "max_event_bytes": settings.max_event_bytes,
        "accept_bytes": snippets.MAX_BYTES,
        "max_answer_bytes": MAX_BODY,
        "excerpt_bytes": settings.response_excerpt_bytes,
        "port": snippets.PORT,
        "variable": snippets.VARIABLE,
        "sample_secret": guide.SAMPLE_SECRET,
    }


@lru_cache
def _code(language: snippets.Language) -> dict[str, Any]:
    """Return the programs in a language, which read the secret from the environment."""
    return {
        "language": language,
        "all_languages": snippets.LANGUAGES.values(),
        "run": snippets.run_command(language.id),
        "verify": snippets.verify_snippet(language.id, signatures=DEFAULT_PROFILES),
        "challenge": {
            "header": snippets.challenge_snippet(language.id, mode="header"),
            "query": snippets.challenge_snippet(language.id, mode="query"),
        },
        "send": snippets.send_snippet(guide.EXAMPLE_BODY),
    }
