"""Tests of an endpoint: sending one with edited data, and the request and answer of those sent."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response

from api.access.authentication import Principal, Reader, Writer
from api.answers.problems import problem_of
from api.dashboard.pages import tenant_names
from api.dashboard.pages.endpoint import render_endpoint
from api.dashboard.site import DASHBOARD
from api.forms.endpoint import EndpointView
from api.forms.endpoint_test import KeptTest, TestForm
from api.forms.sample import parse_edited
from api.routes.endpoint_tests import get_test, run_test
from api.site.form import validated
from api.site.from_path import StoredEndpoint
from api.site.json_view import pretty
from api.site.page import InvalidField, PageView, View
from api.site.page_route import PageRouter, error_sentence
from api.site.sample_editor import sample_editor
from hookfast.errors import InvalidInput, NotFound, TooManyRequests
from hookfast.storage.deliveries.sent_tests import KEPT, KEPT_PER_ENDPOINT
from hookfast.strict_json.parser import parse_object

routes = PageRouter(DASHBOARD)

OwnTest = Annotated[KeptTest, Depends(get_test)]


@routes.post("/endpoints/{endpoint_id}/test")
async def send_test(endpoint: StoredEndpoint, view: PageView, principal: Writer) -> Response:
    """Send the data that was typed, or the sample, and show the request and the answer."""
    name = view.form.text("type")
    if name is None:
        raise InvalidInput.at("/type", "name an event type")
    view.result_path = f"/dashboard/endpoints/{endpoint.id}"
    # browsers send line breaks as CR LF
    typed = view.form.get("data", "").replace("\r\n", "\n") if "data" in view.form else None
    form = validated(TestForm, {"type": name})
    try:
        data = None if typed is None else parse_edited(typed)
        test = await run_test(endpoint.id, form, view.context, principal, data=data)
    except (InvalidInput, TooManyRequests) as error:
        if typed is None or not _is_about_data(error):
            raise
        view.invalid["data"] = InvalidField(typed, error_sentence(error))
        return await render_endpoint(
            endpoint.id,
            view=view,
            principal=principal,
            test_type=name,
            test_data=typed,
            status=problem_of(error).status,
        )
    if test.kept:
        return view.redirect(f"{view.result_path}/tests/{test.message_id}", "The test was sent.")
    shown = KeptTest.not_kept(test, tenant_id=endpoint.tenant_id)
    return await _render(shown, endpoint, view=view, principal=principal, kept=False)


@routes.get("/endpoints/{endpoint_id}/tests/{test_id}")
async def test_page(
    endpoint: StoredEndpoint, test: OwnTest, view: PageView, principal: Reader
) -> Response:
    """Show a test: the whole request and the answer, and its data to send again."""
    if test.endpoint_id != endpoint.id:
        raise NotFound("The endpoint has no such test.")
    return await _render(test, endpoint, view=view, principal=principal)


async def _render(
    test: KeptTest, endpoint: EndpointView, *, view: View, principal: Principal, kept: bool = True
) -> Response:
    data = None
    if test.payload == "full":
        data = parse_object(test.request_body.encode())["data"].text
        indented, is_complete = pretty(data)
        if "\n" not in data and is_complete:  # else it has the lines that were typed
            data = indented
    await tenant_names.load(view, test.tenant_id)
    return view.render(
        "endpoint_test.html",
        endpoint=endpoint,
        test=test,
        body=pretty(test.request_body)[0],
        kept=kept,
        kept_until=test.started_at + KEPT,
        most=KEPT_PER_ENDPOINT,
        editor=await sample_editor(view, principal, name=test.event_type, data=data),
    )


def _is_about_data(error: InvalidInput | TooManyRequests) -> bool:
    """Whether to show the error at the data, which then stays as it was typed."""
    if isinstance(error, TooManyRequests):
        return True
    return all(each.pointer.startswith(("/data", "/mapping")) for each in error.errors)
