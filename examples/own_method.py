"""A method, a term of a reward and prompts of one's own, named as module:object and trained by `agon train`.

Run it in this folder, where the name `own_method` can be imported:

    cd examples && python own_method.py
"""

import tempfile
from dataclasses import replace

import agon
from agon.game import METHODS, Outcome
from agon.game.prompts import FORM, Prompts


def brevity(own: Outcome) -> float:
    """A tenth of a point for a short rollout."""
    return 0.1 * (own.length < 30)


# As `agon`, but a drafter is paid for brevity too, and A always drafts.
brief = replace(
    METHODS["agon"], roles="fixed", draft_reward=(*METHODS["agon"].draft_reward, brevity), note="short drafts"
)
prompts = Prompts(form={**FORM, ("block", "math"): "Be brief."})

if __name__ == "__main__":
    run = agon.train(
        task="gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=32,validation=4,test=4",
        method="own_method:brief",
        prompts="own_method:prompts",
        challenge_reward=["correctness", "conversion", "own_method:brevity"],
        judge="exact",
        max_steps=2,
        num_generations=4,
        per_device_train_batch_size=8,
        final_evaluation=0,
        output_dir=tempfile.mkdtemp(prefix="agon-"),
    )
    print(f"Trained in {run}, with the parts of this file recorded by name.")
