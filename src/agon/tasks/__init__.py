"""Where problems come from: benchmarks by name, generated ones, your own files, or an object of yours."""

from agon.tasks.benchmarks import BENCHMARKS
from agon.tasks.files import task_from_dataset
from agon.tasks.load import load_task
from agon.tasks.task import Split, Task

__all__ = ["BENCHMARKS", "Split", "Task", "load_task", "task_from_dataset"]
