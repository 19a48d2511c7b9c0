"""`agon doctor` reports what is there, and how to fix what is missing."""

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from agon.cli import main
from agon.commands import doctor
from agon.engines.build import ENGINES
from agon.planning import machine
from agon.planning.machine import Finding, check_library, check_sandbox, examine


@pytest.fixture(scope="module")
def findings() -> dict[tuple[str, str], Finding]:
    return {(finding.area, finding.name): finding for finding in examine()}


def test_a_machine_that_runs_these_tests_can_train(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ready"] is True
    assert {finding["area"] for finding in report["findings"]} == {
        "python",
        "library",
        "device",
        "engine",
        "sandbox",
        "disk",
    }


def test_every_required_library_is_checked_against_the_range_of_the_package(
    findings: dict[tuple[str, str], Finding],
) -> None:
    required = [Requirement(line) for line in requires("agon-rl") or () if "extra ==" not in line]
    assert {"torch", "transformers", "trl", "peft"} <= {wanted.name for wanted in required}
    for wanted in required:
        assert findings["library", wanted.name].wanted == str(wanted.specifier)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_the_sandbox_is_run_and_not_only_looked_for(findings: dict[tuple[str, str], Finding]) -> None:
    finding = findings["sandbox", "bubblewrap"]
    assert "a program" in finding.found
    assert (finding.state == "ok") == finding.found.startswith("ran a program")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_every_layer_of_the_sandbox_is_reported_and_a_missing_one_says_why(
    findings: dict[tuple[str, str], Finding],
) -> None:
    layers = {name: finding for (area, name), finding in findings.items() if area == "sandbox"}
    assert {"no new namespaces", "system-call filter", "kernel limits (cgroup)"} <= set(layers)
    assert layers["system-call filter"].state == "ok"
    cgroup = layers["kernel limits (cgroup)"]
    assert cgroup.state == "ok" or (cgroup.found and "cgroup" in cgroup.fix)


def test_every_engine_is_reported(findings: dict[tuple[str, str], Finding]) -> None:
    assert [name for area, name in findings if area == "engine"] == list(ENGINES)
    assert findings["engine", "transformers"].state == "ok"


def test_an_engine_whose_package_is_missing_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    findings = {finding.name: finding for finding in examine() if finding.area == "engine"}
    assert {name: finding.state for name, finding in findings.items()} == {
        "transformers": "missing",
        "vllm": "optional",
        "vllm-server": "ok",
    }
    assert findings["vllm"].fix.startswith("python -m pip install 'vllm")


def library(line: str) -> list[Finding]:
    return list(check_library(Requirement(line)))


def test_a_library_out_of_range_is_missing_and_comes_with_its_command() -> None:
    (finding,) = library("packaging<1")
    assert finding.state == "missing"
    assert finding.fix == "python -m pip install 'packaging<1'"


def test_a_library_that_is_absent_comes_with_its_command() -> None:
    (finding,) = library("no-such-library[fast]>=2,<3")
    assert (finding.state, finding.found) == ("missing", "not installed")
    assert finding.fix == "python -m pip install 'no-such-library[fast]<3,>=2'"


def test_a_library_of_an_extra_is_never_required() -> None:
    assert library("no-such-library; extra == 'fast'") == []
    (finding,) = library("packaging<1; extra == 'fast'")
    assert finding.state == "optional"


def test_what_is_missing_makes_the_check_fail_and_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_missing() -> Iterator[Finding]:
        yield Finding("library", "torch", "missing", "not installed", ">=2.11", "python -m pip install torch")

    monkeypatch.setattr(doctor, "examine", one_missing)
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "torch: python -m pip install torch" in output
    assert "not possible here yet" in output


def test_without_bubblewrap_the_report_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", sys.prefix)
    finding = check_sandbox()
    assert (finding.state, finding.fix) == ("optional", "apt-get install bubblewrap")
