"""The mail to owners: its words, its headers, and what customers may put into it."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from typing import Any

import pytest

from hookfast.errors import Misconfigured
from hookfast.mail import News, compose
from hookfast.mail.message import message_id_of, parse_sender, shown_url
from hookfast.owners.notice import Facts, NoticeKind

AT = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
SINCE = datetime(2026, 11, 20, 9, 5, tzinfo=UTC)


def news(endpoint: int = 1, **options: Any) -> News:
    given = {"url": f"https://shop{endpoint}.example/hooks", "description": "", "facts": Facts()}
    return News(notice_id="ntc_1", endpoint_id=f"ep_{endpoint}", **(given | options))


def mail(
    *told: News, kind: NoticeKind = NoticeKind.OPENED, to: str = "owner@shop.example"
) -> EmailMessage:
    """The mail as it is read, after a trip over the wire."""
    written = compose(
        kind,
        told,
        sender=parse_sender("Hooks <hooks@platform.example>"),
        to=to,
        message_id="<1@platform.example>",
        public_url="https://hooks.example",
        at=AT,
    )
    read = message_from_bytes(written.as_bytes(policy=SMTP), policy=default)
    assert isinstance(read, EmailMessage)
    return read


def text(message: EmailMessage, subtype: str = "plain") -> str:
    part = message.get_body((subtype,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def test_one_endpoint_is_told_in_plain_words() -> None:
    facts = Facts(
        since=SINCE,
        last_error="The receiver answered 500 Internal Server Error.",
        failures=1204,
        held=1,
        disable_at=datetime(2026, 11, 23, 9, 5, tzinfo=UTC),
    )
    message = mail(news(description="The shop’s orders", facts=facts))

    assert message["Subject"] == "Webhooks to shop1.example are failing"
    told = text(message)
    assert told.startswith("Webhooks to shop1.example keep failing")
    for line in (
        "https://shop1.example/hooks",
        "The shop’s orders",
        "Failing since: 20 November 2026, 09:05 UTC",
        "Last error: The receiver answered 500 Internal Server Error.",
        "Failures in a row: 1,204",
        "Waiting: 1 delivery",
        "Disabled at: 23 November 2026, 09:05 UTC, unless it recovers",
        "More: https://hooks.example/dashboard/endpoints/ep_1",
        "What happens next",
        "What to do",
    ):
        assert line in told.splitlines() or f"  {line}" in told.splitlines()
    page = text(message, "html")
    assert "<th>Waiting</th><td>1 delivery</td>" in page
    assert '<a href="https://hooks.example/dashboard/endpoints/ep_1">' in page


def test_the_headers_keep_robots_from_answering() -> None:
    message = mail(news())
    assert message["From"] == "Hooks <hooks@platform.example>"
    assert message["To"] == "owner@shop.example"
    assert message["Date"].datetime == AT
    assert message["Message-ID"] == "<1@platform.example>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["List-Id"] == "Endpoint notices <endpoint-notices.platform.example>"
    assert message.get_content_type() == "multipart/alternative"


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        (NoticeKind.OPENED, "Webhooks to shop1.example are failing"),
        (NoticeKind.STILL_FAILING, "Webhooks to shop1.example are still failing"),
        (NoticeKind.DISABLED, "Webhooks to shop1.example are disabled"),
        (NoticeKind.RECOVERED, "Webhooks to shop1.example work again"),
        (NoticeKind.DEAD_LETTERS, "Webhooks to shop1.example were given up"),
    ],
)
def test_every_kind_has_its_words(kind: NoticeKind, subject: str) -> None:
    message = mail(news(), kind=kind)
    assert message["Subject"] == subject
    for part in (text(message), text(message, "html")):
        assert "{which}" not in part
        assert "None" not in part


def test_a_recovery_tells_what_was_sent_and_not_what_waits() -> None:
    facts = Facts(since=SINCE, drained=12, held=3, failures=7)
    told = text(mail(news(facts=facts), kind=NoticeKind.RECOVERED))
    assert "Failed since: 20 November 2026, 09:05 UTC" in told
    assert "Waited and were sent: 12 deliveries" in told
    assert "Waiting:" not in told
    assert "Failures in a row" not in told


def test_the_last_error_is_told_once_where_it_is_why_the_endpoint_was_disabled() -> None:
    error = "The server answered 500 Internal Server Error."
    why = f"It failed for 72 h without a success. Last error: {error}"
    facts = Facts(reason=why, last_error=error)
    told = text(mail(news(facts=facts), kind=NoticeKind.DISABLED))
    assert told.count(error) == 1
    assert f"Why: {why}" in told


def test_a_digest_lists_each_endpoint_once() -> None:
    message = mail(*(news(number) for number in range(1, 51)))
    assert message["Subject"] == "Webhooks to 50 endpoints are failing"
    told = text(message)
    assert [told.count(f"https://shop{number}.example/hooks\n") for number in range(1, 51)] == (
        [1] * 50
    )
    assert text(message, "html").count("<table>") == 50


def test_an_endpoint_that_is_told_of_again_comes_once_with_its_latest_news() -> None:
    told = text(
        mail(
            news(1, facts=Facts(last_error="the 1st")),
            news(2),
            news(1, facts=Facts(last_error="the 2nd")),
            news(1, facts=Facts(last_error="the 3rd")),
        )
    )
    assert "Webhooks to 2 endpoints" in told
    assert told.count("https://shop1.example/hooks\n") == 1
    assert "Happened: 3 times; this is the latest" in told
    assert "Last error: the 3rd" in told
    assert "the 1st" not in told


def test_a_digest_of_very_many_says_how_many_more() -> None:
    told = text(mail(*(news(number) for number in range(1_234))))
    assert told.startswith("Webhooks to 1,234 endpoints")
    assert told.count("More: ") == 100
    assert "and 1,134 more" in told


EVIL = "\r\nBcc: everyone@shop.example\r\n\r\n<script>alert(1)</script>\x00\u2028\x1b[31m"


def test_nothing_a_customer_wrote_becomes_a_header_or_a_tag() -> None:
    message = mail(
        news(
            url=f"https://shop.example/a{EVIL}",
            description=EVIL,
            facts=Facts(last_error=EVIL, reason=EVIL),
        )
    )
    assert message["Bcc"] is None
    assert "\n" not in message["Subject"]
    page = text(message, "html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for part in (text(message), page):
        assert not set("\x00\x1b\u2028") & set(part)
        assert not any(line.startswith("Bcc:") for line in part.splitlines())


def test_a_host_that_is_no_host_cannot_break_the_subject() -> None:
    message = mail(news(url="https://" + "a" * 300 + ".example/"))
    assert len(message["Subject"]) < 120
    assert mail(news(url="https://[broken"))["Subject"] == "Webhooks to your URL are failing"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://shop.example/hooks?token=secret", "https://shop.example/hooks"),
        ("https://shop.example:8443/a/b#c", "https://shop.example:8443/a/b"),
        ("https://user:secret@shop.example/", "https://shop.example/"),
        ("https://[::1]/x?y", "https://[::1]/x"),
        ("https://[broken", "your URL"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_an_odd_address_stays_one_address() -> None:
    message = mail(news(), to="a,b@shop.example")
    assert [one.addr_spec for one in message["To"].addresses] == ['"a,b"@shop.example']


@pytest.mark.parametrize("to", ["", "nobody", "@shop.example", "a@b\r\nBcc: c@d", "ü@shop.example"])
def test_what_is_no_address_is_refused(to: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        mail(news(), to=to)


@pytest.mark.parametrize(
    "sender",
    ["", "hooks", "Hooks <hooks>", "a@b\r\nBcc: c@d", "a@shop..example", "A <a@shop..example>"],
)
def test_a_sender_that_is_no_address_names_the_setting(sender: str) -> None:
    with pytest.raises(Misconfigured, match="HOOKFAST_MAIL_FROM"):
        parse_sender(sender)


def test_the_message_id_depends_on_the_owner_and_the_notices_and_on_nothing_else() -> None:
    known = message_id_of("owner", ["ntc_1", "ntc_2"], domain="platform.example")
    assert known == message_id_of("owner", ["ntc_2", "ntc_1"], domain="platform.example")
    assert known.endswith("@platform.example>")
    others = {
        known,
        message_id_of("other", ["ntc_1", "ntc_2"], domain="platform.example"),
        message_id_of("owner", ["ntc_1"], domain="platform.example"),
        message_id_of("owner", ["ntc_1", "ntc_2"], domain="other.example"),
    }
    assert len(others) == 4


def test_a_link_that_opens_without_a_key_is_told_with_its_end() -> None:
    written = compose(
        NoticeKind.OPENED,
        [news(1), news(2)],
        sender=parse_sender("hooks@platform.example"),
        to="owner@shop.example",
        message_id="<1@platform.example>",
        public_url="https://hooks.example",
        at=AT,
        links={"ep_1": "https://hooks.example/dashboard/portal?sig=abc"},
        links_until=datetime(2026, 11, 28, 11, 15, tzinfo=UTC),
    )
    told = text(message_from_bytes(written.as_bytes(policy=SMTP), policy=default))  # type: ignore[arg-type]
    assert "  More: https://hooks.example/dashboard/portal?sig=abc\n" in told
    assert "  More: https://hooks.example/dashboard/endpoints/ep_2\n" in told
    assert "Until 28 November 2026, 11:15 UTC the links in this mail open for whoever" in told
