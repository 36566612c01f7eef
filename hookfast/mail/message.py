"""The mail to an owner, as text and HTML: about one endpoint, or a digest of many. Pure.

Everything that a customer chose (URL, description, a receiver's answer) is cut to one line before
it is used, and escaped in HTML, so it can add neither a header nor a tag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from urllib.parse import urlsplit

from hookfast.endpoints.short_url import short_url
from hookfast.mail.wording import WORDING, details, format_moment
from hookfast.mail_address import ascii_address
from hookfast.owners.notice import Facts, NoticeKind

_MAX_LISTED = 100
_MAX_LINE = 300
_MAX_HOST = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One notice, with the endpoint that it is about."""

    endpoint_id: str
    url: str
    description: str
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """The part of a mail about one endpoint."""

    url: str
    host: str
    description: str
    rows: tuple[tuple[str, str], ...]
    link: str


def compose(
    kind: NoticeKind,
    news: Sequence[News],
    *,
    sender: Address,
    to: str,
    message_id: str,
    public_url: str,
    at: datetime,
    links: Mapping[str, str] | None = None,
    links_until: datetime | None = None,
) -> EmailMessage:
    """Compose the mail about `news`, which are of one kind and oldest first, to the address `to`.

    Each endpoint is listed once, with its latest notice. `at` becomes the Date. Links begin with
    `public_url` and lead to the dashboard, which requires an API key, unless `links` has a link for
    the endpoint that opens without one until `links_until`. Raises ValueError if `to` is not an
    address.
    """
    entries = _entries(kind, news, public_url, links or {})
    closing = _WHY_YOU if links_until is None else f"{_opens_until(links_until)} {_WHY_YOU}"
    wording = WORDING[kind]
    which = entries[0].host if len(entries) == 1 else f"{len(entries):,} endpoints"
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = Address(addr_spec=ascii_address(to))
    message["Subject"] = wording.subject.format(which=which)
    message["Date"] = format_datetime(at)
    message["Message-ID"] = message_id
    # against out-of-office answers: RFC 3834, and the header that Exchange reads
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message["List-Id"] = f"Endpoint notices <endpoint-notices.{sender.domain}>"
    happened = wording.happened.format(which=which)
    # Quoted-printable: not every server accepts 8-bit text.
    message.set_content(_text(kind, happened, entries, closing), cte="quoted-printable")
    page = _html(kind, happened, entries, closing)
    message.add_alternative(page, subtype="html", cte="quoted-printable")
    return message


def message_id_of(owner_hash: str, notice_ids: Iterable[str], *, domain: str) -> str:
    """Return the Message-ID of a mail with these notices. It is the same whenever it is sent."""
    ids = "\n".join([owner_hash, *sorted(notice_ids)])
    return f"<{hashlib.sha256(ids.encode()).hexdigest()[:32]}@{domain}>"


def one_line(text: str, *, limit: int = _MAX_LINE) -> str:
    """Return the text without line breaks and control characters, at most `limit` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _entries(
    kind: NoticeKind, news: Sequence[News], public_url: str, links: Mapping[str, str]
) -> list[_Entry]:
    latest: dict[str, tuple[News, int]] = {}
    for one in news:
        _, times = latest.pop(one.endpoint_id, (one, 0))
        latest[one.endpoint_id] = (one, times + 1)
    return [
        _Entry(
            url=one_line(short_url(one.url)),
            host=_host(one.url),
            description=one_line(one.description),
            rows=tuple(
                (label, one_line(value)) for label, value in details(kind, one.facts, times=times)
            ),
            link=links.get(one.endpoint_id)
            or f"{public_url}/dashboard/endpoints/{one.endpoint_id}",
        )
        for one, times in latest.values()
    ]


def _host(url: str) -> str:
    try:
        return one_line(urlsplit(url).hostname or "your URL", limit=_MAX_HOST)
    except ValueError:
        return "your URL"


def _more(entries: Sequence[_Entry]) -> str | None:
    left = len(entries) - _MAX_LISTED
    return f"and {left:,} more, which GET /v1/endpoints lists" if left > 0 else None


def _text(kind: NoticeKind, happened: str, entries: Sequence[_Entry], closing: str) -> str:
    wording = WORDING[kind]
    lines = [happened, ""]
    for entry in entries[:_MAX_LISTED]:
        lines.append(entry.url)
        if entry.description:
            lines.append(f"  {entry.description}")
        lines += [f"  {label}: {value}" for label, value in entry.rows]
        lines += [f"  More: {entry.link}", ""]
    if more := _more(entries):
        lines += [more, ""]
    lines += ["What happens next", *(f"- {line}" for line in wording.next), ""]
    lines += ["What to do", *(f"- {line}" for line in wording.todo), ""]
    lines.append(closing)
    return "\n".join(lines) + "\n"


def _html(kind: NoticeKind, happened: str, entries: Sequence[_Entry], closing: str) -> str:
    wording = WORDING[kind]
    tone = "good" if kind is NoticeKind.RECOVERED else "bad"
    parts = [f'<p class="happened {tone}">{escape(happened)}</p>']
    parts += [_html_entry(entry) for entry in entries[:_MAX_LISTED]]
    if more := _more(entries):
        parts.append(f"<p>{escape(more)}</p>")
    for title, lines in (("What happens next", wording.next), ("What to do", wording.todo)):
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"<h2>{title}</h2>\n<ul>{items}</ul>")
    parts.append(f'<p class="why">{escape(closing)}</p>')
    body = "\n".join(parts)
    head = (
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><style>{_STYLE}</style></head>'
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>\n<div class="page">\n'
        f"{body}\n</div>\n</body></html>\n"
    )


def _html_entry(entry: _Entry) -> str:
    rows = "".join(
        f"<tr><th>{escape(label)}</th><td>{escape(value)}</td></tr>" for label, value in entry.rows
    )
    description = f"<p>{escape(entry.description)}</p>" if entry.description else ""
    return (
        f'<div class="endpoint"><h3>{escape(entry.url)}</h3>{description}<table>{rows}</table>'
        f'<p><a class="button" href="{escape(entry.link)}">More about this endpoint</a></p></div>'
    )


def _opens_until(end: datetime) -> str:
    return (
        f"Until {format_moment(end)} the links in this mail open for anyone who has them, so do "
        "not forward it."
    )


_WHY_YOU = "You get this mail because your address is among the endpoint's owners."
# the colours of the pages: api/site/static/site.css
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;background:#f7f8fa;color:#1b2029;font:15px/1.5 system-ui,-apple-system,"
    "'Segoe UI',Roboto,Arial,sans-serif}"
    ".page{max-width:600px;margin:24px auto;padding:28px;background:#fff;border:1px solid #e2e5eb;"
    "border-top:4px solid #4338ca;border-radius:10px}"
    "p{margin:0 0 10px}.happened{font-size:17px;font-weight:600;line-height:1.4}"
    "h2{font-size:15px;margin:22px 0 4px}h3{font-size:14px;margin:0 0 4px;word-break:break-all}"
    "ul{margin:0;padding-left:20px}li{margin:3px 0}"
    ".endpoint{border:1px solid #e2e5eb;border-radius:8px;padding:14px 16px 6px;margin:16px 0}"
    "table{border-collapse:collapse;margin:6px 0 12px}"
    "th{text-align:left;font-weight:normal;color:#565f6e;padding:2px 16px 2px 0;"
    "vertical-align:baseline;white-space:nowrap}td{vertical-align:baseline;padding:2px 0}"
    ".bad{color:#a8201a}.good{color:#116239}a{color:#3730a3}"
    ".button{display:inline-block;padding:8px 14px;border-radius:7px;background:#4338ca;"
    "color:#fff;font-weight:600;text-decoration:none}"
    ".why{margin:24px 0 0;color:#565f6e;font-size:13px}"
    "@media(prefers-color-scheme:dark){body{background:#0f1217;color:#e4e8ee}"
    ".page{background:#171b22;border-color:#2a313c;border-top-color:#4f46e5}"
    ".endpoint{border-color:#2a313c}th,.why{color:#9ba6b5}.bad{color:#ff9d94}.good{color:#7ddba3}"
    "a{color:#a5b4fc}.button{background:#4f46e5;color:#fff}}"
    "@media(max-width:639px){.page{margin:0;border-radius:0;padding:20px 16px}"
    "th,td{display:block}th{padding-bottom:0}td{padding-bottom:6px}.button{padding:10px 16px}}"
)
