"""Addresses: gRPC itself takes port 99999 for 34463, and no port for 443."""

from __future__ import annotations

import re

from kaldi_punct.errors import ConfigError

_MAX_PORT = 65535
_HOST_PORT = re.compile(r".+:([0-9]{1,5})")


def check_address(option: str, address: str) -> str:
    """The address, if it is HOST:PORT (or one of gRPC's own, ``unix:PATH`` and ``SCHEME://...``).

    Args:
        option: what the address was given as, for the error.
        address: as the user wrote it.

    Raises:
        ConfigError: no port, or one that cannot be.
    """
    if address.startswith("unix:") or "://" in address:
        return address
    found = _HOST_PORT.fullmatch(address)
    if found is None or int(found.group(1)) > _MAX_PORT:
        raise ConfigError(
            f"{option}: expected HOST:PORT with a port up to {_MAX_PORT}, got {address!r}; e.g. localhost:50051"
        )
    return address
