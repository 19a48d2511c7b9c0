"""Messages between pool, fork server and workers: a length, then that many bytes, over a Unix socket.

Requests are pickles (the pool is trusted by its own workers); replies are JSON, so that nothing that
comes from a worker is ever unpickled in the pool's process.
"""

import json
import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any

from agon.game.problem import Problem

_LENGTH = struct.Struct("!Q")
MAX_REPLY_BYTES = 1 << 20
# An order to the fork server is a number of this many bytes: with a socket attached, fork a worker for
# that socket; without one, kill the worker with that process id.
ORDER_BYTES = 8


@dataclass(frozen=True)
class WorkerSpec:
    """What the fork server needs to make workers: the pickled judge and what a worker may use."""

    judge: bytes
    memory_bytes: int
    verdicts_per_worker: int


@dataclass(frozen=True)
class Request:
    """One answer to judge."""

    problem: Problem
    answer: str


class DisconnectedError(Exception):
    """The other end is gone, or sent something that is no message."""


def send_request(to: socket.socket, message: object) -> None:
    _send(to, pickle.dumps(message))


def send_reply(to: socket.socket, message: dict[str, Any]) -> None:
    _send(to, json.dumps(message).encode())


def receive_request(source: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_receive(source, _LENGTH.size))
    return pickle.loads(_receive(source, length))


class ReplyReader:
    """Collects the bytes of one peer; `take` returns each reply once it is complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, source: socket.socket) -> None:
        """Read what has arrived; call it only when the socket is readable."""
        arrived = source.recv(1 << 16)
        if not arrived:
            raise DisconnectedError
        self._bytes += arrived

    def take(self) -> dict[str, Any] | None:
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(self._bytes[: _LENGTH.size])
        if length > MAX_REPLY_BYTES:
            raise DisconnectedError
        if len(self._bytes) < _LENGTH.size + length:
            return None
        text = bytes(self._bytes[_LENGTH.size : _LENGTH.size + length])
        del self._bytes[: _LENGTH.size + length]
        reply = json.loads(text)
        if not isinstance(reply, dict):
            raise DisconnectedError
        return reply


def _send(to: socket.socket, body: bytes) -> None:
    to.sendall(_LENGTH.pack(len(body)) + body)


def _receive(source: socket.socket, count: int) -> bytes:
    """Exactly this many bytes."""
    received = bytearray()
    while len(received) < count:
        arrived = source.recv(min(count - len(received), 1 << 20))
        if not arrived:
            raise DisconnectedError
        received += arrived
    return bytes(received)
