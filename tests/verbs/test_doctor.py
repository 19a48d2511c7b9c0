"""`agon doctor` says what is there, and what to do about what is not."""

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from agon.cli import main
from agon.verbs import doctor
from agon.verbs.doctor import Finding, examine


@pytest.fixture(scope="module")
def findings() -> dict[tuple[str, str], Finding]:
    return {(finding.area, finding.name): finding for finding in examine()}


def test_a_machine_that_runs_these_tests_can_train(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ready"] is True
    assert {finding["area"] for finding in said["findings"]} == {
        "python",
        "library",
        "device",
        "engine",
        "sandbox",
        "disk",
    }


def test_every_required_library_is_held_against_the_range_of_the_package(
    findings: dict[tuple[str, str], Finding],
) -> None:
    required = [Requirement(line) for line in requires("agon-rl") or () if "extra ==" not in line]
    assert {"torch", "transformers", "trl", "peft"} <= {wanted.name for wanted in required}
    for wanted in required:
        assert findings["library", wanted.name].wanted == str(wanted.specifier)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_the_sandbox_is_tried_and_not_only_looked_for(findings: dict[tuple[str, str], Finding]) -> None:
    finding = findings["sandbox", "bubblewrap"]
    assert "a program" in finding.found
    assert (finding.state == "ok") == finding.found.startswith("ran a program")


def library(line: str) -> list[Finding]:
    return list(doctor._library(Requirement(line)))


def test_a_library_out_of_range_is_missing_and_comes_with_its_command() -> None:
    (finding,) = library("packaging<1")
    assert finding.state == "missing"
    assert finding.mend == "python -m pip install 'packaging<1'"


def test_a_library_that_is_absent_comes_with_its_command() -> None:
    (finding,) = library("no-such-library[fast]>=2,<3")
    assert (finding.state, finding.found) == ("missing", "not installed")
    assert finding.mend == "python -m pip install 'no-such-library[fast]<3,>=2'"


def test_a_library_of_an_extra_is_never_required() -> None:
    assert library("no-such-library; extra == 'serve'") == []
    (finding,) = library("packaging<1; extra == 'serve'")
    assert finding.state == "optional"


def test_what_is_missing_makes_the_check_fail_and_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_missing() -> Iterator[Finding]:
        yield Finding("library", "torch", "missing", "not installed", ">=2.11", "python -m pip install torch")

    monkeypatch.setattr(doctor, "examine", one_missing)
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "torch: python -m pip install torch" in said
    assert "not possible here yet" in said


def test_a_machine_without_bubblewrap_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", sys.prefix)
    finding = doctor._sandbox()
    assert (finding.state, finding.mend) == ("optional", "apt-get install bubblewrap")
