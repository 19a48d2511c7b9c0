"""Sampling on any number of `vllm serve` processes, on this host or others.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --port 8001 --enable-lora --max-loras 3 \\
        --max-lora-rank 16 --logprobs-mode processed_logprobs

Each request goes to the server with the fewest requests in flight. A server is used only after it has
loaded the current adapter of every policy and lists it. One that fails is excluded: its requests are
retried elsewhere with the same seed, and it is used again once it is healthy and has loaded the
adapters again. Adapters are passed by path: servers on other hosts need `adapter_dir`, a folder that
they and the trainer see under the same path. Several training processes share one set of servers: the
main one has each version loaded, and the others wait for it (`shared`). What it leaves out: starting
servers.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from agon.engines.adapter_store import AdapterStore, StoredAdapter
from agon.engines.options import ServerOptions
from agon.engines.peers import from_main, rank, wait_for_all
from agon.engines.protocol import Capabilities, Finished, Request, check_request
from agon.engines.vllm_replica import Answer, MisconfiguredError, Replica, ReplicaError
from agon.errors import InputError
from agon.game.rollout import Rollout
from agon.policies.pair import BASE, Pair

LONGEST_PAUSE_S = 30.0


@dataclass
class _Job:
    """A request, how often it has failed, and where last."""

    number: int
    request: Request
    failures: int = 0
    failed_on: Replica | None = None


class VllmServerEngine:
    """Spreads requests over servers and continues as long as one of them works."""

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
        self._main = not self._options.shared or rank() == 0
        urls = list(dict.fromkeys(base_urls))
        # Each process begins with another server, so that what is left over when each has spread its own
        # requests evenly does not all go to the first.
        first = rank() % len(urls) if self._options.shared else 0
        self._replicas = [Replica(url, *settings) for url in (*urls[first:], *urls[:first])]
        self._store = AdapterStore(pair, self._options.adapter_dir)
        # Everything below, and the state of the replicas, is read and written under this lock.
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._job_available = threading.Condition(lock)  # only idle workers wait for it
        self._adapters: dict[str, StoredAdapter] = {}  # what every server must have loaded
        self._old: list[StoredAdapter] = []  # no longer needed, and still in the store
        self._generation = 0  # of `_adapters`
        self._versions: dict[str, int] = {BASE: 0}
        self._base_name: str | None = None
        self._max_model_len = 0
        self._queue: deque[_Job] = deque()
        self._numbers = count()
        self._pending: dict[int, Request] = {}
        self._finished: list[tuple[_Job, Answer]] = []
        self._failure: Exception | None = None
        self._unavailable_since: float | None = time.monotonic()  # None while any server is ready
        self._workers = 0
        self._closed = False
        self._interrupted = False
        for replica in self._replicas:
            threading.Thread(target=self._watch, args=(replica,), daemon=True).start()
        try:
            self._wait_until_available()
        except BaseException:
            self.close()
            raise

    def sync(self, policy: str, version: int) -> None:
        if policy == BASE:  # never changes
            self._versions[BASE] = version
            return
        with self._changed:
            in_flight = sum(request.policy == policy for request in self._pending.values())
        if in_flight:
            raise RuntimeError(f"Policy '{policy}' cannot change while {in_flight} of its requests run.")
        if not self._options.shared:
            self._publish(policy, version)
            return
        wait_for_all()  # nobody samples from the version before any more
        adapters = from_main(lambda: self._publish(policy, version, keep_old=True))
        if not self._main:
            self._use(adapters, policy, version)
        wait_for_all()
        if self._main:
            self._remove_old()

    def _publish(self, policy: str, version: int, keep_old: bool = False) -> dict[str, StoredAdapter]:
        """Write a policy's weights and have the servers load them; all adapters that they must have then."""
        adapter = self._store.publish(policy, version)
        with self._changed:
            if BASE not in self._adapters and BASE in {request.policy for request in self._pending.values()}:
                raise RuntimeError("The first sync cannot happen while requests for the base run.")
            adapters = {**self._adapters, policy: adapter}
            if policy in self._adapters:
                self._old.append(self._adapters[policy])
        if BASE not in adapters:
            # Servers keep an old adapter until a newer one needs its slot, so no slot stays empty, and
            # vLLM's CPU kernels would give a request without an adapter the one in the last slot.
            adapters[BASE] = self._store.publish_base()
        self._use(adapters, policy, version)
        if not keep_old:
            self._remove_old()
        return adapters

    def _use(self, adapters: dict[str, StoredAdapter], policy: str, version: int) -> None:
        """Wait until the servers that were in use have these adapters; the others load them when they return."""
        with self._changed:
            self._adapters = dict(adapters)
            self._generation += 1
            self._versions[policy] = version
            ready = [replica for replica in self._replicas if replica.ready]
            for replica in ready:
                self._set_ready(replica, False)
            self._changed.notify_all()
            while any(replica.tried_generation < self._generation for replica in ready):
                self._changed.wait(self._options.heartbeat_s)
                self._raise_if_hopeless()
        self._wait_until_available()

    def _remove_old(self) -> None:
        while self._old:
            self._store.remove(self._old.pop())

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            check_request(request, self._versions, self._max_model_len)
        with self._changed:
            jobs = [_Job(next(self._numbers), request) for request in requests]
            self._pending.update({job.number: job.request for job in jobs})
            self._queue += jobs
            useful = min(len(self._pending), self._options.concurrency * len(self._replicas))
            for _ in range(useful - self._workers):
                threading.Thread(target=self._work, daemon=True).start()
            self._workers = max(self._workers, useful)
            self._job_available.notify(len(jobs))

    def collect(self) -> list[Finished]:
        with self._changed:
            while self._pending and not self._finished and not self._interrupted:
                self._raise_if_hopeless()
                self._changed.wait(self._options.heartbeat_s)
            if self._failure:
                raise self._failure
            finished, self._finished = self._finished, []
            for job, _ in finished:
                del self._pending[job.number]
        # Decoded here because a tokenizer must be used by one thread only.
        return [Finished(job.request, self._rollout(job.request, answer)) for job, answer in finished]

    def replicas(self) -> dict[str, str]:
        """Every server's address and state: ready, or why it is excluded."""
        with self._changed:
            return {
                replica.url: "ready" if replica.ready else str(replica.error or "not yet ready")
                for replica in self._replicas
            }

    # For a caller that talks to the servers itself, as serving does: it borrows one for each request.

    @property
    def max_model_len(self) -> int:
        return self._max_model_len

    @property
    def stop_ids(self) -> list[int]:
        return self._stop_ids

    def lease(self, avoid: Replica | None = None) -> Replica | None:
        """The server with the fewest requests in flight, to be given back; None if none is ready."""
        with self._changed:
            free = [replica for replica in self._replicas if replica.ready]
            if not free:
                return None
            replica = min(free, key=lambda replica: (replica is avoid, replica.in_flight))
            replica.in_flight += 1
            return replica

    def give_back(self, replica: Replica, error: ReplicaError | None = None) -> None:
        """The end of a lease; after an error the server is excluded until it has been brought up again."""
        with self._changed:
            replica.in_flight -= 1
            if error is None:
                replica.failures = 0
            elif replica.ready:
                self._exclude(replica, error)

    def model_name(self, policy: str) -> str:
        """The name under which servers know a policy."""
        with self._changed:
            adapter = self._adapters.get(policy)
            return adapter.name if adapter else str(self._base_name)

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def interrupt(self) -> None:
        """End a `collect` that waits in another thread."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def recover(self, error: Exception | None) -> None:
        """Forget every request, those under way too; servers that failed are brought up as always."""
        with self._changed:
            self._interrupted = False
            self._queue.clear()
            self._pending.clear()
            self._finished.clear()
            self._failure = None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._queue.clear()
            # The main process ends last and unloads what all have used.
            ready = [replica for replica in self._replicas if replica.ready and self._main]
            self._changed.notify_all()
            self._job_available.notify_all()
        for replica in self._replicas:
            replica.abort()
        for replica in ready:
            try:
                for adapter in self._adapters.values():
                    replica.unload_adapter(adapter.name)
            except ReplicaError:
                continue  # the server is gone, and its adapters with it
        self._store.close()

    # Servers: each has a thread that brings it up, watches it, and brings it up again after a failure.

    def _watch(self, replica: Replica) -> None:
        while not self._closed:
            try:
                if replica.ready:
                    if replica.in_flight:
                        replica.check_health()
                else:
                    self._bring_up(replica)
            except ReplicaError as error:
                self._exclude(replica, error)
                replica.abort()
            except Exception as error:  # a fault of ours: the caller must see it
                self._fail(error)
                return
            with self._changed:
                due = time.monotonic() + min(
                    self._options.heartbeat_s * 2 ** min(replica.failures, 10), LONGEST_PAUSE_S
                )
                while not self._closed and time.monotonic() < due:
                    if not replica.ready and replica.tried_generation < self._generation:
                        break  # there are new adapters to load
                    self._changed.wait(due - time.monotonic())

    def _bring_up(self, replica: Replica) -> None:
        """Have a server load every current adapter, check that it lists them, and mark it ready."""
        with self._changed:
            generation, wanted = self._generation, dict(self._adapters)
            new_or_failed = replica.error is not None or replica.tried_generation < 0
        replica.check_health()
        base, max_model_len, loaded = replica.models()
        if new_or_failed:
            replica.check_logprobs(base)
        for adapter in wanted.values():
            if loaded.get(adapter.name) != adapter.path:
                replica.load_adapter(adapter)
        names = {adapter.name for adapter in wanted.values()}
        for name in loaded:
            if self._store.owns(name) and name not in names:
                replica.unload_adapter(name)
        *_, loaded = replica.models()
        if missing := names - set(loaded):
            raise ReplicaError(f"was given {', '.join(sorted(missing))} and does not list it")
        with self._changed:
            if self._base_name is None:
                self._base_name, self._max_model_len = base, max_model_len
            if (base, max_model_len) != (self._base_name, self._max_model_len):
                raise MisconfiguredError(
                    f"serves '{base}' with max_model_len {max_model_len}, but the other servers "
                    f"'{self._base_name}' with {self._max_model_len}"
                )
            replica.tried_generation = generation
            if generation == self._generation and not self._closed:
                replica.error = None
                self._set_ready(replica, True)

    def _exclude(self, replica: Replica, error: ReplicaError) -> None:
        with self._changed:
            replica.error = error
            replica.failures += 1
            replica.tried_generation = self._generation
            self._set_ready(replica, False)

    def _set_ready(self, replica: Replica, ready: bool) -> None:
        replica.ready = ready
        if any(other.ready for other in self._replicas):
            self._unavailable_since = None
        elif self._unavailable_since is None:
            self._unavailable_since = time.monotonic()
        self._changed.notify_all()
        if ready:
            self._job_available.notify_all()

    def _wait_until_available(self) -> None:
        with self._changed:
            while not any(replica.ready for replica in self._replicas):
                self._raise_if_hopeless()
                self._changed.wait(self._options.heartbeat_s)

    def _raise_if_hopeless(self) -> None:
        """Raise if waiting cannot help: a fault of ours, all servers misconfigured, or all gone for too long."""
        if self._failure:
            raise self._failure
        if self._unavailable_since is None:
            return
        misconfigured = all(isinstance(replica.error, MisconfiguredError) for replica in self._replicas)
        if misconfigured or time.monotonic() - self._unavailable_since > self._options.patience_s:
            states = "; ".join(f"{url} {state}" for url, state in self.replicas().items())
            raise InputError(
                f"None of {len(self._replicas)} vLLM servers can answer ({states}). Start them as "
                "docs/engines.md says, or give other addresses."
            )

    # Requests: each worker takes one at a time to the least busy server.

    def _work(self) -> None:
        while (taken := self._next_job()) is not None:
            replica, job = taken
            try:
                answer = replica.complete(job.request, self.model_name(job.request.policy), self._stop_ids)
            except ReplicaError as error:
                self._retry(replica, job, error)
            except Exception as error:
                self._fail(error)
                with self._changed:
                    replica.in_flight -= 1
                    self._workers -= 1
                return
            else:
                with self._changed:
                    replica.in_flight -= 1
                    replica.failures = 0
                    if job.number in self._pending:  # else its round was given up
                        self._finished.append((job, answer))
                    self._changed.notify_all()

    def _next_job(self) -> tuple[Replica, _Job] | None:
        with self._changed:
            while not self._closed:
                free = [
                    replica
                    for replica in self._replicas
                    if replica.ready and replica.in_flight < self._options.concurrency
                ]
                if free and self._queue:
                    job = self._queue.popleft()
                    replica = min(free, key=lambda replica: (replica is job.failed_on, replica.in_flight))
                    replica.in_flight += 1
                    return replica, job
                self._job_available.wait()
        return None

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

    def _retry(self, replica: Replica, job: _Job, error: ReplicaError) -> None:
        """Put a failed request at the front of the queue, for the next server that is free."""
        job.failures += 1
        job.failed_on = replica
        if job.failures >= self._options.attempts and job.number in self._pending:
            self._fail(
                RuntimeError(
                    f"Request '{job.request.key}' failed {job.failures} times, last on {replica.url}: {error}"
                )
            )
        with self._changed:
            if replica.ready:  # the first failure excludes the server; the others on it add nothing
                self._exclude(replica, error)
            replica.in_flight -= 1
            if job.number in self._pending:  # else its round was given up
                self._queue.appendleft(job)
            self._job_available.notify()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
