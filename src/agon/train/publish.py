"""A finished run on the Hub: a folder with the adapters, the tokenizer, a card, and what opens it as a run again.

What stays here: duels, checkpoints, samples, the problems themselves, and every path of this machine.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.embedded import EMBEDDED, base_path
from agon.errors import InputError
from agon.evaluate.target import Target, open_target
from agon.runs.files import read_json, write_json
from agon.runs.folder import Run
from agon.runs.trust import all_or_nothing
from agon.train.hub_card import CardFacts, hub_card
from agon.train.model_card import model_card

_REPO = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")
# Options that name a place of the machine that trained.
PLACES = ("output_dir", "logging_dir", "task_path", "adapter_dir", "adapters_from", "task", "model")


def publish(
    run: Run | str | Path,
    repo: str | None,
    private: bool = False,
    licence: str | None = None,
    token: str | None = None,
    dry_run: str | Path | None = None,
    trust_run_code: bool = False,
) -> str:
    """Upload a run, or with `dry_run` write the folder that would be; returns the address, or the folder."""
    if not repo or not _REPO.fullmatch(repo):
        raise InputError(f"A repository of the Hub is named OWNER/NAME, not '{repo or ''}'.")
    where = str(run.folder if isinstance(run, Run) else run)
    target = open_target(where, all_or_nothing(where, trust_run_code))
    if dry_run is not None:
        folder = Path(dry_run)
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"'{folder}' is not empty: choose another folder for what would be uploaded.")
        write_folder(target, repo, folder, licence)
        return str(folder)
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        write_folder(target, repo, folder, licence)
        api = HfApi(token=token)
        try:
            made = api.create_repo(repo, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=made.repo_id,
                folder_path=str(folder),
                commit_message="Upload a pair trained with Agon",
            )
        except (HfHubHTTPError, OSError, ValueError) as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"The Hub did not take '{repo}' ({said}): log in with `hf auth login`, or check the name."
            ) from error
    return str(made)


def write_folder(target: Target, repo: str, folder: Path, licence: str | None = None) -> None:
    """Write what is uploaded of a run."""
    run = target.run
    if run is None or target.method is None:
        raise InputError(f"'{target.name}' is not a run: give the folder of a finished one.")
    run.refuse_damaged_adapters()
    config, task, summary = dict(target.config), dict(target.task), dict(target.summary)
    results = [each.read_result() for each in run.evaluated("test")]
    tokenizer = target.settings.load_tokenizer()
    names = {
        "model": str(_placeless("model", target.model)),
        "task": str(_placeless("task", task.get("spec") or task.get("name"))),
    }
    facts = CardFacts(
        repo=repo,
        model=names["model"],
        policies=target.policies,
        method=target.method,
        config=config,
        task=task,
        summary=summary,
        results=results,
        chat=target.settings.chat(tokenizer),
        direction=_direction(target, results),
        licence=licence or base_licence(target.model),
        tokenizer=type(tokenizer).__name__,
        extended=run.read_extensions(),
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))
    (folder / "README.md").write_text(hub_card(facts), "utf-8")
    copy = Run(folder)
    for policy in target.policies:
        shutil.copytree(run.adapters / policy, copy.adapters / policy)
        card = model_card(policy, target.policies, target.method, names, int(summary.get("steps", 0)))
        copy.write_model_card(policy, card)
        _without_places(copy.adapters / policy)
    copy.write_config({name: _placeless(name, value) for name, value in config.items()})
    copy.write_task({**task, "spec": names["task"], "path": None, "stored": False})
    copy.write_summary({**summary, **{name: names[name] for name in names if name in summary}})
    for result in results:
        copy.evaluation(str(result["task"]), "test").write_result(result)


def base_licence(model: str) -> str | None:
    """The licence that the base's own card names, if the card is on this machine."""
    if model == EMBEDDED:
        return "apache-2.0"  # that of the package it ships with
    card: str | Path | None
    if os.path.isdir(model):
        card = Path(model) / "README.md"
    else:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(model, "README.md")
        card = found if isinstance(found, str) else None
    if card is None or not Path(card).is_file():
        return None
    stated = re.search(r"\A---\n.*?^license: *(\S+)", Path(card).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return stated.group(1) if stated else None


def _direction(target: Target, results: list[dict[str, Any]]) -> str:
    if results and isinstance(results[0].get("direction"), str):
        return str(results[0]["direction"])
    return f"{target.policies[0]}->{target.policies[-1]}"


def _placeless(name: str, value: Any) -> Any:
    """A place of this machine by its last name; everything else as it is."""
    if name not in PLACES or not isinstance(value, str) or not value.startswith(("/", "~", "./", "../")):
        return value
    head, comma, options = value.partition(",")
    return os.path.basename(head.rstrip("/")) + comma + options


def _without_places(adapter: Path) -> None:
    """PEFT writes the base's folder into an adapter's configuration."""
    path = adapter / "adapter_config.json"
    config: Mapping[str, Any] = read_json(path)
    base = config.get("base_model_name_or_path")
    if isinstance(base, str) and os.path.isabs(base):
        named = EMBEDDED if Path(base) == base_path() else os.path.basename(base)
        write_json(path, {**config, "base_model_name_or_path": named})
