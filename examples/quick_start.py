"""Train a pair on the model that comes with the package, evaluate it and ask it.

python examples/quick_start.py              # two steps, seconds
python examples/quick_start.py --steps 40   # minutes; the pair then solves nearly every sum
"""

import argparse
import tempfile

import agon

TASK = "gym:chain_sum,min_terms=3,max_terms=3,min_digits=2,max_digits=2,train=640,validation=8,test=20"

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    steps = parser.parse_args().steps

    run = agon.train(
        task=TASK,
        max_steps=steps,
        per_device_train_batch_size=32,
        judge="exact",
        final_evaluation=0,
        output_dir=tempfile.mkdtemp(prefix="agon-"),
    )
    print(agon.evaluate(run, limit=8, controls=False))
    with agon.load(run) as pair:
        answer = pair.ask("State the final answer to the following arithmetic problem: 12 + 34 + 56 =")
        print(f"{answer.direction}: the draft said\n{answer.draft}\nand the answer is\n{answer.text}")
