"""A run folder is data: what it asks for beyond that, and whether the person at the keyboard has said so.

A folder may name code (a task or a judge as `module:object`, `trust_remote_code`), ask to leave the sandbox, to reach
the network or to write outside itself. None of that is inherited by whoever receives the folder. It is granted in the
command that opens it: all of it by `--trust-run-code`, or a part by naming it again (`--judge my.module:judge`).
`docs/security.md` has the whole list.
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agon.embedded import EMBEDDED
from agon.errors import InputError, UntrustedRunError
from agon.judges.registry import JUDGES
from agon.own_parts import parts_in
from agon.runs.folder import Run
from agon.tasks.benchmarks import BENCHMARKS
from agon.tasks.hub import is_hub_id
from agon.tasks.load import code_in

# What `model_init_kwargs` of a folder may hold: these choose among what is there and load no code.
PLAIN_KWARGS = frozenset(("attn_implementation", "dtype", "low_cpu_mem_usage", "revision", "torch_dtype"))
# Integrations that write beside the run and send nothing.
LOCAL_REPORTS = frozenset(("none", "tensorboard"))
# A value that a shell, a terminal and a reader see alike; others are granted by --trust-run-code alone.
PLAIN_WORD = re.compile(r"(?!-)[ -~]{1,200}")


@dataclass(frozen=True)
class Wish:
    """One thing that a run folder asks for: the option it stands in, its value, and what it would do."""

    part: str
    value: Any
    does: str

    def words(self) -> list[str]:
        """The words of a command that grant it."""
        values = self.value if isinstance(self.value, list | tuple) else [self.value]
        written = [_written(value) for value in values]
        if self.part in (LINKS, OPTIONS) or not written or not all(map(PLAIN_WORD.fullmatch, written)):
            return ["--trust-run-code"]
        return [f"--{self.part.replace('_', '-')}", *written]


LINKS, OPTIONS = "links", "options"
# What may be another when a run goes on: where it is watched from, and what it takes of the memory.
MAY_CHANGE = frozenset(
    (
        *("report_to", "engine_rows", "gradient_checkpointing", "vllm_kv_cache_bytes"),
        *("vllm_gpu_memory_utilization", "vllm_max_model_length"),
    )
)
# What else `agon train --resume RUN` may name again.
GRANTED_PARTS = MAY_CHANGE | {
    *("model", "task", "judge", "sandbox", "trust_remote_code", "model_init_kwargs", "adapter_dir"),
    *("method", "dialect", "prompts", "draft_reward", "challenge_reward"),
    *("vllm_servers", "vllm_server_base_url", "vllm_server_host", "deepspeed", "log_completions_hub_repo"),
}

# What `agon eval RUN` may name again.
EVALUATED_PARTS = frozenset(("model", "task", "judge", "sandbox", "trust_remote_code", "vllm_servers"))


@dataclass(frozen=True)
class Trust:
    """What a person has granted a folder in this command: everything, or parts that were named again."""

    folder: str = ""
    everything: bool = False
    named: Mapping[str, Any] = field(default_factory=dict)
    nameable: frozenset[str] = GRANTED_PARTS  # the parts that this command has an option for

    def allows(self, wish: Wish) -> bool:
        if self.everything:
            return True
        named = self.named.get(wish.part)
        if isinstance(named, list | tuple):
            return wish.value in named or list(named) == wish.value
        return named is not None and bool(named == wish.value)

    def refuse(self, wishes: Iterable[Wish]) -> None:
        """Raise one sentence that names every wish which was not granted, with the words that would."""
        left = [wish for wish in wishes if not self.allows(wish)]
        if not left:
            return
        words = [word for wish in left for word in wish.words()]
        if "--trust-run-code" in words or not {wish.part for wish in left} <= self.nameable:
            words = ["--trust-run-code"]
        raise UntrustedRunError(
            f"A run folder is data, and '{self.folder}' wants to {' and to '.join(wish.does for wish in left)}",
            tuple(words),
        )

    @contextmanager
    def without_network(self, wishes: Iterable[Wish]) -> Iterator[None]:
        """Take what a folder names from this machine alone, unless the person named it too."""
        left = [wish for wish in wishes if not self.allows(wish)]
        if not left:
            yield
            return
        with _offline() as was_offline:
            try:
                yield
            except InputError as error:
                if was_offline or isinstance(error, UntrustedRunError) or not _for_want_of_network(error):
                    raise
                self.refuse(left)


def all_or_nothing(folder: str, everything: bool) -> Trust:
    """For commands that name no part again: only `--trust-run-code` grants anything."""
    return Trust(folder, everything, nameable=frozenset())


NOTHING = Trust()
EVERYTHING = Trust(everything=True)


def judge_wishes(judge: str, sandbox: str) -> Iterator[Wish]:
    """What judging with these settings asks for."""
    if judge not in JUDGES:
        yield Wish("judge", judge, f"import and run the judge '{judge}'")
    if sandbox != "bubblewrap":
        yield Wish("sandbox", sandbox, f"run programs with the sandbox '{sandbox}'")


def part_wishes(options: Mapping[str, Any]) -> Iterator[Wish]:
    """What the parts of somebody's own ask for, task and judge apart."""
    for option, spec in parts_in(options):
        if option not in ("task", "judge"):
            yield Wish(option, options[option], f"import and run '{spec}' as its {option}")


def task_wishes(name: str, options: Mapping[str, Any] | None = None) -> Iterator[Wish]:
    """What loading a task by this name asks for."""
    code = code_in(name, options or {})
    if code:
        # An option that only the records have is not granted by the task's name.
        part = "task" if code_in(name, {}) else OPTIONS
        yield Wish(part, name, f"import and run '{code}' for its task")


def task_network(name: str, path: str | None) -> Iterator[Wish]:
    """What a task asks of the network."""
    where = name.split(",")[0].strip()
    if path is None and (where in BENCHMARKS or is_hub_id(where)):
        yield Wish("task", name, f"fetch the task '{name}' from the Hub")


def model_wishes(trust_remote_code: bool, model_init_kwargs: Mapping[str, Any]) -> Iterator[Wish]:
    """What loading a model with these settings asks for."""
    if trust_remote_code:
        yield Wish("trust_remote_code", True, "run the code that comes with its model (trust_remote_code)")
    odd = {
        name: value
        for name, value in model_init_kwargs.items()
        if name not in PLAIN_KWARGS or (isinstance(value, str) and "/" in value)  # a kernel of the Hub
    }
    if odd:
        yield Wish("model_init_kwargs", dict(model_init_kwargs), f"load its model with {', '.join(odd)}")


def model_network(model: str) -> Iterator[Wish]:
    """What a model asks of the network."""
    if model != EMBEDDED and not Path(os.path.expanduser(model)).is_dir():
        yield Wish("model", model, f"fetch the model '{model}' from the Hub")


def server_wishes(servers: Iterable[str]) -> Iterator[Wish]:
    """What sampling from servers asks for."""
    named = list(servers)
    if named:
        yield Wish("vllm_servers", named, f"send its prompts to {', '.join(named)}")


def resume_wishes(options: Mapping[str, Any]) -> Iterator[Wish]:
    """What going on with a configuration asks for, the network for its model and data apart."""
    yield from task_wishes(str(options["task"]))
    yield from judge_wishes(str(options.get("judge") or "math"), str(options.get("sandbox") or "bubblewrap"))
    yield from model_wishes(bool(options.get("trust_remote_code")), options.get("model_init_kwargs") or {})
    yield from _servers_of(options)
    reports = options.get("report_to") or []
    named = [reports] if isinstance(reports, str) else list(reports)
    if set(named) - LOCAL_REPORTS:
        yield Wish("report_to", named, f"report to {', '.join(map(str, named))}")
    if options.get("adapter_dir"):
        yield Wish("adapter_dir", options["adapter_dir"], f"write adapters into '{options['adapter_dir']}'")
    if options.get("deepspeed"):
        yield Wish("deepspeed", options["deepspeed"], "run under its DeepSpeed configuration")
    for name in ("log_completions_hub_repo", "push_to_hub"):
        if options.get(name):
            yield Wish(name, options[name], f"send what it writes to the Hub ({name})")


def network_wishes(options: Mapping[str, Any]) -> list[Wish]:
    """What going on with a configuration asks of the Hub."""
    return [
        *model_network(str(options["model"])),
        *task_network(str(options["task"]), options.get("task_path")),
    ]


def _servers_of(options: Mapping[str, Any]) -> Iterator[Wish]:
    served = options.get("use_vllm") and options.get("vllm_mode") == "server"
    if options.get("engine") != "vllm-server" and not served:
        return
    if options.get("vllm_servers"):
        yield from server_wishes(options["vllm_servers"])
        return
    address = options.get("vllm_server_base_url")
    if address:
        yield Wish("vllm_server_base_url", address, f"send its prompts to {address}")
    else:
        host = options.get("vllm_server_host") or "0.0.0.0"
        yield Wish("vllm_server_host", host, f"send its prompts to a server on {host}")


def folder_wishes(folder: Path) -> Iterator[Wish]:
    """Links that lead out of a run's folder, which would be read and written through, and odd files."""
    root = folder.resolve()
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place) / name
            kind = path.lstat().st_mode
            leads = Path(os.path.realpath(path))  # not Path.resolve, which raises on a link to itself
            if stat.S_ISLNK(kind) and not leads.is_relative_to(root):
                shown = path.relative_to(root)
                yield Wish(LINKS, str(shown), f"read and write '{leads}' by its link '{shown}'")
            elif leads.is_symlink() or not (stat.S_ISLNK(kind) or stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
                yield Wish(LINKS, str(path), f"open '{path.relative_to(root)}', which is no plain file")


def refuse_links(run: Run, checkpoint: Path | None) -> None:
    """Refuse to go on from a checkpoint of a folder with links that lead out of it; None is the newest one."""
    if checkpoint is None and not run.newest_step():
        return  # nothing will be read
    folders = [run.folder, *([checkpoint] if checkpoint else [])]
    for folder in folders:
        all_or_nothing(str(folder), everything=False).refuse(folder_wishes(folder))


@contextmanager
def _offline() -> Iterator[bool]:
    """No library of the Hub, and no process started here, reaches the network; whether that was so before."""
    import datasets.config
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    switches = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
    kept = {name: os.environ.get(name) for name in switches}
    modules: tuple[Any, ...] = (constants, datasets.config)
    values = [module.HF_HUB_OFFLINE for module in modules]
    os.environ.update(dict.fromkeys(switches, "1"))
    for module in modules:
        module.HF_HUB_OFFLINE = True
    try:
        yield before
    finally:
        for module, value in zip(modules, values, strict=True):
            module.HF_HUB_OFFLINE = value
        for name, old in kept.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old


def _for_want_of_network(error: BaseException) -> bool:
    """Whether something was looked for on the Hub and the Hub could not be asked."""
    names = {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "OfflineModeIsEnabledError"}
    seen: BaseException | None = error
    while seen is not None:
        text = str(seen)
        if type(seen).__name__ in names or isinstance(seen, ConnectionError):
            return True
        if "couldn't connect" in text or "offline mode" in text.lower():
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, default=str)
