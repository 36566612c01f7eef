"""Content security policies: what a page may load and run (Content Security Policy, level 3).

A response without its own policy gets `DENY_ALL`, which suits JSON. A page sets the header
`Content-Security-Policy` to `page_policy(…)`, which allows only the sources that it names:

    page_policy(script_src=["'self'"], style_src=["'self'"])
"""

from __future__ import annotations

from collections.abc import Sequence


def page_policy(
    *,
    script_src: Sequence[str] = (),
    style_src: Sequence[str] = (),
    img_src: Sequence[str] = (),
    connect_src: Sequence[str] = (),
    form_action: Sequence[str] = ("'none'",),
    frame_ancestors: Sequence[str] = ("'none'",),
) -> str:
    """Return the header's value for a page that needs these sources, e.g. `'self'` or `data:`, and
    that only `frame_ancestors` may frame. Everything else is blocked, as is `<base>`. Raises
    ValueError for sources that would allow injected code."""
    directives = {
        "default-src": ("'none'",),
        "script-src": script_src,
        "style-src": style_src,
        "img-src": img_src,
        "connect-src": connect_src,
        "form-action": form_action,
        "base-uri": ("'none'",),
        "frame-ancestors": frame_ancestors,
    }
    for source in (*script_src, *style_src):
        if source in ("'unsafe-inline'", "'unsafe-eval'", "*", "data:"):
            raise ValueError(f"{source} would allow injected code")
    return "; ".join(
        f"{name} {' '.join(sources)}" for name, sources in directives.items() if sources
    )


DENY_ALL = page_policy()
"""The policy of responses that are not pages: they load and run nothing, wherever they are
opened."""
