"""Send HTTP requests to endpoints, and guard the addresses to which they may go.

`Sender` sends requests, `AddressGuard` allows or blocks their addresses, `check_url`, `OwnAddress`
and `verify_endpoint` validate endpoint URLs, `check_identity` a TLS identity. `EgressUnavailable`
says that our own proxy is away.
"""

from hookfast.sender.address_guard import AddressBlocked, AddressGuard
from hookfast.sender.addresses import Network
from hookfast.sender.own_address import OwnAddress
from hookfast.sender.proxy import EgressUnavailable
from hookfast.sender.sender import Sender
from hookfast.sender.tls import check_identity
from hookfast.sender.url import check_url
from hookfast.sender.verify import verify_endpoint

__all__ = [
    "AddressBlocked",
    "AddressGuard",
    "EgressUnavailable",
    "Network",
    "OwnAddress",
    "Sender",
    "check_identity",
    "check_url",
    "verify_endpoint",
]
