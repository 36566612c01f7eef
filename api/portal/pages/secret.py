"""The page that shows a secret, once, with receivers in six languages that verify with it."""

from __future__ import annotations

from fastapi import Response

from api.forms.endpoint import EndpointView
from api.portal.site import PORTAL
from api.portal.snippets import LANGUAGES, snippet_profile, verify_snippet
from api.site.page import View


def render_secret(view: View, endpoint: EndpointView, *, secret: str, rotated: bool) -> Response:
    """Render the answer to the form that created or rotated the secret."""
    view.result_path = f"{PORTAL.home}/endpoints/{endpoint.id}"
    snippets = []
    if snippet_profile(endpoint.signatures) is not None:
        snippets = [
            (
                language,
                verify_snippet(
                    language.id,
                    signatures=endpoint.signatures,
                    hash_name=endpoint.signature_hash,
                    secrets=[secret],
                    challenge=endpoint.verification,
                ),
            )
            for language in LANGUAGES.values()
        ]
    return view.render(
        "endpoint_secret.html",
        endpoint=endpoint,
        secret=secret,
        rotated=rotated,
        snippets=snippets,
    )
