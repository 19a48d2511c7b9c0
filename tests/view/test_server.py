"""The server answers its own page, and nobody and nothing else."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from agon.errors import InputError
from agon.view.api import QUESTIONS
from agon.view.library import Library
from agon.view.overview import curves
from agon.view.server import STATIC, Viewer, static_files
from agon.view.sources import open_runs
from tests.view import make

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("runs")
    make.run(folder / "one")
    make.run(folder / "two", seed=5)
    (folder / "secret.txt").write_text("a secret")
    with Viewer(Library(open_runs([folder / "one", folder / "two"]), cached=False), "127.0.0.1", 0) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def get(viewer: Viewer, path: str, method: str = "GET", **headers: str) -> Answer:
    connection = http.client.HTTPConnection(*viewer.server_address[:2], timeout=20)  # type: ignore[arg-type]
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent = {"Host": f"127.0.0.1:{viewer.server_address[1]}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def ask(viewer: Viewer, question: str, **words: Any) -> tuple[int, Any]:
    status, _, body = get(viewer, f"/api/{question}?{urlencode(words)}")
    return status, json.loads(body)


HERE = {"run": "one", "source": "training"}


def test_every_question_is_answered(viewer: Viewer) -> None:
    extra = {
        **{key: {"id": "1.3"} for key in ("duel", "raw", "group", "neighbours")},
        "compare": {"runs": "one|two", "source": "training"},
    }
    for question in QUESTIONS:
        status, told = ask(viewer, question, **{**HERE, **extra.get(question, {})})
        assert (status, "error" in told) == (200, False), question


def test_a_list_says_what_its_duels_are(viewer: Viewer) -> None:
    _, told = ask(viewer, "duels", **HERE, outcome="converted", count=100)
    assert told["total"] == len(told["lines"]) == 3 * 2
    assert {line["outcome"] for line in told["lines"]} == {"converted"}
    line = told["lines"][0]
    assert (line["draft"]["correct"], line["challenge"]["correct"], line["challenge"]["reward"]) == (
        False,
        True,
        3.5,
    )


def test_a_duel_has_its_texts_marked_and_its_group(viewer: Viewer) -> None:
    _, told = ask(viewer, "duel", **HERE, id="1.1")
    kinds = [kind for kind, _ in told["draft"]["stretches"]]
    assert kinds == ["private", "shown", "withheld"]
    assert told["draft"]["stretches"][2][1] == f"<answer>{told['draft']['answer']}</answer>"
    assert told["group"]["ids"] == ["1.0", "1.1", "1.2", "1.3"]
    assert told["group"]["challenge"]["rewards"][1] == told["challenge"]["reward"]
    _, group = ask(viewer, "group", **HERE, id="1.1")
    assert [duel["id"] for duel in group["duels"]] == told["group"]["ids"]


def test_neighbours_are_those_of_the_list_that_is_shown(viewer: Viewer) -> None:
    _, told = ask(viewer, "duels", **HERE, outcome="corrupted", count=100)
    names = [line["id"] for line in told["lines"]]
    _, beside = ask(viewer, "neighbours", **HERE, outcome="corrupted", id=names[1])
    assert (beside["place"], beside["before"], beside["after"]) == (1, names[0], names[2])
    assert ask(viewer, "neighbours", **HERE, outcome="converted", id=names[1])[1]["place"] is None


def test_runs_are_paired_by_problem(viewer: Viewer) -> None:
    _, told = ask(viewer, "compare", runs="one|two", source="training")
    assert told["total"] == 6
    assert {tuple(pair["n"]) for pair in told["pairs"]} == {(4, 4)}
    _, differing = ask(viewer, "compare", runs="one|two", source="training", differ=1)
    assert differing["total"] == sum(pair["spread"] > 0 for pair in told["pairs"])


def test_curves_tell_the_roles_apart(viewer: Viewer) -> None:
    _, told = ask(viewer, "curves", run="one")
    lines = {line["label"]: [step for step, _ in line["points"]] for line in told["panels"][0]["lines"]}
    assert lines == {"A drafts": [0, 2], "B drafts": [1], "A challenges": [1], "B challenges": [0, 2]}
    assert told["outcomes"] == {"both-right": 6, "converted": 6, "corrupted": 6, "both-wrong": 6}


def test_validations_are_points_beside_the_curves(tmp_path: Path) -> None:
    run = make.run(tmp_path / "validated", range(4))
    for step in (2, 4):
        run.add_metrics(
            {
                "step": step,
                "eval_best": step / 8,
                "eval_A/correct": 0.25,
                "eval_B/correct": None,
                "eval_union": 1,
            }
        )
    panels = {panel["title"]: panel["lines"] for panel in curves(open_runs([run.folder])[0], None)}
    points = {line["label"]: line["points"] for line in panels["Validation, right"]}
    assert points == {"A alone": [(1, 0.25), (3, 0.25)], "cascade, better direction": [(1, 0.25), (3, 0.5)]}
    assert "Validation, right" not in {
        panel["title"] for panel in curves(open_runs([make.run(tmp_path / "not").folder])[0], None)
    }


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/../secret.txt",
            "/..%2fsecret.txt",
            "/%2e%2e/secret.txt",
            "/katex/../../server.py",
            "//etc/passwd",
        ),
        *(
            "/etc/passwd",
            "/static/main.js",
            "/main.js/",
            "/MAIN.JS",
            "/katex",
            "/katex/LICENSE/..",
            "/main.js%00.css",
        ),
        *("/./main.js", "\\..\\secret.txt", "http://127.0.0.1/main.js", "*"),
    ],
)
def test_no_path_leads_out_of_the_page(path: str, viewer: Viewer) -> None:
    status, _, body = get(viewer, path)
    assert (status, body) == (404, b"")


@pytest.mark.parametrize(
    "name", ["../secret", "one/../../secret", "/etc", "", "training/../one", "one\0", "three"]
)
def test_no_name_leads_out_of_the_runs_that_were_opened(name: str, viewer: Viewer) -> None:
    for words in ({"run": name, "source": "training"}, {"run": "one", "source": name}):
        status, told = ask(viewer, "duels", **words)
        assert status == 400
        assert set(told) == {"error"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.7",
        "[::2]",
    ],
)
def test_a_foreign_name_for_this_machine_is_refused(host: str, viewer: Viewer) -> None:
    assert get(viewer, "/api/runs", Host=host)[0] == 421
    assert get(viewer, "/", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.0.0.1:1"])
def test_a_name_of_our_own_is_not(host: str, viewer: Viewer) -> None:
    assert get(viewer, "/api/runs", Host=host)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", ""]
)
def test_a_foreign_origin_is_refused(origin: str, viewer: Viewer) -> None:
    assert get(viewer, "/api/runs", Origin=origin)[0] == 403


def test_what_another_site_asks_for_is_refused_but_a_link_to_the_page(viewer: Viewer) -> None:
    for site in ("cross-site", "same-site"):
        for path in ("/api/runs", "/main.js", "/"):
            assert get(viewer, path, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403
        assert get(viewer, "/", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")[0] == 200
        assert get(viewer, "/api/runs", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate")[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_but_reading_is_answered(method: str, viewer: Viewer) -> None:
    assert get(viewer, "/api/runs", method)[0] == 501


def test_an_oversize_query_is_refused(viewer: Viewer) -> None:
    assert get(viewer, "/api/duels?search=" + "x" * 9000)[0] == 414
    assert get(viewer, "/" + "x" * 70_000)[0] == 414
    status, told = ask(viewer, "duels", **HERE, search="x" * 3000)
    assert (status, "3000 characters" in told["error"]) == (400, True)
    assert get(viewer, "/api/duels?" + "&".join(f"a{n}=1" for n in range(60)))[0] == 400
    assert ask(viewer, "duels", **HERE, count=201)[0] == 400
    assert ask(viewer, "duels", **HERE, count="1e9")[0] == 400
    assert ask(viewer, "duels", **HERE, **{"from": 99_999_999, "count": 10})[1]["lines"] == []


def test_a_request_that_never_ends_holds_up_nobody(viewer: Viewer) -> None:
    with socket.create_connection(viewer.server_address[:2]) as silent:  # type: ignore[arg-type]
        silent.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert get(viewer, "/api/runs")[0] == 200


def test_every_answer_carries_the_policy(viewer: Viewer) -> None:
    for path in ("/", "/main.js", "/nothing", "/api/runs", "/api/nothing"):
        _, headers, _ = get(viewer, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "trusted-types 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "python" not in headers["server"].lower()
    for method in ("POST", "<script>"):
        status, headers, body = get(viewer, "/", method)
        assert (status, body) == (501, b"")
        assert "default-src 'none'" in headers["content-security-policy"]


def test_the_page_has_no_way_to_turn_text_into_markup() -> None:
    ours = [path for path in STATIC.glob("*") if path.is_file()]
    sinks = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    )
    outside = ("http://", "https://", "//cdn", "@import")
    found = [
        (path.name, word)
        for path in ours
        for word in (*sinks, *outside, " style=", "onclick=")
        if word in path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    ]
    assert found == []
    assert len(ours) > 10
    assert all(f"/{path.name}" in static_files() for path in ours)


def test_a_port_that_is_taken_is_one_sentence(viewer: Viewer) -> None:
    with pytest.raises(InputError, match="choose another --port"):
        Viewer(viewer.library, "127.0.0.1", int(viewer.server_address[1]))


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither a run nor evaluations"):
        open_runs([tmp_path])
    with pytest.raises(InputError, match="There is no run"):
        open_runs([tmp_path / "gone"])


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    make.run(tmp_path / "one")
    words = [sys.executable, "-m", "agon.cli", "view", str(tmp_path / "one"), "--port", "0", "--converted"]

    def heed_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs start with it ignored

    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts) as process:
        assert process.stdout
        try:
            url, _, link = process.stdout.readline().strip().partition("#")
            assert link == "/duels?run=one&source=training&outcome=converted"
            with urlopen(f"{url}api/duels?{link.partition('?')[2]}") as answer:
                assert json.load(answer)["total"] == 6
        finally:
            process.send_signal(signal.SIGINT)
            try:
                ended = process.wait(20)
            finally:
                process.kill()
        assert ended == 0
