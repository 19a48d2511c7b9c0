"""One evaluation on disk, in a run's folder or in one that `agon eval --output` wrote.

<task>-<split>/settings.json    what the samples depend on
               samples.jsonl    every sample (`agon.runs.samples`)
               result.json      the figures
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.runs.differences import differences
from agon.runs.files import read_json, write_json
from agon.runs.samples import Sample, SampleFile, SampleKey


class EvaluationFolder:
    """The settings, samples and result of one split of one task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def finished(self) -> bool:
        return (self.folder / "result.json").is_file()

    def read_settings(self) -> dict[str, Any]:
        return read_json(self.folder / "settings.json")

    def base(self) -> str | None:
        """What identifies the base's weights, wherever its folder is; None in a copy without settings."""
        weights = self.read_settings().get("weights")
        base = weights.get("base") if isinstance(weights, dict) else None
        return base if isinstance(base, str) else None

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the settings down, or refuse a folder that was begun with others."""
        self.refuse_settings(settings)
        path = self.folder / "settings.json"
        if not path.exists():
            write_json(path, json.loads(json.dumps(settings)))

    def refuse_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a folder that was begun with others."""
        if not (self.folder / "settings.json").exists():
            return
        changed = differences(self.read_settings(), json.loads(json.dumps(settings)))
        if changed:
            raise InputError(
                f"{self.folder} holds samples of other settings ({'; '.join(changed)}): "
                "choose another --output, or remove the folder."
            )

    def read_result(self) -> dict[str, Any]:
        return read_json(self.folder / "result.json")

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_json(self.folder / "result.json", result)

    def sample_file(self) -> SampleFile:
        """The samples, for reading and adding to."""
        return SampleFile(self.folder / "samples.jsonl")

    def sample_places(self) -> tuple[Path | None, Path | None]:
        """The file of the samples and, where there is only that, the packed one; for reading by place."""
        plain = self.folder / "samples.jsonl"
        packed = self.folder / "samples.jsonl.gz"
        if plain.is_file():
            return plain, None
        return None, packed if packed.is_file() else None

    def read_samples(self) -> dict[SampleKey, Sample]:
        """The samples of a finished evaluation; a result without any is refused."""
        samples = self.sample_file().samples
        if not samples:
            raise InputError(
                f"{self.folder} has a result but no samples: restore samples.jsonl (or samples.jsonl.gz)."
            )
        return samples


def folder_name(task: str, split: str) -> str:
    """The name of an evaluation's folder: a task's name may hold a colon or a path."""
    return f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', task).strip('-')}-{split}"


def find_evaluations(place: Path, split: str = "*") -> list[EvaluationFolder]:
    """The finished evaluations of a split below a folder, or of every split."""
    return [EvaluationFolder(path.parent) for path in sorted(place.glob(f"*-{split}/result.json"))]
