"""The dashboard: pages made on the server, which work without script.

A page is a module here and a template in `templates/`. The module has `routes`, made by
`page_router()`, and is listed in `api.dashboard.application`; a line in `navigation` makes it
appear in the menu:

    routes = page_router()

    @routes.get("/things")
    async def things_page(
        view: PageView, page: PageQuery, context: AppContext, principal: Reader
    ) -> Response:
        listing = await list_things(page, context, principal, tenant_id=view.tenant_id)
        return view.render("things.html", listing=listing)

    @routes.post("/things/{thing_id}/pause")
    async def pause(
        thing_id: ThingPath, view: PageView, context: AppContext, audit: Audit, principal: Writer
    ) -> Response:
        await pause_thing(thing_id, context, audit, principal)
        return view.go_back("The thing is paused.")

The route signs the visitor in, checks the CSRF token of every POST, leaves out empty query
parameters and turns errors into pages; a POST that is refused goes back to where its form was, with
the reason. What a page shows and does goes through the functions of the API's routes, with the same
dependencies: so scopes, tenants, limits and the audit log are theirs, and there is no second
implementation. `view.tenant_id` is the tenant to show (None: all), `view.form` the fields of a
POST. A portal link to one endpoint sees what `site.endpoint_scope` lists, and no new page.

A template extends `layout.html`, imports the macros of `parts.html` with context (`badge`, `when`,
`empty`, `filters`, `pages`, `action`, `code` …) and sets `title` and `section`. A destructive
action is a link to a page that asks (`confirm.html`). What moves by itself is a template of its own
that `live.stream` renders again: see `api.dashboard.site.live`.
"""
