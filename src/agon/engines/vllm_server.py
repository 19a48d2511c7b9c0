"""Sampling on any number of `vllm serve` processes, on this host or others.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --port 8001 --enable-lora --max-loras 3 \\
        --max-lora-rank 16 --logprobs-mode processed_logprobs

Each request goes to the server with the fewest under way. A server answers only after it has been
given every policy's present edition and has listed it; one that fails is left out, what it had under
way is done again elsewhere with the same seed, and it comes back once it is healthy and has been
given the adapters anew. Adapters travel by path: servers on other hosts need `adapter_dir`, a folder
that they and the trainer see under the same name. What it leaves out: starting servers, and several
training processes on one set of servers at a time.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from agon.engines.editions import Edition, Shelf, check_request
from agon.engines.protocol import Capabilities, Finished, Request
from agon.engines.vllm_replica import Answer, Replica, ReplicaError, UnfitError
from agon.errors import InputError
from agon.game.rollout import Rollout
from agon.policies.pair import BASE, Pair

LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class ServerOptions:
    """How servers are spoken to."""

    adapter_dir: str | None = None  # seen by trainer and servers alike; None is this host's memory
    concurrency: int = 256  # requests under way on one server
    timeout_s: float = 3600.0  # for one completion
    control_timeout_s: float = 60.0  # for everything else
    heartbeat_s: float = 1.0  # between looks at a server; doubles while it stays away
    patience_s: float = 300.0  # how long to go on without any server
    attempts: int = 6  # at one request, before it is taken to be at fault itself
    api_key: str | None = None


@dataclass
class _Job:
    """A request, how often it has failed, and where last."""

    number: int
    request: Request
    failures: int = 0
    failed_on: Replica | None = None


class VllmServerEngine:
    """Spreads requests over servers and outlives the loss of all but one."""

    capabilities = Capabilities("vllm-server", streams=True, live_weights=False, logprobs=True)

    def __init__(
        self,
        base_urls: Sequence[str],
        pair: Pair,
        decode: Callable[[Sequence[int]], str],
        stop_ids: Sequence[int],
        options: ServerOptions | None = None,
    ) -> None:
        if not base_urls:
            raise InputError("The vllm-server engine needs the address of at least one server.")
        self._options = options or ServerOptions()
        self._decode = decode
        self._stop_ids = sorted(set(stop_ids))
        settings = (self._options.control_timeout_s, self._options.timeout_s, self._options.api_key)
        self._replicas = [Replica(url, *settings) for url in dict.fromkeys(base_urls)]
        self._shelf = Shelf(pair, self._options.adapter_dir)
        # Everything below, and the state of the replicas, is read and written under this lock.
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._to_do = threading.Condition(lock)  # what idle workers wait for, and nobody else
        self._wanted: dict[str, Edition] = {}
        self._generation = 0  # of `_wanted`
        self._versions: dict[str, int] = {BASE: 0}
        self._base_name: str | None = None
        self._max_model_len = 0
        self._waiting: deque[_Job] = deque()
        self._numbers = count()
        self._pending: dict[int, Request] = {}
        self._finished: list[tuple[_Job, Answer]] = []
        self._failure: Exception | None = None
        self._dark_since: float | None = time.monotonic()  # since when no server is ready
        self._workers = 0
        self._closed = False
        for replica in self._replicas:
            threading.Thread(target=self._keep, args=(replica,), daemon=True).start()
        try:
            self._await_replica()
        except BaseException:
            self.close()
            raise

    def sync(self, policy: str, version: int) -> None:
        if policy == BASE:  # never changes
            self._versions[BASE] = version
            return
        with self._changed:
            under_way = sum(request.policy == policy for request in self._pending.values())
        if under_way:
            raise RuntimeError(f"Policy '{policy}' cannot change while {under_way} of its requests run.")
        edition = self._shelf.publish(policy, version)
        with self._changed:
            if BASE not in self._wanted and BASE in {request.policy for request in self._pending.values()}:
                raise RuntimeError("The first sync cannot happen while requests for the base run.")
            old = self._wanted.get(policy)
            self._wanted[policy] = edition
            if BASE not in self._wanted:
                # Servers keep old editions until a newer one needs the slot, so none stays empty, and
                # vLLM's CPU kernels give a request without adapter the last slot's.
                self._wanted[BASE] = self._shelf.publish_base()
            self._generation += 1
            self._versions[policy] = version
            ready = [replica for replica in self._replicas if replica.ready]
            for replica in ready:
                self._set_ready(replica, False)
            self._changed.notify_all()
            # Those that served before are waited for; the others catch up whenever they come back.
            while any(replica.tried < self._generation for replica in ready):
                self._changed.wait(self._options.heartbeat_s)
                self._check_patience()
        self._await_replica()
        if old is not None:
            self._shelf.withdraw(old)

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            check_request(request, self._versions, self._max_model_len)
        with self._changed:
            jobs = [_Job(next(self._numbers), request) for request in requests]
            self._pending.update({job.number: job.request for job in jobs})
            self._waiting += jobs
            useful = min(len(self._pending), self._options.concurrency * len(self._replicas))
            for _ in range(useful - self._workers):
                threading.Thread(target=self._work, daemon=True).start()
            self._workers = max(self._workers, useful)
            self._to_do.notify(len(jobs))

    def collect(self) -> list[Finished]:
        with self._changed:
            while self._pending and not self._finished:
                self._check_patience()
                self._changed.wait(self._options.heartbeat_s)
            if self._failure:
                raise self._failure
            finished, self._finished = self._finished, []
            for job, _ in finished:
                del self._pending[job.number]
        # Decoded here because a tokenizer belongs to one thread.
        return [Finished(job.request, self._rollout(job.request, answer)) for job, answer in finished]

    def replicas(self) -> dict[str, str]:
        """Every server's address and state: ready, or why it is left out."""
        with self._changed:
            return {
                replica.url: "ready" if replica.ready else str(replica.trouble or "not yet ready")
                for replica in self._replicas
            }

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            ready = [replica for replica in self._replicas if replica.ready]
            self._changed.notify_all()
            self._to_do.notify_all()
        for replica in self._replicas:
            replica.hang_up()
        for replica in ready:
            try:
                for edition in self._wanted.values():
                    replica.unload(edition.name)
            except ReplicaError:
                continue  # it is gone, and its adapters with it
        self._shelf.close()

    # Servers: each has a thread that brings it in, watches it, and brings it back.

    def _keep(self, replica: Replica) -> None:
        while not self._closed:
            try:
                if replica.ready:
                    if replica.outstanding:
                        replica.check_health()
                else:
                    self._settle(replica)
            except ReplicaError as error:
                self._leave_out(replica, error)
                replica.hang_up()
            except Exception as error:  # a fault of ours: the caller must see it
                self._fail(error)
                return
            with self._changed:
                due = time.monotonic() + min(
                    self._options.heartbeat_s * 2 ** min(replica.strikes, 10), LONGEST_PAUSE_S
                )
                while not self._closed and time.monotonic() < due:
                    if not replica.ready and replica.tried < self._generation:
                        break  # there are new adapters to give
                    self._changed.wait(due - time.monotonic())

    def _settle(self, replica: Replica) -> None:
        """Give a server every present edition, see that it lists them, and let it answer."""
        with self._changed:
            generation, wanted = self._generation, dict(self._wanted)
            returning = replica.trouble is not None or replica.tried < 0
        replica.check_health()
        base, max_model_len, loaded = replica.models()
        if returning:
            replica.check_logprobs(base)
        for edition in wanted.values():
            if loaded.get(edition.name) != edition.path:
                replica.load(edition)
        names = {edition.name for edition in wanted.values()}
        for name in loaded:
            if self._shelf.owns(name) and name not in names:
                replica.unload(name)
        *_, loaded = replica.models()
        if missing := names - set(loaded):
            raise ReplicaError(f"was given {', '.join(sorted(missing))} and does not list it")
        with self._changed:
            if self._base_name is None:
                self._base_name, self._max_model_len = base, max_model_len
            if (base, max_model_len) != (self._base_name, self._max_model_len):
                raise UnfitError(
                    f"serves '{base}' with max_model_len {max_model_len}, but the other servers "
                    f"'{self._base_name}' with {self._max_model_len}"
                )
            replica.tried = generation
            if generation == self._generation and not self._closed:
                replica.trouble = None
                self._set_ready(replica, True)

    def _leave_out(self, replica: Replica, error: ReplicaError) -> None:
        with self._changed:
            replica.trouble = error
            replica.strikes += 1
            replica.tried = self._generation
            self._set_ready(replica, False)

    def _set_ready(self, replica: Replica, ready: bool) -> None:
        replica.ready = ready
        if any(other.ready for other in self._replicas):
            self._dark_since = None
        elif self._dark_since is None:
            self._dark_since = time.monotonic()
        self._changed.notify_all()
        if ready:
            self._to_do.notify_all()

    def _await_replica(self) -> None:
        with self._changed:
            while not any(replica.ready for replica in self._replicas):
                self._check_patience()
                self._changed.wait(self._options.heartbeat_s)

    def _check_patience(self) -> None:
        """Raise if there is no hope: a fault of ours, servers set up wrongly, or all gone for long."""
        if self._failure:
            raise self._failure
        if self._dark_since is None:
            return
        unfit = all(isinstance(replica.trouble, UnfitError) for replica in self._replicas)
        if unfit or time.monotonic() - self._dark_since > self._options.patience_s:
            told = "; ".join(f"{url} {state}" for url, state in self.replicas().items())
            raise InputError(
                f"None of {len(self._replicas)} vLLM servers can answer ({told}). Start them as "
                "docs/engines.md says, or give other addresses."
            )

    # Requests: workers take them one by one to the least busy server.

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            replica, job = taken
            try:
                answer = replica.complete(job.request, self._model(job.request), self._stop_ids)
            except ReplicaError as error:
                self._redo(replica, job, error)
            except Exception as error:
                self._fail(error)
                return
            else:
                with self._changed:
                    replica.outstanding -= 1
                    replica.strikes = 0
                    self._finished.append((job, answer))
                    self._changed.notify_all()

    def _take(self) -> tuple[Replica, _Job] | None:
        with self._changed:
            while not self._closed:
                free = [
                    replica
                    for replica in self._replicas
                    if replica.ready and replica.outstanding < self._options.concurrency
                ]
                if free and self._waiting:
                    job = self._waiting.popleft()
                    replica = min(free, key=lambda replica: (replica is job.failed_on, replica.outstanding))
                    replica.outstanding += 1
                    return replica, job
                self._to_do.wait()
        return None

    def _model(self, request: Request) -> str:
        """The name under which servers know the policy that a request is for."""
        with self._changed:
            edition = self._wanted.get(request.policy)
            return edition.name if edition else str(self._base_name)

    def _rollout(self, request: Request, answer: Answer) -> Rollout:
        return Rollout(
            text=self._decode(answer.token_ids),
            length=len(answer.token_ids),
            finish_reason=answer.finish_reason,
            policy=request.policy,
            version=request.version,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
        )

    def _redo(self, replica: Replica, job: _Job, error: ReplicaError) -> None:
        """Put a failed request in front of the queue, for whichever server is there next."""
        job.failures += 1
        job.failed_on = replica
        if job.failures >= self._options.attempts:
            self._fail(
                RuntimeError(
                    f"Request '{job.request.key}' failed {job.failures} times, last on {replica.url}: {error}"
                )
            )
        with self._changed:
            if replica.ready:  # the first to notice; the others that it lets down are no news
                self._leave_out(replica, error)
            replica.outstanding -= 1
            self._waiting.appendleft(job)
            self._to_do.notify()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
