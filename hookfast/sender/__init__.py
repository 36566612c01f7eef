"""The outgoing HTTP transport: everything between Hookfast and other people's servers.

`Sender` makes requests; `AddressGuard` decides where they may go; `check_url` and
`verify_endpoint` decide which endpoint URLs are accepted.
"""

from hookfast.sender.address_guard import AddressGuard, AddressRefused, Network
from hookfast.sender.sender import Sender
from hookfast.sender.url import check_url
from hookfast.sender.verify import verify_endpoint

__all__ = [
    "AddressGuard",
    "AddressRefused",
    "Network",
    "Sender",
    "check_url",
    "verify_endpoint",
]
