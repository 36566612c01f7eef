"""API keys: who may call this API."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field

from api.access.audit import Audit, RequestAudit
from api.access.authentication import OperatorOnly, Writer
from api.access.ownership import check_tenant_exists, found, owned
from api.context.context import AppContext, Context
from api.http.fields import ApiKeyPath, Input, Name, TenantPath, Time, TimeInput, example
from api.http.pagination import Listing, Page, PageQuery
from api.http.routing import router
from hookfast.errors import Conflict, InvalidInput
from hookfast.storage.accounts import api_keys, tenants
from hookfast.storage.accounts.api_keys import Scope
from hookfast.storage.audit.audited import created, done, facts
from hookfast.storage.keys.new_keys import key_record, new_key
from hookfast.storage.tables import ApiKey

routes = router("API keys")


_SCOPES = (
    "What the key may do: `operator` everything, `tenant` what its tenant may, `tenant:read` only "
    "read that, `emit` only emit events."
)


class _KeyForm(Input):
    name: Annotated[Name, Field(description="The purpose of the key, to recognise it in lists.")]
    expires_at: TimeInput | None = Field(None, description="When it stops working; default: never.")


class NewTenantKey(_KeyForm):
    """A new key for a tenant."""

    model_config = example(name="Acme's backend", scope="tenant")

    scope: Literal["tenant", "tenant:read", "emit"] = Field("tenant", description=_SCOPES)


class NewOperatorKey(_KeyForm):
    """A new operator key; with the scope `emit` it emits events for any tenant."""

    model_config = example(name="order service", scope="emit")

    scope: Literal["operator", "emit"] = Field(description=_SCOPES)


class KeyView(BaseModel):
    """An API key, without the key itself."""

    id: str = Field(description="Id of the key, `key_…`, by which the audit log names it.")
    tenant_id: str | None = Field(
        description="The tenant that the key belongs to; null: the operator."
    )
    scope: Scope = Field(description=_SCOPES)
    name: str = Field(description="The purpose of the key, to recognise it in lists.")
    hint: str = Field(description="The key's first characters.")
    created_at: Time
    expires_at: Time | None = Field(description="When it stops working; null: never.")
    last_used_at: Time | None = Field(description="Accurate to about a minute; null: never used.")

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        return cls(**key.model_dump(exclude={"key_sha256", "revoked_at"}))


class CreatedKey(KeyView):
    """A new key, which only this response shows."""

    key: str = Field(description="Send it as `Authorization: Bearer hf_…`, and keep it secret.")


@routes.post("/tenants/{tenant_id}/api-keys", status_code=201, summary="Create a tenant's API key")
async def create_tenant_key(
    tenant_id: TenantPath,
    form: NewTenantKey,
    context: AppContext,
    audit: Audit,
    principal: Writer,
) -> CreatedKey:
    principal.check_tenant(tenant_id)
    return await _create(context, audit, scope=form.scope, tenant_id=tenant_id, form=form)


@routes.get("/tenants/{tenant_id}/api-keys", summary="List a tenant's API keys")
async def list_tenant_keys(
    tenant_id: TenantPath, page: PageQuery, context: AppContext, principal: Writer
) -> Listing[KeyView]:
    principal.check_tenant(tenant_id)
    return await _list(context, page, tenant_id=tenant_id)


@routes.post("/api-keys", status_code=201, summary="Create an operator's API key")
async def create_operator_key(
    form: NewOperatorKey, context: AppContext, audit: Audit, _: OperatorOnly
) -> CreatedKey:
    return await _create(context, audit, scope=form.scope, tenant_id=None, form=form)


@routes.get("/api-keys", summary="List the operator's API keys")
async def list_operator_keys(
    page: PageQuery, context: AppContext, _: OperatorOnly
) -> Listing[KeyView]:
    return await _list(context, page, tenant_id=None)


@routes.delete("/api-keys/{key_id}", status_code=204, summary="Revoke an API key")
async def revoke_key(
    key_id: ApiKeyPath, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """It stops working within two seconds. The last operator key cannot be revoked."""
    now = context.clock()
    async with context.database.write() as connection:
        await api_keys.lock_operator_keys(connection)
        key = owned(await api_keys.get(connection, key_id), principal)
        await api_keys.revoke(connection, key_id, at=now)
        is_last = await api_keys.count_operator_keys(connection, at=now) == 0
        if key.scope == "operator" and is_last:
            raise Conflict(
                "This is the last operator key; create another one first.",
                code="last_operator_key",
            )
        await audit.record(connection, done("api_key.revoke", key, before=facts(key)))
    context.keys.forget()


async def _create(
    context: Context,
    audit: RequestAudit,
    *,
    scope: Scope,
    tenant_id: str | None,
    form: _KeyForm,
) -> CreatedKey:
    if form.expires_at is not None and form.expires_at <= context.clock():
        raise InvalidInput.at("/expires_at", "must be in the future")
    key = new_key()
    record = key_record(key, scope=scope, tenant_id=tenant_id, name=form.name, clock=context.clock)
    record.expires_at = form.expires_at
    async with context.database.write() as connection:
        if tenant_id is not None:
            found(await tenants.get(connection, tenant_id, lock=True))
        await api_keys.add(connection, record)
        await audit.record(connection, created(record))
    return CreatedKey(**KeyView.of(record).model_dump(mode="python"), key=key)


async def _list(context: Context, page: Page, *, tenant_id: str | None) -> Listing[KeyView]:
    async with context.database.read() as connection:
        await check_tenant_exists(connection, tenant_id)
        rows = await api_keys.list_page(
            connection, tenant_id=tenant_id, after=page.after, limit=page.rows
        )
    return page.listing(rows, KeyView.of)
