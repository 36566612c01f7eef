"""Registers, lists and changes endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        BasicForm,
        BearerForm,
        ChangeEndpoint,
        CreatedEndpoint,
        DryRun,
        EnabledEndpoint,
        EnableForm,
        Endpoint,
        GetEndpointStatsQuery,
        HealthView,
        Job,
        ListEndpointsQuery,
        NewEndpoint,
        OAuth2Form,
        RecoverForm,
        RotatedEndpoint,
        RotationForm,
        Stats,
        Test,
        TestForm,
        TlsForm,
        Verified,
    )


class AsyncEndpoints:
    """The endpoints, which are the URLs that receive events."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def create(self, **form: Unpack[NewEndpoint]) -> CreatedEndpoint:
        """Create an endpoint. The answer has its `secret`, which is not shown again. Not repeated
        when its answer is lost: look for the endpoint in the list."""
        return cast("CreatedEndpoint", await self._client.fetch(call.post("/endpoints", form)))

    def list(self, **query: Unpack[ListEndpointsQuery]) -> AsyncPages[Endpoint]:
        """List endpoints, newest first."""
        return AsyncPages(self._client, "/endpoints", query)

    async def get(self, endpoint_id: str) -> Endpoint:
        """Return an endpoint. Raises NotFound."""
        return cast("Endpoint", await self._client.fetch(call.get(path("endpoints", endpoint_id))))

    async def update(self, endpoint_id: str, **changes: Unpack[ChangeEndpoint]) -> Endpoint:
        """Change the given settings; None sets one to its default."""
        request = call.patch(path("endpoints", endpoint_id), changes)
        return cast("Endpoint", await self._client.fetch(request))

    async def delete(self, endpoint_id: str) -> None:
        """Delete an endpoint with its subscriptions."""
        await self._client.send(call.delete(path("endpoints", endpoint_id)))

    async def pause(self, endpoint_id: str) -> Endpoint:
        """Hold the endpoint's deliveries until it is resumed."""
        return await self._act(endpoint_id, "pause")

    async def resume(self, endpoint_id: str) -> Endpoint:
        """End a pause."""
        return await self._act(endpoint_id, "resume")

    async def disable(self, endpoint_id: str) -> Endpoint:
        """Send nothing to the endpoint until it is enabled: its deliveries become dead letters."""
        return await self._act(endpoint_id, "disable")

    async def enable(self, endpoint_id: str, **form: Unpack[EnableForm]) -> EnabledEndpoint:
        """Enable a disabled endpoint; with `redrive`, send its dead letters again in a `job`."""
        repeatable = not form.get("redrive", False)
        request = call.post(path("endpoints", endpoint_id, "enable"), form, repeatable=repeatable)
        return cast("EnabledEndpoint", await self._client.fetch(request))

    async def verify(self, endpoint_id: str) -> Verified:
        """Ask the receiver whether it wants the events. Raises InvalidInput if it does not."""
        request = call.post(path("endpoints", endpoint_id, "verify"), repeatable=True)
        return cast("Verified", await self._client.fetch(request))

    async def test(self, endpoint_id: str, **form: Unpack[TestForm]) -> Test:
        """Send a test event to this endpoint only, with `data` or a sample; return the answer."""
        request = call.post(path("endpoints", endpoint_id, "test"), form)
        return cast("Test", await self._client.fetch(request))

    async def health(self, endpoint_id: str) -> HealthView:
        """Return the state of the endpoint's circuit and its latest notices."""
        request = call.get(path("endpoints", endpoint_id, "health"))
        return cast("HealthView", await self._client.fetch(request))

    async def stats(self, endpoint_id: str, **query: Unpack[GetEndpointStatsQuery]) -> Stats:
        """Return the endpoint's figures: deliveries, attempts and latency."""
        request = call.get(path("endpoints", endpoint_id, "stats"), query)
        return cast("Stats", await self._client.fetch(request))

    async def rotate_secret(
        self, endpoint_id: str, **form: Unpack[RotationForm]
    ) -> RotatedEndpoint:
        """Create a new secret, which is in the answer. Both sign for `overlap_seconds`."""
        request = call.post(path("endpoints", endpoint_id, "rotate-secret"), form)
        return cast("RotatedEndpoint", await self._client.fetch(request))

    async def set_authentication(
        self, endpoint_id: str, form: BearerForm | BasicForm | OAuth2Form
    ) -> Endpoint:
        """Set the credentials that deliveries carry."""
        request = call.put(path("endpoints", endpoint_id, "authentication"), form)
        return cast("Endpoint", await self._client.fetch(request))

    async def delete_authentication(self, endpoint_id: str) -> None:
        """Remove the credentials that deliveries carry."""
        await self._client.send(call.delete(path("endpoints", endpoint_id, "authentication")))

    async def set_tls(self, endpoint_id: str, **form: Unpack[TlsForm]) -> Endpoint:
        """Set the client certificate and the authorities for the endpoint's TLS connections."""
        request = call.put(path("endpoints", endpoint_id, "tls"), form)
        return cast("Endpoint", await self._client.fetch(request))

    async def delete_tls(self, endpoint_id: str) -> None:
        """Remove the client certificate and the authorities."""
        await self._client.send(call.delete(path("endpoints", endpoint_id, "tls")))

    @overload
    async def recover(
        self, endpoint_id: str, *, dry_run: Literal[True], **form: Unpack[RecoverForm]
    ) -> DryRun: ...
    @overload
    async def recover(
        self, endpoint_id: str, *, dry_run: Literal[False] = False, **form: Unpack[RecoverForm]
    ) -> Job: ...
    async def recover(
        self, endpoint_id: str, *, dry_run: bool = False, **form: Unpack[RecoverForm]
    ) -> DryRun | Job:
        """Send again what failed in a window of time, in a job; or only count it."""
        request = call.post_job(path("endpoints", endpoint_id, "recover"), form, dry_run=dry_run)
        return cast("DryRun | Job", await self._client.fetch(request))

    async def _act(self, endpoint_id: str, action: str) -> Endpoint:
        request = call.post(path("endpoints", endpoint_id, action), repeatable=True)
        return cast("Endpoint", await self._client.fetch(request))
