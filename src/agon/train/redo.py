"""What a round does when the engine fails under it: play it again once, else keep the last step and say so."""

import torch

from agon.engines.protocol import Engine, Recoverable
from agon.errors import InputError
from agon.train.logprob_gap import NotSyncedError
from agon.train.stopping import StopRunError


def recover(engine: Engine, error: Exception | None) -> bool:
    """Get an engine ready to play the round again; False where that cannot help.

    `error` is None in a process where nothing failed: another process's engine did.
    """
    if isinstance(error, InputError) and not isinstance(error, NotSyncedError):
        return False  # a wrong setting stays wrong
    if not isinstance(engine, Recoverable):
        return False
    try:
        engine.recover(error)
    except Exception as second:
        raise failed(second) from error
    return True


def failed(error: Exception | None) -> Exception:
    """The error that ends a run whose round could not be played."""
    if isinstance(error, InputError):
        return error
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}" if error else "in another process"
    # A child process of vLLM's reports its errors as text.
    lower = isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error)
    hint = (
        ": go on with a lower engine_rows, vllm_kv_cache_bytes or vllm_gpu_memory_utilization."
        if lower
        else "."
    )
    stop = StopRunError(f"A round could not be played ({what}){hint}")
    stop.__cause__ = error
    return stop
