"""Every refusal and failure in OpenAI's shape: {"error": {"message", "type", "param", "code"}}."""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """An answer that is an error. The message is for the client and never holds a traceback."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def bad_request(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, param=param, code=code)


def unknown_model(name: str, known: list[str]) -> ApiError:
    return ApiError(
        404,
        f"The model '{name[:100]}' does not exist; this server has {', '.join(known)}.",
        param="model",
        code="model_not_found",
    )


def too_long(limit: int, found: str) -> ApiError:
    # It begins as OpenAI's does: by these words LiteLLM tells it from other wrong requests.
    return ApiError(
        400,
        f"This model's maximum context length is {limit} tokens here, but the prompt has {found}.",
        param="messages",
        code="context_length_exceeded",
    )


def wrong_key() -> ApiError:
    # It begins as OpenAI's does: by these words LiteLLM tells it from a request that is wrong.
    return ApiError(
        401,
        "Incorrect API key provided, or none: send the one that this server was started with, as "
        "`Authorization: Bearer KEY`.",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def too_large(limit: int) -> ApiError:
    return ApiError(413, f"A request may have {limit} bytes.", code="request_too_large")


def overloaded(retry_after_s: int) -> ApiError:
    return ApiError(
        429,
        f"Too many requests are being answered; try again in {retry_after_s} s.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(retry_after_s)},
    )


def timed_out(seconds: float) -> ApiError:
    return ApiError(504, f"The answer took longer than {seconds:g} s.", kind="server_error", code="timeout")


def unavailable(message: str) -> ApiError:
    return ApiError(
        503, message, kind="server_error", code="service_unavailable", headers={"Retry-After": "5"}
    )


def failed() -> ApiError:
    return ApiError(
        500,
        "This server failed; its log says how.",
        kind="server_error",
        code="internal_error",
    )
