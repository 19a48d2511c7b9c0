"""The one place where every training option is checked: a table of rows, each saying what is allowed.

`check_options` takes the options of a run by name and raises one sentence for the first that is wrong: its
name, its value, what is allowed. The command line asks it before torch is loaded, `AgonConfig` asks it
again for whoever writes Python. What several options must be together is in `option_combinations`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agon.engines.build import ENGINES
from agon.errors import InputError, unknown
from agon.evaluate.request import LARGEST_SEED, is_address
from agon.game.dialects import DIALECTS
from agon.game.methods import METHODS
from agon.judges.code.sandbox import SANDBOXES
from agon.own_parts import is_part
from agon.train.option_table import Option, options


@dataclass(frozen=True)
class Rule:
    """What an option may be: a test of a value of the right kind, and the words for it."""

    accepts: Callable[[Any], bool]
    allowed: str


def above(low: float, high: float = math.inf, *, closed: bool = True, what: str = "a number") -> Rule:
    """A finite number above `low`; up to `high` where there is one, or below it if not `closed`."""
    end = "" if high == math.inf else f" and {'up to' if closed else 'below'} {_plain(high)}"
    return Rule(
        lambda value: math.isfinite(value) and low < value and (value <= high if closed else value < high),
        f"{what} above {low:g}{end}",
    )


def from_(low: float, high: float = math.inf, *, closed: bool = True, what: str = "a number") -> Rule:
    """A finite number of at least `low`; up to `high` where there is one, or below it if not `closed`."""
    end = "" if high == math.inf else f" and {'at most' if closed else 'below'} {_plain(high)}"
    return Rule(
        lambda value: math.isfinite(value) and low <= value and (value <= high if closed else value < high),
        f"{what} of at least {low:g}{end}",
    )


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def one_of(*names: str) -> Rule:
    return Rule(lambda value: value in names, f"one of {', '.join(names)}")


def steps(what: str) -> Rule:
    """Steps between two things: a whole number, or a share of all steps."""
    return Rule(
        lambda value: 0 < value < 1 or (math.isfinite(value) and value >= 1 and value == int(value)),
        f"a whole number of steps between two {what}, or a share of all steps below 1",
    )


COUNT = from_(1, what="a whole number")
SIZE = from_(0, what="a whole number")
SHARE = from_(0, 1)
POSITIVE = above(0)
NOT_NEGATIVE = from_(0)
NAME = Rule(lambda value: bool(str(value).strip()) and "\0" not in str(value), "a text that is not empty")
ADDRESS = Rule(is_address, "an address such as http://localhost:8000")
ADDRESSES = Rule(
    lambda value: bool(value) and all(map(is_address, value)), "addresses such as http://localhost:8000"
)
PORT = from_(1, 65535, what="a port, a whole number")
SEED = from_(0, LARGEST_SEED, what="a whole number")
LEVELS = one_of("detail", "debug", "info", "warning", "error", "critical", "passive")
OPEN_SHARE = from_(0, 1, closed=False)

# What is allowed → the options for which it is. An option that is in no row may be anything of its kind.
ROWS: tuple[tuple[Rule, tuple[str, ...]], ...] = (
    (NAME, ("model", "task", "method", "engine", "sandbox", "dialect", "judge", "output_dir", "task_path",
            "adapter_dir", "run_name", "project")),
    (COUNT, ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps",
             "steps_per_generation", "generation_batch_size", "num_iterations", "num_generations_eval",
             "max_completion_length", "lora_r", "lora_alpha", "judge_workers", "engine_rows", "micro_batch_tokens",
             "validation_size", "torch_threads", "summary_limit", "duels_max_mb", "save_total_limit",
             "vllm_tensor_parallel_size", "vllm_max_model_length", "vllm_kv_cache_bytes",
             "ref_model_sync_steps", "eval_accumulation_steps", "torch_empty_cache_steps",
             "dataloader_prefetch_factor", "ddp_bucket_cap_mb", "ddp_timeout", "num_completions_to_print",
             "max_tool_calling_iterations")),
    (SIZE, ("final_evaluation", "dataloader_num_workers", "top_k")),
    (SEED, ("seed", "task_seed", "data_seed")),
    (PORT, ("vllm_server_port", "vllm_group_port")),
    (Rule(lambda value: value >= 4 and value % 2 == 0,
          "even and at least 4, N drafts and N challenges of each problem"), ("num_generations",)),
    (Rule(lambda value: value == -1 or value >= 1,
          "a number of steps of at least 1, or -1 for as many as num_train_epochs gives"), ("max_steps",)),
    (Rule(lambda value: value >= -1, "a whole number of at least -1"), ("local_rank",)),
    (above(0, 1), ("learning_rate", "top_p", "eval_top_p", "vllm_gpu_memory_utilization")),
    (POSITIVE, ("num_train_epochs", "temperature", "repetition_penalty", "epsilon", "epsilon_high",
                "delta", "sapo_temperature_neg", "sapo_temperature_pos", "vespo_k_pos", "vespo_lambda_pos",
                "vespo_k_neg", "vespo_lambda_neg", "vllm_importance_sampling_clip_max",
                "vllm_importance_sampling_cap", "off_policy_mask_threshold", "adam_epsilon",
                "vllm_server_timeout", "neftune_noise_alpha", "entropy_coef_delta", "max_logprob_gap")),
    (NOT_NEGATIVE, ("beta", "eval_temperature", "init_noise", "max_grad_norm", "eval_delay", "entropy_coef",
                    "entropy_coef_min", "entropy_coef_max", "entropy_target",
                    "router_aux_loss_coef", "vllm_importance_sampling_clip_min")),
    (SHARE, ("weight_decay", "min_p", "top_entropy_quantile", "ref_model_mixup_alpha")),
    (OPEN_SHARE, ("adam_beta1", "adam_beta2", "lora_dropout", "label_smoothing_factor")),
    (Rule(lambda value: 0 <= value < 1 or (math.isfinite(value) and value >= 1 and value == int(value)),
          "a whole number of steps, or a share of them below 1"), ("warmup_steps",)),
    (steps("lines of metrics"), ("logging_steps",)),
    (steps("validations"), ("eval_steps",)),
    (steps("checkpoints"), ("save_steps",)),
    (ADDRESS, ("vllm_server_base_url",)),
    (ADDRESSES, ("vllm_servers",)),
    (Rule(lambda value: bool(value) and all(map(NAME.accepts, value)), "names of layers, such as q_proj"),
     ("lora_target_modules",)),
    (one_of("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"), ("loss_type",)),
    (one_of("token", "sequence"), ("importance_sampling_level",)),
    (Rule(lambda value: value in ("group", "batch", "none") or isinstance(value, bool),
          "one of group, batch, none"), ("scale_rewards",)),
    (one_of("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
     ("vllm_importance_sampling_mode",)),
    (one_of("sum_then_normalize", "normalize_then_sum"), ("multi_objective_aggregation",)),
    (one_of("colocate", "server"), ("vllm_mode",)),
    (one_of("vllm", "transformers", "auto"), ("vllm_model_impl",)),
    (one_of("fork", "spawn", "forkserver"), ("dataloader_multiprocessing_context",)),
    (one_of("random", "sequential", "group_by_length", "batch_rebalance"), ("train_sampling_strategy",)),
    (Rule(lambda value: value in ("all", "non_padding", "no") or isinstance(value, bool),
          "one of all, non_padding, no"), ("include_num_input_tokens_seen",)),
    (one_of("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
     ("torch_compile_mode",)),
    (LEVELS, ("log_level", "log_level_replica")),
    (Rule(lambda value: value in ("auto", "none") or COUNT.accepts(int(value)),
          "a whole number of at least 1, auto or none"), ("pad_to_multiple_of",)),
    (Rule(lambda value: not value, "left out: `agon train --resume RUN` goes on with a run"),
     ("resume_from_checkpoint",)),
)  # fmt: skip
RULES = {name: rule for rule, names in ROWS for name in names}
# A closed list whose wrong name is answered with the nearest right one.
NAMED: Mapping[str, tuple[str, Iterable[str]]] = {
    "method": ("method", METHODS),
    "dialect": ("dialect", DIALECTS),
    "engine": ("engine", ENGINES),
    "sandbox": ("sandbox", SANDBOXES),
}
KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "whole": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "number": (
        "a number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    ),
    "switch": ("true or false", lambda value: isinstance(value, bool)),
    "text": ("a text", lambda value: isinstance(value, str)),
    "choice": ("a name", lambda value: isinstance(value, str)),
}


OTHER_WORDS = {
    "texts": "a name, or a list of names",
    "list": "a list of names",
    "mapping": "a mapping, on a command line as JSON such as '{\"key\": 1}'",
    "object": "left out here: it can be set in Python only",
}


def allowed(option: Option) -> str:
    """What a value of this option must be, for the end of a sentence."""
    words = KINDS[option.kind][0] if option.kind in KINDS else OTHER_WORDS[option.kind]
    if option.choices:
        words = f"one of {', '.join(option.choices)}"
    if option.name in RULES:
        words = RULES[option.name].allowed
    return f"{words}, or null" if option.null and option.default is not None else words


def refusal(name: str, value: Any, shown: str) -> InputError:
    """The sentence for a wrong value; `shown` is how the reader wrote the option's name."""
    if name in NAMED and isinstance(value, str) and value:
        return unknown(NAMED[name][0], value, NAMED[name][1])
    return InputError(f"{shown} must be {allowed(options()[name])}; not {_quoted(value)}.")


def fits(option: Option, value: Any) -> bool:
    """Whether an option may have this value."""
    if value is None:
        return option.null
    if option.kind in KINDS and not KINDS[option.kind][1](value) and not _other_kind(option, value):
        return False
    if option.choices and option.kind in ("choice", "text") and value not in option.choices:
        return False
    if option.name in NAMED and value not in NAMED[option.name][1]:
        return option.name in ("method", "dialect") and is_part(value)
    try:
        return option.name not in RULES or RULES[option.name].accepts(value)
    except (TypeError, ValueError, OverflowError):  # a text where a number belongs
        return False


def check_options(values: Mapping[str, Any], show: Callable[[str], str] = str) -> None:
    """Refuse the first option with a value that it may not have."""
    for name, option in options().items():
        if name in values and not fits(option, values[name]):
            raise refusal(name, values[name], show(name))


# Texts that transformers and TRL also take, or leave behind, as something else.
OTHER_KINDS: Mapping[str, tuple[type, ...]] = {
    "scale_rewards": (bool,),
    "include_num_input_tokens_seen": (bool,),
    "trackio_static_space_id": (bool,),
    "pad_to_multiple_of": (int,),
    "fsdp": (bool, list),
}


def _other_kind(option: Option, value: Any) -> bool:
    return isinstance(value, OTHER_KINDS.get(option.name, ()))


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
