"""Which parts of a user's own a run was made with, as its records say."""

from collections.abc import Iterator
from contextlib import contextmanager

from agon.errors import InputError
from agon.own_parts import parts_in
from agon.runs.folder import Run


@contextmanager
def pointing_to_parts(run: Run) -> Iterator[None]:
    """A part that cannot be loaded here is named with the file that it came from."""
    try:
        yield
    except InputError as error:
        recorded = run.read_environment().get("own_parts") or {}
        for _, spec in parts_in({**run.read_config(), "task": run.read_task().get("spec")}):
            known = recorded.get(spec) if isinstance(recorded, dict) else None
            if isinstance(known, dict) and f"'{spec}' cannot be imported" in str(error):
                raise InputError(
                    f"{error} The run '{run.folder}' had it from {known.get('file')}."
                ) from error
        raise
