"""Through the API a pair is as often right as `agon eval` says."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import fisher_exact

from agon.evaluate.evaluate import evaluate
from agon.evaluate.request import EvaluationRequest
from agon.judges.pool import JudgePool
from agon.tasks import load_task
from tests.serve.running import TASK, Running


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_accuracy_through_the_api_is_that_of_the_evaluation(
    server: Running, pair_run: Path, tmp_path: Path
) -> None:
    """On 300 problems of the demo's task, in the same direction; other seeds, so within sampling error."""
    problems = load_task(TASK).problems("test")
    assert len(problems) == 300

    def ask(prompt: str) -> Any:
        answer: Any = server.client(timeout=600.0).chat.completions.create(
            model="agon-ab", messages=[{"role": "user", "content": prompt}], extra_body={"agon": True}, seed=1
        )
        return answer.agon["choices"][0]["answer"]

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(ask, [problem.prompt for problem in problems]))
    with JudgePool("gym", workers=1) as judge:
        waiting = [
            judge.submit(problem, answer)
            for problem, answer in zip(problems, answers, strict=True)
            if answer is not None
        ]
        served = sum(verdict.result().correct for verdict in waiting)
    request = EvaluationRequest(tasks=[TASK], controls=False, direction="A->B", output=tmp_path)
    (result,) = evaluate(str(pair_run), request)
    evaluated = round(result["arms"]["A->B"]["pass@1"] * 300)
    print(f"right of 300: {served} through the API, {evaluated} in the evaluation")
    assert 60 < served < 150  # the untrained cascade is right about three times in ten
    assert fisher_exact([[served, 300 - served], [evaluated, 300 - evaluated]]).pvalue > 0.05
