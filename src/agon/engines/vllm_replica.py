"""One `vllm serve` process over HTTP: its health, its adapters, its completions."""

import http.client
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agon.engines.adapter_store import StoredAdapter
from agon.engines.protocol import Request
from agon.errors import InputError
from agon.game.rollout import FinishReason

SERVE_COMMAND = (
    "vllm serve MODEL --enable-lora --max-loras 3 --max-lora-rank RANK --logprobs-mode processed_logprobs"
)


class ReplicaError(Exception):
    """A server cannot be used for now: it is unreachable, broken, or has lost its adapters."""


class MisconfiguredError(ReplicaError):
    """A server answers but was started with settings that do not work here; waiting will not help."""


@dataclass(frozen=True)
class Answer:
    """A completion as a server returns it."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason


class Replica:
    """A client of one server. Every fault of the server is a ReplicaError, a bad request an InputError."""

    def __init__(self, url: str, control_timeout_s: float, timeout_s: float, api_key: str | None) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"'{url}' is not the address of a server; write it as http://host:port.")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._parts = parts
        # An address may be given with the /v1 that OpenAI clients need.
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._control_timeout_s = control_timeout_s
        self._timeout_s = timeout_s
        self.authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._headers = {"Content-Type": "application/json", "Connection": "close", **self.authorization}
        self._open: set[http.client.HTTPConnection] = set()
        # The engine's view of this server, changed only under the engine's lock.
        self.ready = False
        self.in_flight = 0
        self.failures = 0  # since the last completion
        self.error: ReplicaError | None = None  # why it is not ready
        self.tried_generation = -1  # of the adapters that it was last given, whether it took them or not

    @property
    def completions_url(self) -> str:
        return f"{self.url}{self._prefix}/v1/completions"

    def check_health(self) -> None:
        status, _ = self._call("GET", "/health", timeout_s=self._control_timeout_s)
        if status != 200:
            raise ReplicaError(f"/health answers {status}")

    def models(self) -> tuple[str, int, dict[str, str]]:
        """The base's name and max_model_len, and every adapter by name with the folder it was loaded from."""
        cards = self._json("GET", "/v1/models").get("data", [])
        base = next((card for card in cards if card.get("parent") is None), None)
        if base is None or "max_model_len" not in base:
            raise MisconfiguredError("does not list a model as vLLM does")
        adapters = {card["id"]: card["root"] for card in cards if card.get("parent") is not None}
        return base["id"], base["max_model_len"], adapters

    def load_adapter(self, adapter: StoredAdapter) -> None:
        body = {"lora_name": adapter.name, "lora_path": adapter.path}
        status, text = self._call("POST", "/v1/load_lora_adapter", body, self._control_timeout_s)
        if status == 200:
            return
        message = message_of(text)
        if "has already been loaded" in message:  # by an attempt whose answer was lost
            return
        if status in (404, 405) and adapter.name not in message:
            raise MisconfiguredError(
                f"takes no adapters at run time; start it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True {SERVE_COMMAND}"
            )
        if status == 404:
            raise MisconfiguredError(f"cannot see {adapter.path}; set adapter_dir to a folder that it shares")
        raise MisconfiguredError(f"refuses the adapter {adapter.name}: {message}")

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter. vLLM keeps its weights until a newer adapter needs the slot."""
        self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name}, self._control_timeout_s)

    def check_logprobs(self, base: str) -> None:
        """Check that log-probs are of the distribution a token was drawn from: with top_k 1, exactly 0.

        Several prompts of arbitrary tokens are tried, because equal logits can leave two candidates.
        """
        body = {
            "model": base,
            "prompt": [[*range(first, first + 8)] for first in (3, 11, 19, 27)],
            "max_tokens": 1,
            "temperature": 1.0,
            "top_k": 1,
            "logprobs": 0,
        }
        choices = self._json("POST", "/v1/completions", body)["choices"]
        if not any(choice["logprobs"]["token_logprobs"] == [0.0] for choice in choices):
            raise MisconfiguredError(
                "reports raw log-probs; start it with --logprobs-mode processed_logprobs"
            )

    def complete(self, request: Request, model: str, stop_ids: Sequence[int]) -> Answer:
        """Sample one completion."""
        body = {**completion_body(request, model, stop_ids), "logprobs": 0}
        answer = self._json("POST", "/v1/completions", body, self._timeout_s)
        choice = answer["choices"][0]
        if answer["model"] != model:
            raise ReplicaError(f"was asked for {model} and answered with {answer['model']}")
        if choice["finish_reason"] not in ("stop", "length"):
            raise ReplicaError(f"ended a completion with '{choice['finish_reason']}'")
        if choice.get("token_ids") is None:
            raise MisconfiguredError("does not return token ids; it needs vLLM 0.26 or newer")
        token_ids, logprobs = tuple(choice["token_ids"]), tuple(choice["logprobs"]["token_logprobs"])
        if len(logprobs) != len(token_ids):
            raise ReplicaError(f"returned {len(token_ids)} tokens and {len(logprobs)} log-probs")
        return Answer(token_ids, logprobs, choice["finish_reason"])

    def abort(self) -> None:
        """Close every open connection, so that threads waiting for a hung server continue."""
        for connection in list(self._open):
            sock = connection.sock
            if sock is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the call has just ended by itself

    def _json(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float | None = None
    ) -> dict[str, Any]:
        status, text = self._call(method, path, body, timeout_s or self._control_timeout_s)
        if status == 200:
            try:
                return dict(json.loads(text))
            except (ValueError, TypeError) as error:
                raise MisconfiguredError(f"{path} does not answer as vLLM does: {text[:100]!r}") from error
        if status in (400, 422):
            raise InputError(f"The server {self.url} refuses a request: {message_of(text)}")
        if status == 401:
            raise MisconfiguredError("refuses this api_key")
        raise ReplicaError(f"{path} answers {status}: {message_of(text)}")

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = 60.0
    ) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(str(self._parts.hostname), self._parts.port, timeout=timeout_s)
        self._open.add(connection)
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, self._prefix + path, payload, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ReplicaError(f"{type(error).__name__}: {error}") from error
        finally:
            self._open.discard(connection)
            connection.close()


def completion_body(request: Request, model: str, stop_ids: Sequence[int]) -> dict[str, Any]:
    """What a server is asked for one completion."""
    sampling = request.sampling
    return {
        "model": model,
        "prompt": list(request.prompt_ids),
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": request.seed,
        "stop_token_ids": [] if sampling.ignore_stop else list(stop_ids),
        "ignore_eos": sampling.ignore_stop,
        "return_token_ids": True,
    }


def message_of(text: bytes) -> str:
    """The message in a server's error response, whatever its format."""
    try:
        answer = json.loads(text)
    except ValueError:
        return text.decode(errors="replace")[:500]
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        return str(error.get("message") or error.get("detail") or error)
    return str(error)
