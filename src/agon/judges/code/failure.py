"""The verdict on a program whose run failed."""

from agon.game.verdict import Verdict
from agon.judges.code.process import Outcome


def failure(outcome: Outcome) -> Verdict | None:
    """The verdict on a run that failed, None for one that ended with exit code 0."""
    errors = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
    match outcome.ending:
        case "exit" if outcome.code == 0:
            return None
        case "exit" if outcome.code in (-24, 152):  # SIGXCPU, as we see it and as bubblewrap reports it
            return Verdict(False, "timeout", "The program used up its CPU time.")
        case "exit":
            last = f": {errors[-1][:200]}" if errors else ""
            return Verdict(False, "wrong", f"The program ended with exit code {outcome.code}{last}")
        case "timeout":
            return Verdict(False, "timeout", f"The program did not end within {outcome.seconds:.1f} seconds.")
        case "output":
            return Verdict(False, "wrong", "The program printed more than it may.")
        case "memory":
            return Verdict(False, "wrong", "The program's processes used more memory than they may.")
        case "files":
            return Verdict(False, "wrong", "The program made more files than it may.")
    return Verdict(False, "error", f"The sandbox did not start: {' '.join(errors)[:400]}")
