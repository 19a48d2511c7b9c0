"""The page over HTTP, for one person on this machine: reads only, and says no to everything else.

- It listens on loopback unless another address is asked for.
- `Host` must be this machine's, so that a foreign name that resolves to it (DNS rebinding) gets nothing; a request
  that another site's page makes is refused, whatever it asks for.
- What can be asked for is the files of `static` by name, and the questions of `agon.view.api`: no path of a request
  is ever a path on disk.
- The content security policy lets nothing run or load but those files, and no text become markup (Trusted Types).

There is no password: on another address than loopback, whoever reaches the port reads the runs.
"""

import ipaddress
import json
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from agon.errors import InputError
from agon.view.api import QUESTIONS
from agon.view.library import Library

STATIC = Path(__file__).parent / "static"
LONGEST_REQUEST = 8192  # characters of a path with its query
MOST_WORDS = 40
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".woff2": "font/woff2",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@cache
def static_files() -> dict[str, Path]:
    """Every file that may be asked for, by its path in the page."""
    found = {f"/{path.relative_to(STATIC).as_posix()}": path for path in STATIC.rglob("*") if path.is_file()}
    return {"/": STATIC / "index.html"} | {name: path for name, path in found.items() if path.suffix in KINDS}


class Viewer(ThreadingHTTPServer):
    """The server of one library."""

    daemon_threads = True

    def __init__(self, library: Library, host: str, port: int) -> None:
        self.library = library
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"Port {port} of '{host}' cannot be used ({error}): choose another --port."
            ) from error

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}/"

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this machine: loopback, or what the server listens on."""
        name = urlsplit(f"//{host}").hostname or ""
        bound = str(self.server_address[0])
        if name == "localhost" or name == bound:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not _loopback(bound) and name in (socket.gethostname(), socket.getfqdn())
        # An address is what it says; only a name can be pointed at this machine by somebody else.
        return address.is_loopback or not _loopback(bound)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Viewer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "agon", ""
    timeout = 30

    def do_GET(self) -> None:
        refused = self._refused()
        if refused:
            self._send(refused, b"")
            return
        path, _, query = self.path.partition("?")
        if path.startswith("/api/"):
            self._answer(path.removeprefix("/api/"), query)
        elif path in static_files():
            file = static_files()[path]
            self._send(HTTPStatus.OK, file.read_bytes(), KINDS[file.suffix])
        else:
            self._send(HTTPStatus.NOT_FOUND, b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _refused(self) -> HTTPStatus | None:
        if len(self.path) > LONGEST_REQUEST:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        hosts = self.headers.get_all("Host") or [""]
        if len(hosts) != 1 or not self.server.is_ours(hosts[0]):
            return HTTPStatus.MISDIRECTED_REQUEST
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            return HTTPStatus.FORBIDDEN
        site = self.headers.get("Sec-Fetch-Site", "none")
        # A link from elsewhere may open the page itself, and nothing else.
        opened = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.path == "/"
        if site not in ("none", "same-origin") and not opened:
            return HTTPStatus.FORBIDDEN
        return None

    def _answer(self, question: str, query: str) -> None:
        try:
            if question not in QUESTIONS:
                raise InputError(f"There is no question '{question[:40]}'.")
            words = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_WORDS)
            told = QUESTIONS[question](self.server.library, dict(words))
            status = HTTPStatus.OK
        except InputError as error:
            told, status = {"error": str(error)}, HTTPStatus.BAD_REQUEST
        except ValueError as error:  # of parse_qsl: too many words
            told, status = {"error": str(error)}, HTTPStatus.BAD_REQUEST
        except Exception:
            traceback.print_exc(file=sys.stderr)
            told, status = (
                {"error": "The viewer failed; its terminal says how."},
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )
        self._send(status, as_json(told), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        if status >= HTTPStatus.BAD_REQUEST:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The library's own refusals, without a page that repeats what was sent."""
        self._send(HTTPStatus(code), b"")

    def handle(self) -> None:
        with suppress(ConnectionError, TimeoutError):  # the page was closed
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a page that polls would fill a terminal."""


def as_json(told: Mapping[str, Any]) -> bytes:
    """Strict JSON; a number that JSON has no word for becomes null."""
    try:
        return json.dumps(told, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(told), allow_nan=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def first_link(library: Library, source: str, words: Mapping[str, str]) -> str:
    """Where the page opens: the overview, or the list that was asked for."""
    if not words and not source:
        return ""
    run = next(iter(library.runs))
    place = {"run": run, "source": source or next(iter(library.run(run).sources())), **words}
    library.source(run, place["source"])
    return f"#/duels?{urlencode(place)}"
