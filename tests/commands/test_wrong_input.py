"""Wrong input ends in one sentence that names what was wrong, with exit code 2 and nothing left behind."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from agon.cli import main
from tests.fuzz.run_folder import two_runs

# The words of a command → what its sentence must say. Files are those that `around` makes.
WRONG = {
    # numbers out of their range
    "train --learning_rate -1": "--learning_rate must be a number above 0 and up to 1; not '-1'",
    "train --learning_rate nan": "--learning_rate must be a number above 0",
    "train --lora_r 0": "--lora_r must be a whole number of at least 1; not '0'",
    "train --lora_alpha -1": "--lora_alpha must be",
    "train --lora_dropout 2": "--lora_dropout must be a number of at least 0 and below 1; not '2'",
    "train --temperature 0": "--temperature must be a number above 0; not '0'",
    "train --top_p 3": "--top_p must be a number above 0 and up to 1; not '3'",
    "train --beta -1": "--beta must be a number of at least 0; not '-1'",
    "train --seed -1": "--seed must be a whole number of at least 0 and at most 4294967295; not '-1'",
    "train --max_completion_length 0": "--max_completion_length must be",
    "train --engine_rows 0": "--engine_rows must be",
    "train --torch_threads -1": "--torch_threads must be",
    "train --summary_limit -1": "--summary_limit must be",
    "train --validation_size 0": "--validation_size must be",
    "train --num_train_epochs -1": "--num_train_epochs must be",
    "train --max_steps 0": "--max_steps must be a number of steps of at least 1",
    "train --warmup_steps -0.5": "--warmup_steps must be",
    "train --weight_decay -1": "--weight_decay must be",
    "train --adam_beta1 1": "--adam_beta1 must be a number of at least 0 and below 1",
    "train --max_grad_norm -1": "--max_grad_norm must be",
    "train --save_steps 2.5": "--save_steps must be a whole number of steps between two checkpoints",
    "train --logging_steps 0": "--logging_steps must be",
    "train --eval_steps -3": "--eval_steps must be",
    "train --num_iterations 0": "--num_iterations must be",
    "train --num_generations 15": "--num_generations must be even and at least 4",
    "train --dataloader_num_workers -1": "--dataloader_num_workers must be",
    "train --epsilon inf": "--epsilon must be",
    "train --delta 1.1": "delta must be above 1 + epsilon (1.2), not 1.1",
    "train --judge_workers 1.5": "--judge_workers must be a whole number",
    "train --vllm_gpu_memory_utilization 2": "--vllm_gpu_memory_utilization must be",
    "train --learning_rate": "--learning_rate takes one value; not none",
    "train --method coop extra": "--method takes one value; not 2: coop extra",
    # names that are in no list
    "train --loss_type nosuch": "--loss_type must be one of grpo, dr_grpo",
    "train --lr_scheduler_type liner": "--lr_scheduler_type must be one of linear",
    "train --optim adam": "--optim must be one of adamw_torch",
    "train --scale_rewards yes": "--scale_rewards must be one of group, batch, none",
    "train --importance_sampling_level word": "must be one of token, sequence",
    "train --vllm_importance_sampling_mode x": "must be one of token_truncate",
    "train --eval_strategy often": "--eval_strategy must be one of no, steps, epoch",
    "train --save_strategy best": "save_strategy must be steps, epoch or no, not 'best'",
    "train --sandbox docker": "Unknown sandbox 'docker'",
    "train --dialect thnik": "Unknown dialect 'thnik': did you mean 'think'?",
    "train --engine vlm": "Unknown engine 'vlm': did you mean 'vllm'?",
    "train --torch_compile_mode fast": "--torch_compile_mode must be one of default",
    "train --optim_target_modules x": "optim_target_modules is for the galore and apollo optimizers",
    "train --log_level loud": "--log_level must be one of",
    "train --bf16 perhaps": "--bf16 must be true or false",
    "train --report_to nosuch": "Unknown integration in report_to: 'nosuch'",
    "train --model_init_kwargs [1]": "--model_init_kwargs must be a mapping",
    # what is not installed, not there, or in the way
    "train --report_to wandb": "report_to wandb needs the package wandb, which is not installed",
    "train --optim lion_8bit": "optim lion_8bit needs the package bitsandbytes",
    "train --deepspeed nowhere.json": "--deepspeed must be a mapping",
    "train --output_dir file.txt": "output_dir must be a folder, and 'file.txt' is a file",
    "train --output_dir file.txt/run": "is a file",
    "train --model empty --task gsm8k": "'empty' has no config.json",
    "train --model file.txt --task gsm8k": "'file.txt' is a file",
    "train --model ./nowhere --task gsm8k": "there is no folder './nowhere'",
    "train --model Qwen/Qwen3-0.6B": "Name a task for --model Qwen/Qwen3-0.6B with --task",
    "train --task_path nowhere": "task_path must be a file or folder that exists, not 'nowhere'",
    "train --task nowhere.jsonl": "There is no file or folder nowhere.jsonl",
    "train --task file.txt": "file.txt is neither a .jsonl nor a .parquet file",
    "train --task math-500": "Task 'math-500' is for evaluation only",
    "train --vllm_servers notaurl": "--vllm_servers must be addresses such as http://localhost:8000",
    "train --engine vllm-server --vllm_servers http://": "--vllm_servers must be addresses",
    "train --judge raises:judge": "The judge 'raises:judge' raised ZeroDivisionError: division by zero (",
    "train --task raises:task": "The task 'raises:task' raised ZeroDivisionError: division by zero (",
    "train --resume_from_checkpoint true": "`agon train --resume RUN` goes on with a run",
    # recipes
    "train wrong.yaml": "lora_r in the recipe 'wrong.yaml' must be a whole number of at least 1; not [1]",
    "train binary.yaml": "Cannot read the recipe 'binary.yaml': it is not text",
    "train text.yaml": "must be a mapping of options",
    "train open.yaml": "The recipe 'open.yaml' is not YAML",
    "train qwen3-0.6b-deepmat": "Unknown recipe 'qwen3-0.6b-deepmat': did you mean 'qwen3-0.6b-deepmath'?",
    "plan empty.yaml": "must be a mapping of options",
    # other commands
    "tasks raises:task": "The task 'raises:task' raised ZeroDivisionError",
    "tasks fails:task": "The task 'fails:task' raised RuntimeError: no (",
    "tasks gsm8k --seed -1": "--seed must be a whole number of at least 0, not '-1'",
    "plan qwen3-0.6b-deepmath --gpus -1": "--gpus must be a whole number of at least 1, not '-1'",
    "plan qwen3-0.6b-deepmath --lora_r 0": "--lora_r must be",
    "judge math --workers 0": "--workers must be a whole number of at least 1, not '0'",
    "judge math --deadline nan": "--deadline must be a number above 0, not 'nan'",
    "judge math --memory -1": "--memory must be",
    "judge raises:judge": "raised ZeroDivisionError",
    "eval embedded --output out --limit 0": "--limit must be a whole number of at least 1, not '0'",
    "eval embedded --output out --top-p 2": "--top-p must be a number above 0 and up to 1, not '2'",
    "eval embedded --output out --temperature inf": "--temperature must be a number of at least 0, not 'inf'",
    "eval embedded --output file.txt --task gsm8k": "--output must be a folder that is there or can be made",
    "eval embedded --output out --path nowhere": "--path must be a file or folder that exists, not 'nowhere'",
    "eval embedded --output out --direction AC": "Unknown direction 'A->C'",
    "eval embedded --output out --engine vllm-server --vllm-servers x": "--vllm-servers must be addresses",
    "eval file.txt --output out": "is neither a run nor a model",
    "eval runs/nowhere --output out": "There is no folder 'runs/nowhere'",
    "compare runs/one empty": "'empty' holds neither a run nor evaluations",
    "compare runs/one": "A comparison needs at least two runs, not only 'runs/one'",
    "compare runs/one runs/nowhere": "There is no run 'runs/nowhere'",
    "show empty": "'empty' holds neither a run nor evaluations",
    "show runs/one --step x": "step must be a number or a range such as 3..9, not 'x'",
    "view runs/nowhere": "There is no run 'runs/nowhere'",
    "view runs/one --port -1": "--port must be a whole number of at least 0 and at most 65535, not '-1'",
    "help trian": "Unknown command 'trian': did you mean 'train'?",
}
FILES = {
    "file.txt": b"text\n",
    "empty/.keep": b"",
    "wrong.yaml": b"model: embedded\ntask: gym:chain_sum\nlora_r: [1]\n",
    "binary.yaml": b"\xff\xfe\x00\x01",
    "text.yaml": b"just a sentence\n",
    "open.yaml": b"model: [embedded\n",
    "empty.yaml": b"",
    "raises.py": b"1 / 0\n",
    "fails.py": b"def task(seed):\n    raise RuntimeError('no')\n",
    "one.jsonl": b'{"problem": "What is 2 + 2?", "answer": "4"}\n',
    **two_runs(),
}


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name, and nothing else."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence of a command that is refused; nothing may be left behind."""
    before = listing(folder)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("agon: ")
    assert said.count("\n") == 1
    assert listing(folder) == before
    return said


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_is_one_sentence(words: str, around: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert WRONG[words] in refused(shlex.split(words), around, capsys)


LATE = {
    "train --lora_target_modules nosuchlayer": "names of layers that 'embedded' has (down_proj, gate_proj, ",
    "train --lora_target_modules q_proj k_prj": "not 'k_prj'",
    "train --fp16 true": "fp16 must be false without a GPU",
    "train --lr_scheduler_type cosine_with_min_lr": "lr_scheduler_type cosine_with_min_lr does not work with",
    "train --optim_args foo": "optim adamw_torch_fused does not work with optim_args 'foo'",
    "train --task one.jsonl --judge_workers 1": "has 1 training problems, and one round of rollouts needs 16",
    "train --task gym:nosuch": "Unknown reasoning-gym task 'nosuch'",
    "train --push_to_hub true": "Agon does not take push_to_hub",
}


@pytest.mark.parametrize("words", LATE)
def test_what_only_torch_can_tell_is_one_sentence_too(
    words: str, around: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert LATE[words] in refused(shlex.split(words), around, capsys)


BROKEN_RUN = {
    "config.yaml": {b"": "holds no options", b"a: [": "is not YAML", b"\xff\x00": "is not YAML",
                    b"- a\n": "holds no options", b"colour: blue\n": "no model"},
    "task.json": {b"{": "task.json is not a JSON file", b"[]": "task.json holds no object"},
}  # fmt: skip


@pytest.mark.parametrize("command", ["train --resume runs/one", "eval runs/one", "compare runs/one runs/two"])
@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, kinds in BROKEN_RUN.items() for content in kinds]
)
def test_a_broken_run_folder_is_one_sentence(
    command: str, name: str, content: bytes, around: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (around / "runs" / "one" / name).write_bytes(content)
    assert BROKEN_RUN[name][content] in refused(command.split(), around, capsys)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("result.json", b"{}", "does not hold a whole evaluation"),
        ("result.json", b"nothing", "is not a JSON file"),
        ("samples.jsonl", b"{}\n", "Line 1 of"),
        ("samples.jsonl", b"", "has a result but no samples"),
    ],
)
def test_a_broken_evaluation_is_one_sentence(
    name: str, content: bytes, sentence: str, around: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = around / "runs" / "one" / "evaluations" / "gym-chain_sum-test"
    (folder / name).write_bytes(content)
    assert sentence in refused(["compare", "runs/one", "runs/two"], around, capsys)


def test_a_checkpoint_that_lacks_a_file_is_named(around: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (around / "runs/one/checkpoints/checkpoint-2/optimizer.pt").unlink()
    assert "optimizer.pt is missing" in refused(["train", "--resume", "runs/one"], around, capsys)


def test_a_comparison_names_the_command_that_makes_the_missing_evaluation(
    around: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other run was evaluated on all of its test problems, then on the first of many."""
    for path in (around / "runs/two/evaluations").rglob("*.json*"):
        path.unlink()
    words = ["compare", "runs/one", "runs/two"]
    assert "run `agon eval runs/two` first" in refused(words, around, capsys)
    task = around / "runs/one/task.json"
    task.write_text(json.dumps({**json.loads(task.read_text()), "sizes": {"test": 1000}}))
    assert "run `agon eval runs/two --limit 2` first" in refused(words, around, capsys)


def test_an_error_inside_keeps_its_traceback_after_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("agon.commands.methods.method", broken)
    with pytest.raises(ZeroDivisionError, match="inside"):
        main(["methods", "agon"])
    said = capsys.readouterr().err
    assert said == "agon: `agon methods` failed by an error inside; please report it with the lines below.\n"
