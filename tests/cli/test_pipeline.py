"""`octopia pipeline` and `octopia reproduce` as whole processes, at tiny scale: screen, folder and exit code."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, CompletedProcess

import pyarrow.parquet as pq
import pytest

from octopia.cli import entry
from tests.commands import Command, run
from tests.patience import PATIENT_SPARK

# A run takes a minute of an idle machine, and a busy one has other things to do.
pytestmark = pytest.mark.timeout(1200)

PATIENT_OCTOPIA = f"{PATIENT_SPARK}\nfrom octopia.cli import main\nmain()"
QUICK = [
    *("--conf", "spark.driver.memory=1g"),
    *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    *("--conf", "spark.sql.shuffle.partitions=1"),
    *("--conf", "spark.sql.adaptive.enabled=false"),
    # To compile a plan takes longer than to run it over a few rows.
    *("--conf", "spark.sql.codegen.wholeStage=false"),
    *("--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
]
TINY = "--overlay path:2 --clusters 2 --publishers 3 --subscribers 8 --notifications 20 --scale 0.2 --selectivity 0.3"


def octopia(*arguments: str) -> CompletedProcess[str]:
    return run(*arguments, env={**os.environ, "COLUMNS": "200"})


Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """The command in this process, for what ends before Spark starts: exit code, standard output, standard error."""

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["octopia", *arguments])
        code = entry.run()
        return code, *capfd.readouterr()

    return called


def test_from_quotes_to_a_report_and_a_second_time_nothing(tmp_path: Path) -> None:
    quotes = tmp_path / "quotes.csv"
    lines = ["date,open,high,low,close,volume,Name"]
    for symbol in range(6):
        lines += [f"2018-02-{d:02},{d}.5,{d + 1}.0,{d}.0,{d}.7,{1000 * d},S{symbol}" for d in range(1, 25)]
    quotes.write_text("\n".join([*lines, "2018-02-30,1,1,1,1,1,S1"]) + "\n")
    out = tmp_path / "out"
    command = ["pipeline", "run", "--quotes", str(quotes), *TINY.split(), "--systems", "snr", "--out", str(out)]
    done = octopia(*command, *QUICK)
    assert (
        done.returncode,
        "Audit passed: 0 lost, 0 duplicated, 0 unwanted, no time was promised." in done.stdout,
    ) == (0, True), done.stdout + done.stderr
    assert done.stdout.endswith(f"Report: {out}/report/index.html\n")
    assert "quotes: 1 of 145 rows are not valid quotes" in done.stderr
    assert (pq.read_table(out / "quotes").num_rows, pq.read_table(out / "rejects").num_rows) == (144, 1)
    assert pq.read_table(out / "publications").num_rows == 3 * 4
    assert (out / "report" / "index.html").read_text().startswith("<!doctype html>")
    again = octopia(*command)
    assert (again.returncode, again.stdout.count("unchanged, skipped")) == (0, 8)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["pipeline", "trut"], "octopia: no stage is called 'trut' (did you mean truth?); choose from run, quotes, "),
        (["pipeline", "run", "--systems", "snr,xyz"], "octopia: systems: unknown routing 'xyz'"),
        (["pipeline", "run", "--scale", "2"], "octopia: --scale 2: give a share above 0 and up to 1"),
        (["pipeline", "run", "--master", "spork"], "octopia: master 'spork' is not a Spark master: use local[*]"),
        (["reproduce", "--experiments", "brust"], "octopia: no experiment is called 'brust' (did you mean burst?)"),
        (["reproduce", "--grid", "tau"], "octopia: --grid tau: write KEY=A,B, for example subscribers=500,2000"),
        (["reproduce", "--grid", "taw=1,2"], "octopia: --grid taw=1: "),
        (["reproduce", "--grid", "tau=1", "--grid", "tau=2"], "octopia: --grid tau=2: tau is there twice; "),
        (["reproduce", "--grid", "publishers=1,2"], "octopia: --grid publishers: experiment publishers goes through "),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_runs(
    arguments: list[str], line: str, tmp_path: Path, here: Here
) -> None:
    code, screen, errors = here(*arguments, "--out", str(tmp_path / "out"))
    assert (code, screen, errors.startswith(line)) == (2, "", True), errors
    assert not (tmp_path / "out").exists()


def test_a_stage_alone_needs_the_tables_before_it(tmp_path: Path, here: Here) -> None:
    code, _, errors = here("pipeline", "truth", "--out", str(tmp_path))
    line = (
        f"octopia: stage truth needs the table notifications, which is not in {tmp_path}: run stage notifications first"
    )
    assert (code, errors.strip()) == (2, line)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_reproduce_is_stopped_and_goes_on(tmp_path: Path) -> None:
    """Ctrl-C once the first run is there: exit 130, it stays, and the same command finishes all combinations."""
    out = tmp_path / "out"
    command = ["reproduce", "--experiments", "publishers", "--scale", "0.02", "--seeds", "1", "--systems", "snr,tid"]
    command += ["--set", "overlay=path:3", "--grid", "clusters=2,3", "--set", "subscribers=5", "--out", str(out)]
    command += ["--set", "notifications_per_publisher=20", "--master", "local[1]", *QUICK]
    command += ["--set", "points=[100, 200]"]
    process = Command(*command, script=PATIENT_OCTOPIA, stdout=PIPE, stderr=PIPE, start_new_session=True)
    while not list(out.glob("clusters=2/publishers/runs/*/result.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    screen, errors = process.communicate()
    assert (process.returncode, screen) == (130, "")
    assert errors.startswith("Interrupted: finished runs are kept in")
    kept = {file: file.stat().st_mtime_ns for file in out.glob("clusters=2/publishers/runs/*/result.json")}
    done = octopia(*command)
    assert done.returncode == 0, done.stderr
    assert "All checks passed in all 8 runs" in done.stdout
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    page = (out / "index.html").read_text()
    assert "Publisher scalability" in page
    assert [page.count(f"<h1>clusters={count}</h1>") for count in (2, 3)] == [1, 1]
    assert page.count("<svg") == len(list(out.glob("clusters=*/publishers/figures/*.svg")))
