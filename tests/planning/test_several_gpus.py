"""The plan for several GPUs: a sharded base, servers apart from the trainers, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.planning.architectures import MODELS
from agon.planning.estimate import GIB, GPUS, Workload, hours, memory
from agon.planning.recipe_plan import Hardware, plan_workload
from agon.planning.servers import plan_servers, sampler_of, served

RECIPE = str(Path(__file__).parents[2] / "src" / "agon" / "recipes" / "qwen3-4b-deepmath.yaml")
LARGE = MODELS["Qwen/Qwen3-32B"]
LOAD = Workload(problems=1000, engine="vllm-server", max_completion_length=15_000)


def test_a_sharded_base_takes_its_share_and_a_few_whole_layers() -> None:
    whole, eight = memory(LARGE, LOAD, 8), memory(LARGE, replace(LOAD, fsdp=True), 8)
    assert whole.base == LARGE.parameters * 2
    ends = 2 * 2 * LARGE.vocab * LARGE.hidden  # embeddings and head, in bytes
    assert eight.base == pytest.approx(ends + (whole.base - ends) / 8, rel=1e-6)
    assert eight.gathered == pytest.approx(3 * (whole.base - ends) / LARGE.layers, rel=1e-6)
    assert eight.activations == whole.activations
    assert (eight.adapters, eight.optimizer) == (whole.adapters, whole.optimizer), "adapters are whole"


def test_one_process_exchanges_no_gradients() -> None:
    assert memory(LARGE, LOAD).exchanged == 0
    assert memory(LARGE, LOAD, 2).exchanged == memory(LARGE, LOAD).gradients


@pytest.mark.parametrize(("name", "cards"), [("Qwen3-0.6B", 1), ("Qwen3-14B", 1), ("Qwen3-32B", 2)])
def test_a_server_takes_as_many_cards_as_its_base_needs(name: str, cards: int) -> None:
    made = plan_servers(MODELS[f"Qwen/{name}"], LOAD, GPUS["H100"], 8)
    assert (made.cards, made.count, made.fits) == (cards, 8 // cards, True)
    assert made.weights + made.cache <= GPUS["H100"].memory * GIB


def test_a_base_that_no_host_holds_does_not_fit() -> None:
    huge = replace(LARGE, layers=640)
    assert not plan_servers(huge, LOAD, GPUS["H100"], 8).fits
    facts = plan_workload(huge, LOAD, Hardware("H100", 8))
    assert not facts["fits"]


def test_twice_the_servers_sample_faster() -> None:
    model, gpu = MODELS["Qwen/Qwen3-4B"], GPUS["H100"]
    took = []
    for cards in (4, 8):
        servers = plan_servers(model, LOAD, gpu, cards)
        took.append(hours(model, served(LOAD, 8, servers), gpu, 8, sampler_of(servers, gpu)).sampling)
    assert took[1] < took[0]


def test_the_command_counts_trainers_and_servers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--gpus", "4", "--engine", "vllm-server", "--fsdp", "true", "--servers", "2"]
    assert main(["plan", RECIPE, *words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"] * 2 / 4 < facts["memory_bytes"]["base"] < facts["parameters"] * 2 / 3
    assert (facts["servers"]["count"], facts["servers"]["cards"]) == (2, 1)
    assert main(["plan", RECIPE, *words]) == 0
    shown = capsys.readouterr().out
    assert "base, frozen, its share of 4" in shown
    assert "2 servers on one card each, apart from the trainers" in shown
    assert "4 + 2 x H100" in shown


def test_what_cannot_be_planned_is_one_sentence() -> None:
    with pytest.raises(InputError, match="--servers is for engine vllm-server, not 'vllm'"):
        plan_workload(LARGE, replace(LOAD, engine="vllm"), Hardware("H100", 8, 8))
    with pytest.raises(InputError, match="--servers must be a multiple of 2"):
        plan_workload(LARGE, LOAD, Hardware("H100", 8, 3))
    with pytest.raises(InputError, match="--servers is a positive number"):
        Hardware("H100", 8, 0)
