"""All providers. To add one, edit only this folder:

- It signs the body alone, with an HMAC-SHA-256 in a header: add a row to `_BODY_HMAC` below.
- Anything else (a signed time, options, forms): add a module with one subclass of `Provider`, such
  as `stripe.py`. It is found by being here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from hookfast.errors import InvalidInput
from hookfast.inbox.body_hmac import BodyHmacScheme, body_hmac_provider
from hookfast.inbox.provider import Provider, bind

_BODY_HMAC = (
    # Cloud and Data Center; repository, project and workspace webhooks.
    # https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/ and
    # https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
    BodyHmacScheme(
        name="bitbucket",
        title="Bitbucket",
        signature_headers=("X-Hub-Signature",),
        prefix="sha256=",  # GitHub's header of the same name contains a SHA-1
        delivery_headers=(("X-Request-UUID",), ("X-Request-Id",)),  # Cloud, Data Center
        # `pullrequest:comment_created`; Data Center's `pr:reviewer:updated` has three words
        type_headers=(("X-Event-Key",),),
        suggested_keys={
            "bitbucket.repo.push": (
                "[repository.full_name, push.changes[-1].new.name, "
                "push.changes[-1].new.target.hash]"
            ),
            "bitbucket.pullrequest.*": (
                "[repository.full_name, pullrequest.id, pullrequest.state, pullrequest.updated_on]"
            ),
        },
    ),
    # Gitea and Forgejo; hooks of these types with the content type JSON. A form is not accepted:
    # its signature covers the field's value, so it would be parsed before it is verified. Forgejo
    # sends both headers. The X-Hub-Signature headers, for GitHub's receivers, are ignored.
    # https://docs.gitea.com/usage/repository/webhooks and
    # https://forgejo.org/docs/latest/user/webhooks/
    BodyHmacScheme(
        name="gitea",
        title="Gitea or Forgejo",
        signature_headers=("X-Gitea-Signature", "X-Forgejo-Signature"),
        delivery_headers=(("X-Gitea-Delivery",), ("X-Forgejo-Delivery",)),
        type_headers=(("X-Gitea-Event",), ("X-Forgejo-Event",)),
        action_member="action",
        suggested_keys={
            "gitea.push.*": "[repository.full_name, ref, after]",
            "gitea.release.*": "[repository.full_name, release.tag_name, action]",
            "gitea.pull_request.*": (
                "[repository.full_name, number, action, pull_request.updated_at]"
            ),
        },
    ),
    # App and shop webhooks in JSON. The secret is the app's client secret, or the one shown in the
    # shop's notification settings. One action of a merchant can trigger several topics under one
    # event id. https://shopify.dev/docs/apps/build/webhooks/subscribe/https
    # Events, the preview of their successor, are signed alike in headers without `X-`. They name a
    # resource and an action (`Product`, `update`), and no longer an event id.
    BodyHmacScheme(
        name="shopify",
        title="Shopify",
        signature_headers=("X-Shopify-Hmac-Sha256", "Shopify-Hmac-Sha256"),
        encoding="base64",
        delivery_headers=(
            ("X-Shopify-Event-Id", "X-Shopify-Topic"),
            ("X-Shopify-Webhook-Id",),
            ("Shopify-Webhook-Id",),
        ),
        type_headers=(("Shopify-Topic", "Shopify-Action"), ("X-Shopify-Topic",)),  # `orders/create`
        lets_choose_secret=False,
        suggested_keys={
            "shopify.*.update": "[admin_graphql_api_id, updated_at]",
            "shopify.*.updated": "[admin_graphql_api_id, updated_at]",
            "shopify.orders.*": "[admin_graphql_api_id, updated_at]",
            "shopify.*.create": "admin_graphql_api_id",
        },
    ),
)


def _all_providers() -> dict[str, type[Provider]]:
    """Return the provider classes by name, sorted."""
    providers = [body_hmac_provider(scheme) for scheme in _BODY_HMAC]
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        (provider,) = (
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Provider)
            and value.__module__ == module.__name__
        )
        providers.append(provider)
    return {provider.name: provider for provider in sorted(providers, key=lambda one: one.name)}


PROVIDERS: Mapping[str, type[Provider]] = _all_providers()


def provider(name: str, options: Mapping[str, Any] | None = None, *, pointer: str = "") -> Provider:
    """Return the provider with this name, with a source's options.

    Raises InvalidInput: `unknown_provider` at `<pointer>/provider`, or `invalid_options` at members
    of `<pointer>/options`.
    """
    found = PROVIDERS.get(name)
    if found is None:
        raise InvalidInput.at(
            f"{pointer}/provider",
            f"unknown provider; use one of {', '.join(PROVIDERS)}",
            code="unknown_provider",
        )
    return bind(found, options or {}, pointer=f"{pointer}/options")
