"""Runs a service: binds the address, answers, and drains when it is told to stop.

On SIGTERM or Ctrl-C no new connection is taken, requests under way are answered, and the process ends;
a second one ends it at once.
"""

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn

from agon.errors import InputError
from agon.serve.app import build_app
from agon.serve.service import Service

# The engine's thread and the event loop share the interpreter lock; at Python's 5 ms a token waits as long
# for its turn as it took to sample.
SWITCH_S = 0.001


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InputError(
            f"Cannot listen on {host} port {port} ({error.strerror}): choose another --host or --port."
        ) from error
    return bound


def make_server(service: Service) -> uvicorn.Server:
    """A server for a service; `run(sockets=[...])` serves until it is told to stop."""
    config = uvicorn.Config(
        build_app(service),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=int(service.limits.drain_s),
        server_header=False,
    )
    return uvicorn.Server(config)


def serve(service: Service, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then answer what is under way."""
    sys.setswitchinterval(SWITCH_S)
    server = make_server(service)
    # Once drained, uvicorn raises the signal again for whoever handled it before: nobody has to.
    signal.signal(signal.SIGTERM, lambda *_: None)
    bound.listen()  # whoever comes as soon as the address is said waits for uvicorn, and is not refused
    ready()
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:
        return
