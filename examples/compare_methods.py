"""Two methods on one budget, evaluated on the same problems and compared."""

import tempfile
from pathlib import Path

import agon

TASK = "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=64,validation=4,test=20"

if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp(prefix="agon-"))
    runs = [
        agon.train(
            task=TASK,
            method=method,
            judge="exact",
            max_steps=1,
            num_generations=4,
            per_device_train_batch_size=16,
            final_evaluation=0,
            output_dir=str(folder / method),
        )
        for method in ("agon", "grpo")
    ]
    for run in runs:
        agon.evaluate(run, limit=8, controls=False)
    print(agon.compare(runs))
