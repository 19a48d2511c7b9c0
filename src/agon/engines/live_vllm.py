"""vLLM token by token: every request joins the one continuous batch as it comes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from agon.engines.live import Piece
from agon.engines.protocol import Request, check_request


class Add(Protocol):
    """Hands a request to vLLM under a name, as `VllmEngine.add` does."""

    def __call__(self, name: str, request: Request, streamed: bool, seeded: bool) -> None: ...


class LiveVllm:
    """The running batch of a `VllmEngine`, a step at a time."""

    def __init__(self, add: Add, core: Any, versions: Mapping[str, int], max_model_len: int) -> None:
        self._add = add
        self._core = core  # vLLM's own
        self._versions = dict(versions)
        self.max_model_len = max_model_len
        # A core in a process of its own takes requests while its last step is waited for here.
        self.submits_anytime = not hasattr(core, "model_executor")
        self._running: set[str] = set()

    def submit(self, requests: Sequence[Request], whole: bool = False, seeded: bool = True) -> None:
        for request in requests:
            check_request(request, self._versions, self.max_model_len)
        for request in requests:
            self._running.add(request.key)  # before its first token can come
            try:
                self._add(request.key, request, streamed=not whole, seeded=seeded)
            except BaseException:
                self._running.discard(request.key)
                raise

    def cancel(self, keys: Collection[str]) -> None:
        gone = self._running & set(keys)
        if gone:
            self._core.abort_request(list(gone))
            self._running -= gone

    def advance(self) -> list[Piece]:
        if not self._running:
            return []
        pieces = []
        for output in self._core.step():
            if output.request_id not in self._running:  # cancelled in this step
                continue
            (completion,) = output.outputs
            reason = completion.finish_reason if output.finished else None
            if reason not in (None, "stop", "length"):
                raise RuntimeError(f"vLLM ended request '{output.request_id}' with '{reason}'.")
            if output.finished:
                self._running.discard(output.request_id)
            pieces.append(Piece(output.request_id, tuple(completion.token_ids), reason))
        return pieces

    @property
    def running(self) -> int:
        return len(self._running)

    def close(self) -> None:
        self.cancel(list(self._running))
