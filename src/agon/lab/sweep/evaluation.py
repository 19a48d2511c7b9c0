"""What is evaluated of every cell of a sweep, and of the untrained model, and how."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agon.errors import InputError, unknown
from agon.evaluate.request import OWN_TASK, EvaluationRequest

KEYS = ("tasks", "transfer", "splits", "samples", "options")
SPLITS = ("validation", "test")
# The options of `agon eval` that a sweep may give, and what each is written as.
OPTIONS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("limit", "max_tokens", "rows", "max_model_len", "vllm_kv_cache_bytes", "seed"), (int,)),
    **dict.fromkeys(("temperature", "top_p"), (int, float)),
    **dict.fromkeys(("engine", "direction", "judge", "sandbox", "path"), (str,)),
    "vllm_servers": (list,),
}


@dataclass(frozen=True)
class Evaluation:
    """Splits in their order; on test, `transfer` with one sample a problem beside `tasks` with `samples`.

    Of the tasks, `own` is the one that a run was trained on. No split: nothing is evaluated.
    """

    splits: tuple[str, ...] = ("test",)
    tasks: tuple[str, ...] = (OWN_TASK,)
    transfer: tuple[str, ...] = ()
    samples: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def words(self) -> Iterator[str]:
        """The options of `agon eval`, as they are typed."""
        for name, value in self.options.items():
            values = value if isinstance(value, list) else [value]
            yield from (f"--{name.replace('_', '-')}", *map(str, values))


def read_evaluation(written: Any, where: str) -> Evaluation:
    """What a sweep file says of evaluating; `no` is nothing at all."""
    if written is False:
        return Evaluation(splits=())
    if written is None or written is True:
        return Evaluation()
    if not isinstance(written, dict):
        raise InputError(f"{where} must be yes, no or a mapping with {', '.join(KEYS)}; not {written!r}.")
    for key in written:
        if key not in KEYS:
            raise unknown(f"key of {where}:", str(key), KEYS)
    made = Evaluation(
        splits=_names(written.get("splits", ["test"]), f"splits of {where}"),
        tasks=_names(written.get("tasks", [OWN_TASK]), f"tasks of {where}") or (OWN_TASK,),
        transfer=_names(written.get("transfer", []), f"transfer of {where}"),
        samples=written.get("samples", 1),
        options=_options(written.get("options", {}), where),
    )
    for split in made.splits:
        if split not in SPLITS:
            raise unknown(f"split of {where}:", split, SPLITS)
    if type(made.samples) is not int or made.samples < 1:
        raise InputError(f"samples of {where} must be a whole number of at least 1, not {made.samples!r}.")
    if made.transfer and "test" not in made.splits:
        raise InputError(f"transfer of {where} is played with the split test, which is not among the splits.")
    _try(made, where)
    return made


def _try(made: Evaluation, where: str) -> None:
    """The checks that `agon eval` makes, but for packages: the cells may run elsewhere."""
    named = {name: value for name, value in made.options.items() if name != "engine"}
    if made.options.get("engine") != "vllm":
        named |= {name: value for name, value in made.options.items() if name == "engine"}
    try:
        EvaluationRequest(**named).check()
    except InputError as error:
        raise InputError(f"In {where}: {error}") from error


def _options(written: Any, where: str) -> dict[str, Any]:
    if not isinstance(written, dict):
        raise InputError(f"options of {where} must be a mapping of options of `agon eval`, not {written!r}.")
    for name, value in written.items():
        if name not in OPTIONS:
            raise unknown(f"option of {where}:", str(name), OPTIONS)
        kinds = OPTIONS[name]
        if isinstance(value, bool) or not isinstance(value, kinds):
            kind = {int: "a whole number", str: "a text", list: "a list"}.get(kinds[0], "a number")
            wanted = "a number" if float in kinds else kind
            raise InputError(f"{name} of {where} must be {wanted}, not {value!r}.")
    return dict(written)


def _names(written: Any, what: str) -> tuple[str, ...]:
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError(f"{what} must be a name or a list of names, not {written!r}.")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{what} names '{name}' twice.")
    return tuple(names)
