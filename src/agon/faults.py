"""What a machine that has run out of something says, as one sentence: disk, memory, rights.

Libraries report a full disk in their own ways, and some as plain text. A fault of the machine is no fault of ours, so
it is said without a traceback, with what to do about it.
"""

import errno
from collections.abc import Iterator

FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file has become larger than this system allows",
}
CLOSED = {
    errno.EROFS: "it lies on a file system that can only be read",
    errno.EACCES: "it may not be written to",
    errno.EPERM: "it may not be written to",
}
LESS_MEMORY = (
    "lower per_device_train_batch_size (and raise gradient_accumulation_steps), engine_rows or "
    "max_completion_length, or turn gradient_checkpointing on"
)
LESS_MEMORY_FOR_EVALUATION = "lower --rows or --max-tokens"


def machine_fault(error: BaseException, evaluating: bool = False) -> str | None:
    """What the machine has run out of, without a full stop; None for any other error."""
    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in FULL:
            where = f" ({each.filename})" if each.filename else ""
            return f"Nothing more can be written: {FULL[each.errno]}{where}; free some space first"
        if isinstance(each, OSError) and each.errno in CLOSED and each.filename:
            return f"'{each.filename}' cannot be written or read: {CLOSED[each.errno]}"
        text = str(each)
        if _of_a_library(each) and ("No space left on device" in text or "File too large" in text):
            return "Nothing more can be written: the disk is full; free some space first"
        if _of_a_library(each) and ("PytorchStreamWriter failed" in text or "unexpected pos" in text):
            return "A checkpoint could not be written whole, as on a full disk; free some space first"
        if (
            isinstance(each, MemoryError)
            or type(each).__name__ == "OutOfMemoryError"
            or "can't allocate memory" in text
        ):
            which = "GPU memory" if "CUDA" in text or "HIP" in text else "Memory"
            less = LESS_MEMORY_FOR_EVALUATION if evaluating else LESS_MEMORY
            return f"{which} ran out: {less}"
    return None


def _of_a_library(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) or type(error).__name__ == "SafetensorError"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
