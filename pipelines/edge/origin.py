"""Which machine plain http may go to: this one, by any of its addresses."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
