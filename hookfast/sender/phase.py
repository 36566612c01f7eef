"""The steps of a request, as the messages of its failures name them."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The current step of a request; its value completes 'No answer within 5 s: …'."""

    QUEUED = "every connection to {peer} stayed in use by other requests."
    AUTHORIZING = "the token endpoint did not give an access token in time."
    RESOLVING = "the name {peer} did not resolve in time."
    CONNECTING = "the connection to {peer} did not open in time."
    PROXY = "nothing was sent: the egress proxy did not take the connection in time."
    TUNNEL = "the egress proxy did not open the connection to {peer} in time."
    HANDSHAKE = "the TLS handshake with {peer} did not finish in time."
    CONFIRMING = "nothing was sent: the permission to send it did not arrive in time."
    WAITING = "{peer} took the connection but did not answer in time."
    HEADERS = "{peer} began its answer but did not finish the headers in time."
    BODY = "{peer} sent its headers but did not finish the body in time."
