"""The pool, with real workers that hang, die and use too much memory."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

import psutil
import pytest

from agon.errors import InputError
from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.pool import JudgePool, check_golds
from tests.judges import own_judges

PROBLEM = Problem(id="p", prompt="", task="t", answer="right")


@pytest.fixture(scope="module")
def pool():
    with JudgePool(own_judges.misbehave, workers=2, deadline=1.0, memory_bytes=512 << 20) as pool:
        yield pool


def judge(pool: JudgePool, answer: str) -> Verdict:
    return pool.submit(PROBLEM, answer).result(timeout=30)


def ended(process: psutil.Process) -> bool:
    """Gone, or dead and not yet reaped by its parent."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_verdicts_come_in_the_order_of_the_answers(pool):
    answers = ["right", "wrong", "half a second", "right", "die", "wrong"]
    reasons = [verdict.reason for verdict in pool.judge_all((PROBLEM, answer) for answer in answers)]
    assert reasons == ["correct", "wrong", "correct", "correct", "error", "wrong"]


@pytest.mark.parametrize("answer", ["hang", "sleep"])
def test_a_verdict_that_hangs_is_a_timeout_at_its_deadline(pool, answer):
    verdict = judge(pool, answer)
    assert verdict.reason == "timeout"
    assert 1.0 <= verdict.seconds < 2.0
    assert judge(pool, "right").correct


@pytest.mark.parametrize("answer", ["die", "be killed", "segfault", "leave"])
def test_a_worker_that_dies_costs_its_own_verdict_only(pool, answer):
    before = pool.counts
    assert judge(pool, answer).reason == "error"
    assert judge(pool, "right").correct
    assert pool.counts.crashes == before.crashes + 1
    assert pool.counts.replaced > before.replaced


def test_a_worker_that_grows_is_stopped_at_its_limit(pool):
    verdict = judge(pool, "grow")
    assert (verdict.reason, verdict.detail) == ("error", "The judge ran out of memory.")
    assert judge(pool, "right").correct


def test_a_judge_that_raises_says_so_and_keeps_its_worker(pool):
    before = pool.counts
    verdict = judge(pool, "raise")
    assert verdict.reason == "error"
    assert "this judge is broken" in verdict.detail
    assert pool.counts.crashes == before.crashes
    assert pool.counts.errors == before.errors + 1


def test_a_judge_may_print_without_breaking_the_pool(pool):
    assert judge(pool, "print").reason == "wrong"
    assert judge(pool, "right").correct


def test_others_do_not_wait_for_a_hanging_verdict():
    with JudgePool(own_judges.misbehave, workers=2, deadline=60) as pool:
        hanging = [pool.submit(PROBLEM, "sleep") for _ in range(4)]
        assert all(verdict.correct for verdict in pool.judge_all([(PROBLEM, "right")] * 20))
        assert not any(future.done() for future in hanging), (
            "four hanging verdicts on two workers held up the rest"
        )


def test_more_hanging_verdicts_than_workers_are_timeouts_all(pool):
    hanging = [pool.submit(PROBLEM, "sleep") for _ in range(4)]
    assert [future.result(timeout=30).reason for future in hanging] == ["timeout"] * 4


@pytest.fixture
def busy_machine():
    """Processes that take all the CPU time they can get, in sessions of their own: Linux shares by session, too."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [
        subprocess.Popen(command, start_new_session=True) for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for process in running:
        process.kill()
        process.wait()


def test_slow_right_answers_do_not_starve_among_many_quick_ones(busy_machine):
    """The deadline is for the verdict's own time, so waiting for a CPU does not count."""
    answers = ["slow" if number % 20 == 5 else "work" for number in range(80)]
    with JudgePool(own_judges.misbehave, workers=2, deadline=1.5) as pool:
        verdicts = pool.judge_all((PROBLEM, answer) for answer in answers)
        assert [verdict.reason for verdict in verdicts] == ["correct"] * len(answers)
        assert pool.counts.timeouts == pool.counts.timeout_share == 0


@pytest.mark.exhaustive
def test_80_slow_right_answers_do_not_starve_among_3200_quick_ones(busy_machine):
    """With the math judge: a power of a sum against its binomial series takes about half a second."""
    pairs = []
    for number in range(3280):
        gold, answer = str(number), str(number)
        if number % 41 == 20:
            n = 120 + number // 41
            gold, answer = f"(1+x)^{{{n}}}", rf"\sum_{{k=0}}^{{{n}}} \binom{{{n}}}{{k}} x^k"
        pairs.append((Problem(id="p", prompt="", task="t", answer=gold), answer))
    with JudgePool("math", workers=2) as pool:
        verdicts = pool.judge_all(pairs)
    assert [verdict.reason for verdict in verdicts] == ["correct"] * len(pairs)


def test_a_verdict_that_hangs_on_a_busy_machine_is_tried_once_more_alone(busy_machine):
    with JudgePool(own_judges.misbehave, workers=2, deadline=0.2) as pool:
        hanging = [pool.submit(PROBLEM, "hang") for _ in range(5)]
        verdicts = [future.result(timeout=60) for future in hanging]
        assert [verdict.reason for verdict in verdicts] == ["timeout"] * 5
        assert 1 <= pool.counts.retries <= 2, "second tries are for the rare right answer"
        assert any("at the second try" in verdict.detail for verdict in verdicts)


def test_computing_answers_are_paused_while_others_wait():
    """Not only at a low priority: on a machine that is busy anyway, that would be no time at all."""

    def paused() -> int:
        found = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                found.append(process.status())
        return found.count(psutil.STATUS_STOPPED)

    with JudgePool(own_judges.misbehave, workers=2, deadline=2) as pool:
        hanging = [pool.submit(PROBLEM, "hang") for _ in range(2)]
        waiting = [pool.submit(PROBLEM, "work") for _ in range(300)]
        while not (both := paused() == 2) and not waiting[-1].done():
            time.sleep(0.01)
        assert both
        assert not any(future.done() for future in hanging)
        assert all(future.result(timeout=30).correct for future in waiting)
        assert [future.result(timeout=30).reason for future in hanging] == ["timeout"] * 2


def test_a_future_can_be_cancelled_before_its_turn(pool):
    futures = [pool.submit(PROBLEM, "half a second") for _ in range(8)]
    assert futures[-1].cancel()
    assert all(future.result().correct for future in futures[:-1])


def test_a_dead_fork_server_is_replaced():
    with JudgePool(own_judges.misbehave, workers=1, deadline=10) as pool:
        worker = psutil.Process(int(judge(pool, "who").detail))
        fork_server = worker.parent()
        assert fork_server is not None
        waiting = pool.submit(PROBLEM, "half a second")
        time.sleep(0.1)
        fork_server.send_signal(signal.SIGKILL)
        assert waiting.result(timeout=30).correct  # judged again
        assert judge(pool, "right").correct
        assert ended(worker)


def test_closing_the_pool_ends_every_process_and_fails_what_waits():
    pool = JudgePool(own_judges.misbehave, workers=2, deadline=100)
    worker = int(judge(pool, "who").detail)
    fork_server = psutil.Process(worker).parent()
    assert fork_server is not None
    child = int(judge(pool, "leave a child").detail)
    waiting = [pool.submit(PROBLEM, "sleep") for _ in range(5)]
    family = [fork_server, *fork_server.children(recursive=True)]
    assert child in [process.pid for process in family]
    pool.close()
    assert all(map(ended, family))
    for future in waiting:
        with pytest.raises(RuntimeError, match="closed"):
            future.result(timeout=1)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(PROBLEM, "right")


def test_no_worker_outlives_a_pool_whose_process_was_killed():
    script = textwrap.dedent(
        """
        from agon.game.problem import Problem
        from agon.judges.pool import JudgePool
        pool = JudgePool("tests.judges.own_judges:misbehave", workers=2, deadline=100)
        problem = Problem(id="p", prompt="", task="t", answer="right")
        pids = [pool.submit(problem, "who").result().detail for _ in range(2)]
        pool.submit(problem, "hang"); pool.submit(problem, "sleep")
        print(*pids, flush=True)
        import time; time.sleep(100)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline().split()[0]))
    fork_server = worker.parent()
    assert fork_server is not None
    family = [fork_server, *fork_server.children(recursive=True)]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    psutil.wait_procs(family, timeout=10)
    assert all(map(ended, family))


def test_a_fresh_worker_takes_over_after_a_number_of_verdicts():
    from dataclasses import replace

    from agon.judges.limits import Limits
    from agon.judges.pool.dispatcher import Dispatcher, Job
    from agon.judges.registry import FunctionJudge

    dispatcher = Dispatcher(FunctionJudge(own_judges.misbehave), 1, replace(Limits(), verdicts_per_worker=3))
    workers = []
    for _ in range(7):  # one after another: an overdue verdict would bring in a second worker
        future: Future[Verdict] = Future()
        dispatcher.add(Job(PROBLEM, "who", future))
        workers.append(future.result(timeout=30).detail)
    dispatcher.close()
    assert [workers.count(worker) for worker in dict.fromkeys(workers)] == [3, 3, 1]


def test_a_judge_that_cannot_be_loaded_fails_every_verdict_with_its_reason():
    with JudgePool(own_judges.Unloadable(), workers=1) as pool:
        with pytest.raises(RuntimeError, match="the model file is missing"):
            pool.submit(PROBLEM, "right").result(timeout=60)
        with pytest.raises(RuntimeError, match="the model file is missing"):  # known by now
            pool.submit(PROBLEM, "right")


def test_a_judge_that_holds_what_no_other_process_can_have_is_refused():
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to a worker process"):
        JudgePool(lambda problem, answer: lock.locked())


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"deadline": 0}, {"deadline": float("nan")}, {"memory_bytes": 1}]
)
def test_impossible_limits_are_bad_input(options):
    with pytest.raises(InputError):
        JudgePool(own_judges.misbehave, **options)


def test_the_pool_does_not_load_torch():
    script = "import sys, agon.judges.pool; sys.exit('torch' in sys.modules or 'sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_fork_server_is_only_imported_in_its_own_process():
    """`python -m` warns about a module that its package has imported already."""
    script = "import sys, agon.judges.pool; sys.exit('agon.judges.pool.fork_server' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_golds_that_their_judge_refuses_are_reported():
    problems = [
        Problem(id=gold, prompt="", task="t", answer=gold) for gold in ("1", r"\frac{1}{2}", "", "x=1, x=2")
    ]
    with JudgePool("math", workers=2) as pool:
        bad = check_golds(pool, problems)
    assert [gold.problem.answer for gold in bad] == [""]
    assert bad[0].verdict.reason == "error"


def test_a_pool_made_in_a_thread_that_ended_still_judges():
    import threading

    made: list[JudgePool] = []
    thread = threading.Thread(target=lambda: made.append(JudgePool(own_judges.misbehave, workers=1)))
    thread.start()
    thread.join()
    with made[0] as pool:
        assert judge(pool, "right").correct
        assert os.getpid() != int(judge(pool, "who").detail)


def test_a_pool_that_is_closed_while_it_starts_prints_nothing() -> None:
    """Its fork server is still importing; it must exit silently when it finds the pool gone."""
    program = "from agon.judges.pool import JudgePool; JudgePool('math').close()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_an_answer_lost_with_its_worker_is_judged_again_once():
    with JudgePool(own_judges.misbehave, workers=1, deadline=5.0, memory_bytes=512 << 20) as pool:
        future = pool.submit(PROBLEM, "half a second")
        busy: list[int] = []
        while not busy:
            busy = [worker.pid for worker in list(pool._dispatcher._workers) if worker.job and worker.pid]
        os.kill(busy[0], signal.SIGKILL)
        assert future.result(timeout=30).correct
        assert (pool.counts.lost, pool.counts.crashes, pool.counts.errors) == (1, 0, 0)
        assert judge(pool, "die").reason == "error"
        assert (pool.counts.lost, pool.counts.crashes, pool.counts.errors) == (2, 1, 1)


def test_a_worker_that_is_dead_before_it_is_sent_an_answer_does_not_keep_it_waiting(monkeypatch):
    from agon.judges.pool import dispatcher

    sent = []

    def kill_first(connection, request):
        sent.append(request)
        if len(sent) == 1:
            raise BrokenPipeError
        send(connection, request)

    send = dispatcher.send_request
    monkeypatch.setattr(dispatcher, "send_request", kill_first)
    with JudgePool(own_judges.misbehave, workers=1) as pool:
        while [bool(worker.pid) for worker in list(pool._dispatcher._workers)] != [True, True]:
            time.sleep(0.01)  # later, no worker that starts wakes the pool
        assert judge(pool, "right").correct
        assert (len(sent), pool.counts.lost) == (2, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_every_process_of_a_job_costs_no_verdict(number):
    """Slurm sends it to the trainer, which is not done yet, and to everything that it has started."""
    with JudgePool(own_judges.misbehave, workers=2, deadline=5.0, memory_bytes=512 << 20) as pool:
        futures = [pool.submit(PROBLEM, answer) for answer in ("half a second", "right", "half a second")]
        server = psutil.Process(pool._dispatcher._fork_server._process.pid)
        while len(server.children()) < 2:
            time.sleep(0.01)
        for process in (server, *server.children(recursive=True)):
            process.send_signal(number)
        assert all(future.result(timeout=30).correct for future in futures)
        assert server.is_running()
