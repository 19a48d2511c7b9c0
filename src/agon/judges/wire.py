"""How the pool and its workers talk: a length, then that many bytes, over a Unix socket.

Requests to a worker are pickles (the pool is trusted by its own workers); replies are JSON, so that
nothing a worker was made to say is ever unpickled here.
"""

import json
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")
LONGEST_REPLY = 1 << 20


class DisconnectedError(Exception):
    """The other end is gone, or said something that is no message."""


def send_request(to: socket.socket, message: object) -> None:
    _send(to, pickle.dumps(message))


def send_reply(to: socket.socket, message: dict[str, Any]) -> None:
    _send(to, json.dumps(message).encode())


def receive_request(source: socket.socket) -> Any:
    return pickle.loads(_exactly(source, _LENGTH.unpack(_exactly(source, _LENGTH.size))[0]))


class ReplyReader:
    """Collects the bytes of one peer; `take` gives each reply once it is whole."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, source: socket.socket) -> None:
        """Read what has arrived; the caller knows that something has."""
        arrived = source.recv(1 << 16)
        if not arrived:
            raise DisconnectedError
        self._bytes += arrived

    def take(self) -> dict[str, Any] | None:
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(self._bytes[: _LENGTH.size])
        if length > LONGEST_REPLY:
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


def _exactly(source: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        arrived = source.recv(min(count - len(parts), 1 << 20))
        if not arrived:
            raise DisconnectedError
        parts += arrived
    return bytes(parts)
