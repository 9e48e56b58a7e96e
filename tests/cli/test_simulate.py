"""`octopia simulate` as a person meets it: a process, two streams, an exit code, and a folder afterwards."""

import json
import os
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.commands import OCTOPIA, run

SMALL = ("--overlay", "path:3", "--clusters", "3", "--seeds", "2", "--jobs", "1", "--selectivity", "0.25")
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/"),
    "COLUMNS": "100",
    "LANG": "C.UTF-8",
    "PYTHONUTF8": "1",
    "NO_COLOR": "1",
    **{name: os.environ[name] for name in ("PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT") if name in os.environ},
}


def octopia(folder: Path, *words: str, code: int | None = 0, script: str = "") -> CompletedProcess[str]:
    """Run the command in a folder; `script` is Python to run before it, in its process."""
    done = run(*words, script=f"{script}\n{OCTOPIA}", cwd=folder, env=ENVIRONMENT)
    assert code is None or done.returncode == code, done.stderr
    return done


def test_help_lists_the_experiments_and_what_scale_does(tmp_path: Path) -> None:
    text = octopia(tmp_path, "simulate", "--help").stdout
    for name in (
        "publishers:",
        "subscribers:",
        "delivery:",
        "delivery-publishers:",
        "burst:",
        "bursts:",
        "crash:",
        "slow-link:",
        "churn:",
        "failures:",
        "sites:",
        "priorities:",
    ):
        assert f" {name} " in text
    for option in ("--systems", "--seeds", "--scale", "--out", "--jobs", "--file", "--set", "--keep-traces", "--tau"):
        assert option in text
    assert "never changes rates" in " ".join(text.split())


def test_a_run_prints_means_and_the_paper_and_leaves_a_folder(tmp_path: Path) -> None:
    done = octopia(tmp_path, "simulate", "publishers", *SMALL, "--points", "3,6", "--systems", "snr,tid")
    assert done.stderr == ""
    assert "mean ± 95 % interval over 2 seeds" in done.stdout
    # 2 messages per advertisement in a region of three; flooding 9 brokers and 15 links takes 2·15 - 8 = 22
    row = next(line for line in done.stdout.split("IMs per advertisement")[1].splitlines() if "│      " in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["3", "2 ± 0", "22 ± 0"]
    assert "advertisement delay 63.5 %" in " ".join(done.stdout.split())
    assert done.stdout.endswith("All checks passed in all 8 runs.\nReport: out/simulate/publishers/report.html\n")
    folder = tmp_path / "out" / "simulate" / "publishers"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "comparison.json", "figures", "findings.json", "goals.json", "metrics.csv", "metrics.parquet", "report.html",
        "runs", "series.parquet", "settings.toml", "summary.csv", "summary.json",
    }  # fmt: skip
    assert len(list((folder / "runs").iterdir())) == 8
    again = octopia(
        tmp_path, "simulate", "publishers", "--file", "out/simulate/publishers/settings.toml", "--jobs", "1"
    )
    assert "All checks passed in all 8 runs, 8 of them from before." in again.stdout


def test_a_routing_of_ones_own_is_run_anew_when_its_code_changes(tmp_path: Path) -> None:
    code = "from octopia.routing import policy_named\nMINE = policy_named('snr')\n"
    words = (
        "simulate",
        "publishers",
        *SMALL,
        "--points",
        "3",
        "--systems",
        "snr,idea:MINE",
        "--seeds",
        "1",
        "--jobs",
        "2",
    )
    for text, before in ((code, ""), (code + "# more\n", ", 1 of them from before")):
        (tmp_path / "idea.py").write_text(text, encoding="utf-8")
        assert f"All checks passed in all 2 runs{before}.\n" in octopia(tmp_path, *words).stdout


def test_settings_come_from_a_file_then_set_then_options(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "tau = 1\nseeds = 7\nclusters = 4\n[model_parameters.link]\ndelay_ns = 5\n", encoding="utf-8"
    )
    words = (
        "simulate",
        "burst",
        "--file",
        "s.toml",
        "--set",
        "seeds=8",
        "--set",
        "tau=2",
        "--tau",
        "3",
        "--window-ms",
        "20",
    )
    shown = tomllib.loads(octopia(tmp_path, *words, "--show-settings").stdout)
    assert (shown["tau"], shown["seeds"], shown["clusters"], shown["window_s"]) == (3, 8, 4, 0.02)
    assert shown["model_parameters"] == {"link": {"delay_ns": 5}}
    assert shown["points"] == [100000, 80000, 60000, 40000]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            (),
            "which experiment? publishers, subscribers, delivery, delivery-publishers, burst, bursts, crash, slow-link",
        ),
        (("brust",), "no experiment is called 'brust' (did you mean burst?)"),
        (("bursts", "--points", "60"), "bursts is 60: each interests 40 subscribers of its own, and there are 2,000"),
        (("burst", "--systems", "snr,idrr"), "systems: unknown routing 'idrr' (did you mean idr?)"),
        (
            ("burst", "--systems", "snr,none_such:X"),
            "systems: routing 'none_such:X': module 'none_such' cannot be imported",
        ),
        (("burst", "--set", "tau"), "--set tau: write KEY=VALUE"),
        (("burst", "--set", "taw=1"), "no setting is called 'taw' (did you mean tau?)"),
        (("burst", "--vary", "tau"), "--vary tau: give its values with --points"),
        (("publishers", "--publishers", "5"), "this experiment varies publishers: give --points 5"),
        (("burst", "--jobs", "0"), "--jobs 0: at least 1"),
        (("burst", "--scale", "0"), "scale: expected `float` > 0"),
        (("burst", "--file", "none.toml"), "none.toml: cannot be read"),
        (("burst", "--out", "/proc/nothing"), "cannot be made"),
        (("burst", "--model", "fast"), "no model and no file 'fast'"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(words: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = octopia(tmp_path, "simulate", *words, code=2)
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


# Let something happen at one of the runs.
HOOK = """
import importlib
module = importlib.import_module("octopia.experiments.sweep")
real, calls = module.run_cell, []
def run_cell(cell, folder, **named):
    calls.append(cell)
    if len(calls) == {number}:
        {what}
    return real(cell, folder, **named)
module.run_cell = run_cell
"""


def test_an_interrupt_leaves_complete_runs_says_so_and_exits_130(tmp_path: Path) -> None:
    words = ("simulate", "publishers", *SMALL, "--points", "3,6", "--systems", "snr,tid")
    script = HOOK.format(number=4, what="raise KeyboardInterrupt")
    done = octopia(tmp_path, *words, code=130, script=script)
    assert "Interrupted: 3 of 8 runs are finished and complete in out/simulate/publishers" in done.stderr
    folder = tmp_path / "out" / "simulate" / "publishers"
    assert len(list((folder / "runs").glob("*/result.json"))) == 3
    assert len(list((folder / "runs").iterdir())) == 3
    assert (folder / "report.html").exists()
    after = octopia(tmp_path, *words)
    assert "All checks passed in all 8 runs, 3 of them from before." in after.stdout


def test_a_failed_run_is_named_and_the_exit_code_is_1(tmp_path: Path) -> None:
    words = ("simulate", "publishers", *SMALL, "--points", "3", "--systems", "snr")
    script = HOOK.format(number=2, what="raise MemoryError('no room')")
    done = octopia(tmp_path, *words, code=1, script=script)
    assert done.stderr == "run 3-snr-seed1 failed: no room\n"
    assert "All checks passed" not in done.stdout


def test_a_broken_promise_is_named_and_the_exit_code_is_1(tmp_path: Path) -> None:
    faults = "".join(
        f'[[faults]]\nwhat = "link"\nkind = "loss"\nsender = ["b", {c}]\nreceiver = ["{end}", {c}]\n'
        "from_ns = 0\nuntil_ns = 1000000000000\n"
        for c in range(3)
        for end in "ac"
    )
    (tmp_path / "s.toml").write_text(f"publishers = 4\nnotifications_per_publisher = 5\n{faults}", encoding="utf-8")
    words = ("simulate", "delivery", *SMALL, "--points", "12", "--systems", "snr", "--file", "s.toml")
    done = octopia(tmp_path, *words, code=1)
    assert "not true: no message is lost between brokers" in done.stderr
    findings = json.loads((tmp_path / "out/simulate/delivery/findings.json").read_text(encoding="utf-8"))
    assert any(not finding["passed"] for finding in findings)
    assert "Promises were broken" in (tmp_path / "out/simulate/delivery/report.html").read_text(encoding="utf-8")


def test_traces_are_kept_when_asked_for(tmp_path: Path) -> None:
    words = ("simulate", "publishers", *SMALL, "--points", "3", "--systems", "snr", "--seeds", "1")
    octopia(tmp_path, *words)
    runs = tmp_path / "out/simulate/publishers/runs"
    assert not list(runs.glob("*/trace"))
    octopia(tmp_path, *words, "--keep-traces")
    assert (runs / "3-snr-seed0" / "trace" / "hops.parquet").exists()
