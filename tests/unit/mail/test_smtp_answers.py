"""Permanent errors of mail servers, as they word them: about the owner's address, or about us."""

from __future__ import annotations

import pytest
from aiosmtplib import (
    SMTPDataError,
    SMTPRecipientRefused,
    SMTPResponseException,
    SMTPSenderRefused,
)

from hookfast.mail.smtp import rejects_address

OWNER = "owner@shop.example"


def answer(command: str, line: str) -> SMTPResponseException:
    code, _, message = line.partition(" ")
    match command:
        case "RCPT":
            return SMTPRecipientRefused(int(code), message, OWNER)
        case "MAIL":
            return SMTPSenderRefused(int(code), message, "hooks@platform.example")
        case "DATA":
            return SMTPDataError(int(code), message)
    return SMTPResponseException(int(code), message)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        # Postfix
        ("RCPT", f"550 5.1.1 <{OWNER}>: Recipient address rejected: User unknown in local table"),
        ("RCPT", f"550 5.1.2 <{OWNER}>: Recipient address rejected: Domain not found"),
        ("RCPT", "501 5.1.3 Bad recipient address syntax"),
        ("RCPT", f"550 5.1.0 <{OWNER}>: Recipient address rejected: User has moved"),
        ("RCPT", "556 5.1.10 Recipient address rejected: Domain service refused (nullMX)"),
        # Sendmail, with and without enhanced codes
        ("RCPT", f"550 5.1.1 <{OWNER}>... User unknown"),
        ("RCPT", f"550 <{OWNER}>... User unknown"),
        # Exim
        ("RCPT", "550 Unrouteable address"),
        ("RCPT", "550 Unknown user"),
        ("RCPT", "550 No such user here"),
        ("RCPT", "550 mailbox unavailable"),
        ("RCPT", "553 Requested action not taken: mailbox name not allowed"),  # RFC 5321's words
        # Exchange and Microsoft 365
        ("RCPT", "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address"),
        ("RCPT", "550 5.2.1 The mailbox has been disabled"),
        # Gmail
        ("RCPT", "550 5.1.1 The email account that you tried to reach does not exist."),
        ("RCPT", "552 5.2.2 The recipient's inbox is out of storage space"),
        ("RCPT", "550 5.2.1 The email account that you tried to reach is inactive"),
        # qmail, Domino, Cisco, Yahoo, Amazon SES
        ("RCPT", "550 sorry, no mailbox here by that name (#5.1.1)"),
        ("RCPT", f"550 {OWNER} not listed in Domino Directory"),
        ("RCPT", "550 #5.1.0 Address rejected."),
        ("RCPT", f"554 delivery error: dd This user doesn't have a yahoo.com account ({OWNER})"),
        ("RCPT", "501 Invalid RCPT TO address provided"),
        # the address has words of policy in it
        ("RCPT", "550 <policy@relay.example> User unknown"),
        # only after the message
        ("DATA", "550 5.1.1 User unknown"),
        ("DATA", "552 5.2.2 Mailbox full"),
    ],
)
def test_error_about_the_address_ends_its_mail(command: str, line: str) -> None:
    assert rejects_address(answer(command, line))


@pytest.mark.parametrize(
    ("command", "line"),
    [
        # relaying
        ("RCPT", f"554 5.7.1 <{OWNER}>: Relay access denied"),  # Postfix
        ("RCPT", "550 relay not permitted"),  # Exim
        ("RCPT", "550 5.7.1 Relaying denied. Proper authentication required."),  # Sendmail
        ("RCPT", f"550 <{OWNER}>... Relaying denied"),  # Sendmail
        ("RCPT", f"550 5.7.1 Unable to relay for {OWNER}"),  # Exchange 2003
        ("RCPT", "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain"),  # Exchange
        ("RCPT", "550 5.7.64 TenantAttribution; Relay Access Denied"),  # Microsoft 365
        ("RCPT", "550 5.7.0 Mail relay denied"),  # Gmail
        ("RCPT", "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)"),  # qmail
        # the sender, also where the server looks at it only with the recipient
        ("MAIL", "553 5.1.8 <hooks@platform.example>: Sender address rejected: Domain not found"),
        ("MAIL", "550 5.1.1 Unknown sender"),
        ("MAIL", "553 5.7.1 Sender address rejected: not owned by user"),
        ("RCPT", "553 5.1.8 <hooks@platform.example>: Sender address rejected: Domain not found"),
        ("RCPT", "550 5.1.7 Bad sender's mailbox address syntax"),
        ("RCPT", "550 5.1.0 <hooks@platform.example>: Sender address rejected: User unknown"),
        ("RCPT", "550 Verification failed for <hooks@platform.example>\nSender verify failed"),
        ("RCPT", "553 sorry, your envelope sender is in my badmailfrom list (#5.7.1)"),
        ("DATA", "554 5.2.0 STOREDRV.Submission.Exception:SendAsDeniedException"),
        ("DATA", "554 5.2.252 SendAsDenied; not allowed to send as hooks@platform.example"),
        ("DATA", "550 5.7.60 SMTP; Client does not have permissions to send as this sender"),
        ("DATA", "554 Message rejected: Email address is not verified."),  # Amazon SES
        # the network and policy
        ("RCPT", "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using a list"),
        ("RCPT", "550 5.7.606 Access denied, banned sending IP [192.0.2.1]"),
        ("RCPT", "550 rejected because 192.0.2.1 is in a black list at bl.example"),
        ("RCPT", "550 5.1.2.3 is listed at bl.example"),
        ("RCPT", "550 Administrative prohibition"),
        ("RCPT", "550 5.4.1 Recipient address rejected: Access denied."),
        ("RCPT", "550 5.1.90 Your message can't be sent because you've reached your daily limit"),
        ("DATA", "554 5.7.1 Looks like spam"),
        ("DATA", "550 5.7.1 Our system has detected that this message is likely unsolicited mail"),
        ("DATA", "550 5.7.26 Unauthenticated email is not accepted due to its DMARC policy."),
        ("DATA", "550 This message was classified as SPAM and may not be delivered"),
        ("DATA", "552 5.3.4 Message size exceeds fixed limit"),
        ("DATA", "554 Transaction failed"),
        # login and protocol
        ("RCPT", "530 5.7.0 Authentication required"),
        ("MAIL", "530 5.7.0 Must issue a STARTTLS command first"),
        ("", "535 5.7.8 Username and Password not accepted"),
        ("", "554 5.3.2 No mail for you"),
        ("RCPT", "503 5.5.1 Error: need MAIL command"),
        ("RCPT", "555 5.5.4 Unsupported option"),
        # not permanent
        ("RCPT", "450 4.2.0 Greylisted"),
        ("RCPT", "452 4.2.2 Mailbox full"),
    ],
)
def test_error_about_us_lets_mail_wait(command: str, line: str) -> None:
    assert not rejects_address(answer(command, line))
