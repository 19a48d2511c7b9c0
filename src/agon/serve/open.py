"""From a run's folder to a service: base, adapters and engine, the direction that validation chose."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from agon.engines.build import ENGINES
from agon.engines.live import live_engine
from agon.errors import InputError, unknown
from agon.evaluate.load import EngineChoice, LoadedTarget, load_target
from agon.evaluate.request import is_address
from agon.evaluate.target import Target, open_target
from agon.evaluate.vllm_budget import VllmBudget
from agon.game.problem import Domain
from agon.runs.trust import all_or_nothing
from agon.serve.cascade import Cascade
from agon.serve.core_process import core_in_own_process
from agon.serve.driver import Driver
from agon.serve.limits import Limits
from agon.serve.metrics import Metrics
from agon.serve.routes import Direction, chosen_direction, routes
from agon.serve.sampling import Sampler
from agon.serve.service import Service
from agon.serve.stages import Stages


@dataclass(frozen=True)
class ServeOptions:
    """How a run is served; the defaults are those of `agon serve`."""

    engine: str = "transformers"
    rows: int = 256
    vllm_servers: Sequence[str] = ()
    vllm_kv_cache_bytes: int | None = None
    max_model_len: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    direction: str | None = None
    api_key: str | None = None
    log_prompts: bool = False
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Refuse what is wrong before anything is loaded."""
        if self.engine not in ENGINES:
            raise unknown("engine", self.engine, ENGINES)
        if self.vllm_servers and self.engine != "vllm-server":
            raise InputError(f"--vllm-servers is for --engine vllm-server, not '{self.engine}'.")
        for address in self.vllm_servers:
            if not is_address(address):
                raise InputError(
                    f"--vllm-servers must be addresses such as http://localhost:8001, not '{address}'."
                )
        if self.api_key is not None and (not self.api_key.strip() or not self.api_key.isascii()):
            raise InputError("--api-key must be a text of plain characters, not empty.")


@dataclass(frozen=True)
class Opened:
    """A service, the run behind it, and how its direction was chosen."""

    service: Service
    loaded: LoadedTarget
    direction: Direction


@contextmanager
def open_service(where: str, options: ServeOptions, trust_run_code: bool = False) -> Iterator[Opened]:
    """Load a run and serve it until the block ends."""
    options.check()
    trust = all_or_nothing(where, trust_run_code)
    if options.vllm_servers:
        trust = replace(trust, named={"vllm_servers": list(options.vllm_servers)})
    target = open_target(where, trust)
    target.refuse_untrusted((), options.engine)
    direction = _direction(target, options.direction)
    sampling = target.sampling(options.temperature, options.top_p, options.max_tokens)
    budget = VllmBudget(sampling.max_tokens, options.vllm_kv_cache_bytes, options.max_model_len)
    # On a GPU, tokens leave the engine in eights: handling each one by itself takes as long as sampling it.
    extra = {"stream_interval": 8} if options.engine == "vllm" and torch.cuda.is_available() else {}
    choice = EngineChoice(options.engine, budget, options.rows, options.vllm_servers, extra)
    metrics = Metrics()
    with ExitStack() as stack:
        with core_in_own_process(stack) if options.engine == "vllm" else nullcontext():
            loaded = stack.enter_context(load_target(target, choice))
        sampler = _sampler(loaded, metrics)
        try:
            stages = Stages(loaded.chat, target.settings.summary_limit)
            cascade = Cascade(stages, sampler, target.versions, metrics.stage)
            service = Service(
                cascade=cascade,
                routes=routes(target.policies, direction.name),
                sampling=sampling,
                fingerprint=_fingerprint(loaded),
                domain=problem_domain(target),
                limits=options.limits,
                metrics=metrics,
                api_key=options.api_key,
                log_prompts=options.log_prompts,
            )
            yield Opened(service, loaded, direction)
        finally:
            sampler.close()


def _direction(target: Target, wanted: str | None) -> Direction:
    chosen = chosen_direction(target)
    if wanted is None:
        return chosen
    names = {route.name for route in routes(target.policies, chosen.name).values() if route.drafter}
    if wanted not in names:
        raise unknown("direction", wanted, names)
    return Direction(wanted, "nothing: the direction was given")


def _sampler(loaded: LoadedTarget, metrics: Metrics) -> Sampler:
    """What samples for the cascade: servers over HTTP, or the engine of this process in a thread."""
    if loaded.engine.capabilities.name == "vllm-server":
        from agon.serve.replicas import Replicas

        engine: Any = loaded.engine
        return Replicas(engine, loaded.target.versions, on_retry=metrics.retried)
    limit = getattr(loaded.engine, "max_model_len", None) or _positions(loaded)
    return Driver(live_engine(loaded.engine), limit)


def _positions(loaded: LoadedTarget) -> int | None:
    """Tokens that the base can read, if it says so."""
    config = loaded.pair.model.get_base_model().config
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    return positions if isinstance(positions, int) else None


def problem_domain(target: Target) -> Domain:
    """Whether problems ask for a program, as those of the run's own task did."""
    judge = target.settings.judge or target.task.get("judge")
    return "code" if judge == "code" else "math"


def _fingerprint(loaded: LoadedTarget) -> str:
    """What identifies the adapters and the prompts that answer, for `system_fingerprint`."""
    parts = [loaded.prompts(), *(loaded.pair.fingerprint(name) for name in loaded.target.policies)]
    return f"agon_{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:12]}"
