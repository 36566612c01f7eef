"""The dashboard: pages rendered on the server, which work without script.

A page is a module in `pages/` and a template in `templates/`. The module has `routes`, created by
`PageRouter()`, and is listed in `api.dashboard.application`. A line in `site.navigation` adds it
to the menu:

    routes = PageRouter()

    @routes.get("/things")
    async def things_page(
        view: PageView, page: PageQuery, context: AppContext, principal: Reader
    ) -> Response:
        listing = await list_things(page, context, principal, tenant_id=view.tenant_id)
        return view.render("things.html", listing=listing)

    routes.action("/things/{thing_id}/pause", pause_thing, "The thing is paused.")

    routes.confirmed_action(
        "/things/{thing_id}/delete",
        delete_thing,
        "The thing is deleted.",
        of=Annotated[ThingView, Depends(get_thing)],
        title="Delete this thing?",
        about=lambda thing: thing.name,
        text="This cannot be undone.",
        button="Delete",
    )

The route checks the session and the CSRF token of every POST, removes empty query parameters, and
renders errors as pages; an error in a form is shown on the page with the form. Pages call the route
functions of the API, directly or as dependencies: scopes, tenants, limits and the audit log are the
API's, and there is no second implementation. `view.tenant_id` is the tenant to show (None: all),
`view.form` has the fields of a POST. A portal link to one endpoint sees only the pages that
`site.endpoint_scope` allows.

A template extends `layout.html` and uses the macros of `parts.html` (`badge`, `when`, `empty`,
`filters`, `time_range`, `pages`, `action`, `code` …). `when` and `at` show times in the reader's
zone, `view.zone`; a list with a range of time takes `site.time_range.RangeQuery`. A destructive
action links to a page that asks first. A part that updates live is a template of
its own, which `site.live` streams.
"""
