"""A judge that this script defines: it grades how near an answer is, and the run pays for the grade."""

import tempfile

from agon import AgonConfig, AgonTrainer, LiveView

ROWS = [
    {"problem": f"{a} + {b} + 40 =", "answer": str(a + b + 40)} for a in range(20, 28) for b in range(30, 34)
]


def nearness(problem, answer):
    """1 for the right number, less the further off it is, and 0 for what is no number."""
    try:
        off = abs(int(answer) - int(problem.answer))
    except ValueError:
        return 0.0
    return max(0.0, 1 - off / 100)


if __name__ == "__main__":
    args = AgonConfig(
        tempfile.mkdtemp(prefix="agon-"),
        graded=True,
        max_steps=2,
        num_generations=4,
        gradient_accumulation_steps=2,
        max_completion_length=48,
        use_cpu=True,
        save_strategy="no",
    )
    trainer = AgonTrainer("embedded", train_dataset=ROWS, judge=nearness, args=args, callbacks=[LiveView()])
    trainer.train()
    trainer.close()
    duel = next(iter(trainer.run.duels()))
    print(f"{duel.problem.prompt} {duel.draft.rollout.text}: score {duel.draft.verdict.grade:.2f}")
