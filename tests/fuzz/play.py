"""One case played in this process, and what is wrong with how it ended."""

import contextlib
import gc
import io
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from agon.cli import main
from tests.fuzz.cases import Case


class AcceptedError(BaseException):
    """The command would now load a model: everything it was given has been accepted."""


def _accept(*_: object, **__: object) -> None:
    raise AcceptedError


def fault_of(case: Case) -> str | None:
    """What is wrong with how a command took this case; None if nothing is."""
    said = io.StringIO()
    with _folder(case) as folder:
        before = _listing(folder)
        try:
            words = [word for part in case.words[:1] for word in part.split()] + list(case.words[1:])
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                code: int | None = main(words)
        except AcceptedError:
            code = None
        except BaseException:
            return traceback.format_exc()
        left = [name for name in _listing(folder) if name not in before and "__pycache__" not in name]
    text = said.getvalue()
    if left:
        return f"left behind {left}"
    if code == 2:
        whole = text.startswith("agon: ") and text.count("\n") == 1 and text.endswith("\n")
        return None if whole and len(text) > 12 else f"not one sentence: {text!r}"
    return f"accepted, exit code {code}" if case.wrong else None


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """No model is loaded and no judge is started: whoever comes that far has accepted the case."""
    from agon.evaluate import evaluate
    from agon.train import launch

    # statsmodels collects garbage for every comparison; with torch loaded that is half a second.
    gc.freeze()
    with (
        patch.object(launch, "train", _accept),
        patch.object(evaluate, "load_target", _accept),
        patch("agon.judges.pool.dispatcher.Dispatcher.__init__", _accept),
    ):
        yield
    gc.unfreeze()


@contextlib.contextmanager
def _folder(case: Case) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    home = os.getcwd()
    for name, content in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        os.chdir(home)
        shutil.rmtree(folder)


def _listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
