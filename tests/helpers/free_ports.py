"""Ports of this machine that nobody listens on."""

import socket


def free_ports(count: int) -> list[int]:
    """So many ports; another process may take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
