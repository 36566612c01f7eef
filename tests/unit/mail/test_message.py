"""The mail to owners: its text and headers, and safety from what customers write into it."""

from __future__ import annotations

from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest

from hookfast.mail import News
from hookfast.mail.message import message_id_of
from hookfast.owners.notice import Facts, NoticeKind
from tests.support.owner_mail import AT, MESSAGE_ID, OWNER, news, read, written

SINCE = datetime(2026, 11, 20, 9, 5, tzinfo=UTC)


def mail(*notices: News, **options: Any) -> EmailMessage:
    return read(written(*notices, **options))


def text(message: EmailMessage, subtype: str = "plain") -> str:
    part = message.get_body((subtype,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def test_mail_about_one_endpoint_lists_the_facts() -> None:
    facts = Facts(
        since=SINCE,
        last_error="The receiver answered 500 Internal Server Error.",
        failures=1204,
        held=1,
        disable_at=datetime(2026, 11, 23, 9, 5, tzinfo=UTC),
    )
    message = mail(news(description="The shop’s orders", facts=facts))

    assert message["Subject"] == "Webhooks to shop1.example are failing"
    plain = text(message)
    assert plain.startswith("Webhooks to shop1.example keep failing")
    for line in (
        "https://shop1.example/hooks",
        "The shop’s orders",
        "Failing since: 20 November 2026, 09:05 UTC",
        "Last error: The receiver answered 500 Internal Server Error.",
        "Failures in a row: 1,204",
        "Held: 1 delivery",
        "Disabled at: 23 November 2026, 09:05 UTC, unless it recovers",
        "More: https://hooks.example/dashboard/endpoints/ep_1",
        "What happens next",
        "What to do",
    ):
        assert line in plain.splitlines() or f"  {line}" in plain.splitlines()
    page = text(message, "html")
    assert "<th>Held</th><td>1 delivery</td>" in page
    assert '<a class="button" href="https://hooks.example/dashboard/endpoints/ep_1">' in page


def test_headers_prevent_automatic_replies() -> None:
    message = mail(news())
    assert message["From"] == "Hooks <hooks@platform.example>"
    assert message["To"] == OWNER
    assert message["Date"].datetime == AT
    assert message["Message-ID"] == MESSAGE_ID
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
def test_every_kind_has_a_subject_and_text(kind: NoticeKind, subject: str) -> None:
    message = mail(news(), kind=kind)
    assert message["Subject"] == subject
    for part in (text(message), text(message, "html")):
        assert "{which}" not in part
        assert "None" not in part


def test_recovery_mail_lists_sent_deliveries_and_not_held_ones() -> None:
    facts = Facts(since=SINCE, drained=12, held=3, failures=7)
    plain = text(mail(news(facts=facts), kind=NoticeKind.RECOVERED))
    assert "Failed since: 20 November 2026, 09:05 UTC" in plain
    assert "Held and then sent: 12 deliveries" in plain
    assert "Held:" not in plain
    assert "Failures in a row" not in plain


def test_last_error_is_not_repeated_if_the_reason_quotes_it() -> None:
    error = "The server answered 500 Internal Server Error."
    why = f"It failed for 72 h without a success. Last error: {error}"
    facts = Facts(reason=why, last_error=error)
    plain = text(mail(news(facts=facts), kind=NoticeKind.DISABLED))
    assert plain.count(error) == 1
    assert f"Why: {why}" in plain


def test_digest_lists_each_endpoint_once() -> None:
    message = mail(*(news(number) for number in range(1, 51)))
    assert message["Subject"] == "Webhooks to 50 endpoints are failing"
    plain = text(message)
    assert [plain.count(f"https://shop{number}.example/hooks\n") for number in range(1, 51)] == (
        [1] * 50
    )
    assert text(message, "html").count("<table>") == 50


def test_endpoint_with_several_notices_is_listed_once_with_the_latest() -> None:
    plain = text(
        mail(
            news(1, facts=Facts(last_error="the 1st")),
            news(2),
            news(1, facts=Facts(last_error="the 2nd")),
            news(1, facts=Facts(last_error="the 3rd")),
        )
    )
    assert "Webhooks to 2 endpoints" in plain
    assert plain.count("https://shop1.example/hooks\n") == 1
    assert "Happened: 3 times; this is the latest" in plain
    assert "Last error: the 3rd" in plain
    assert "the 1st" not in plain


def test_digest_of_very_many_endpoints_says_how_many_more() -> None:
    plain = text(mail(*(news(number) for number in range(1_234))))
    assert plain.startswith("Webhooks to 1,234 endpoints")
    assert plain.count("More: ") == 100
    assert "and 1,134 more" in plain


EVIL = "\r\nBcc: everyone@shop.example\r\n\r\n<script>alert(1)</script>\x00\u2028\x1b[31m"


def test_customer_text_becomes_neither_a_header_nor_a_tag() -> None:
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


def test_invalid_host_does_not_break_the_subject() -> None:
    message = mail(news(url="https://" + "a" * 300 + ".example/"))
    assert len(message["Subject"]) < 120
    assert mail(news(url="https://[broken"))["Subject"] == "Webhooks to your URL are failing"


def test_mail_shows_a_short_url_because_the_path_may_be_a_credential() -> None:
    message = mail(news(url="https://hooks.slack.com/services/T00000/B00000/XXXXXXXX?token=secret"))
    for part in (text(message), text(message, "html")):
        assert "https://hooks.slack.com/services/…" in part
        assert "T00000" not in part
        assert "secret" not in part


def test_internationalised_domain_is_written_in_a_labels() -> None:
    assert mail(news(), to="ops@müller.example")["To"] == "ops@xn--mller-kva.example"


def test_invalid_address_is_rejected() -> None:
    with pytest.raises(ValueError, match="must be"):
        mail(news(), to="a@b\r\nBcc: c@d")


def test_message_id_depends_only_on_owner_notices_and_domain() -> None:
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


def test_mail_says_until_when_links_open_without_a_key() -> None:
    plain = text(
        mail(
            news(1),
            news(2),
            links={"ep_1": "https://hooks.example/portal/open?sig=abc"},
            links_until=datetime(2026, 11, 28, 11, 15, tzinfo=UTC),
        )
    )
    assert "  More: https://hooks.example/portal/open?sig=abc\n" in plain
    assert "  More: https://hooks.example/dashboard/endpoints/ep_2\n" in plain
    assert "Until 28 November 2026, 11:15 UTC the links in this mail open for anyone" in plain
