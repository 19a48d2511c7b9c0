"""What vLLM's worker imports, for the process that it is forked from (`agon.engines.worker_fork`).

Nothing is said, whatever fails: the worker then imports the rest itself. Signals that a whole terminal or job gets are
for the trainer to handle; this process ends when the trainer does.
"""

import os
import signal
from contextlib import suppress
from importlib import import_module

MODULES = (
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.gpu_worker",
    "vllm.model_executor.model_loader",
    "vllm.lora.worker_manager",
)

for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
kept = os.dup(2), os.dup(1)
null = os.open(os.devnull, os.O_WRONLY)
os.dup2(null, 2)
os.dup2(null, 1)
for name in MODULES:
    with suppress(Exception):
        import_module(name)
os.dup2(kept[0], 2)
os.dup2(kept[1], 1)
for descriptor in (*kept, null):
    os.close(descriptor)
