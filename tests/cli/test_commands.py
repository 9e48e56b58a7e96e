"""The `octopia` command as a person or a shell meets it: a process with arguments, two streams and an exit code.

Every run here is a real process. Warnings are errors in it, as they are in the tests themselves, and its surroundings
(terminal width, colours, locale) are fixed, so that nothing depends on where the tests run.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

import octopia
from octopia.cli import app
from tests.commands import Command, run

ROOT = Path(__file__).parent.parent.parent
SCENES = ROOT / "src" / "octopia" / "scenes"
FIG7B = str(SCENES / "fig7b.json")
COMMANDS = ("demo", "scenes", "topology", "replay", "explain")
PLAIN = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/"),
    "COLUMNS": "80",
    "LANG": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONWARNINGS": "error",
    # Where coverage or a virtual environment needs them.
    **{name: os.environ[name] for name in ("PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT") if name in os.environ},
}

# What Python heeds only when it starts.
OF_PYTHON = {"LC_ALL", "PYTHONHASHSEED", "PYTHONIOENCODING"}

EXAMPLE: dict[str, Any] = {
    "tree": [["a", "b"], ["b", "c"]],
    "clusters": 3,
    "steps": [
        {"do": "advertise", "client": "P", "at": ["b", 2], "id": "a1", "filter": "x >= 0"},
        {"do": "subscribe", "client": "S1", "at": ["c", 0], "id": "s1", "filter": "x > 3"},
        {"do": "overload", "link": [["b", 2], ["b", 0]], "queue": 50},
        {"do": "publish", "client": "P", "id": "n1", "notification": {"x": 5}},
        {"do": "publish", "client": "P", "id": "n2", "notification": {"x": -5}},
    ],
}
SCREEN = """\
3 regions × 3 clusters, routing idr

○ a ── ● b ── ○ c

region  C0   C1   C2
○ a     a,0  a,1  a,2
● b     b,0  b,1  b,2
○ c     c,0  c,1  c,2

● inner  ○ edge

step 0  P at (b,2): advertise a1  x >= 0  2 messages
  advertise   (b,2) → (b,0)
  advertise   (b,2) → (b,1)

step 1  S1 at (c,0): subscribe s1  x > 3  3 messages
  subscribe   (c,0) → (b,0)
  subscribe   (b,0) → (a,0)
  cib_set     (b,0) → (b,2)

step 2  overload (b,2) → (b,0), queue 50  0 messages

step 3  P at (b,2): publish n1  [x,5]  2 messages
  notify      (b,2) → (b,0)
  notify      (b,0) → (c,0)
  S1 gets n1 at (c,0) for s1

step 4  P at (b,2): publish n2  [x,-5]  0 messages
  refused: P did not advertise this: advertisement 'a1': x >= 0 failed: x is -5

Tables at the end, as SRT/PRT entries
region  C0   C1   C2
a       0/1  0/0  0/0
b       1/1  1/0  1/0
c       0/1  0/0  0/0

Advertisements in force at the end
id  client  host broker  CIV  target clusters
a1  P       (b,2)        101  0
"""
ANSWERS = """\
S1 got n1 of P
  matches subscription s1
  published at (b,2), delivered at (c,0), 2 hops
  (b,2) → (b,0) by iLink
  (b,0) → (c,0) by aLink

S1 did not get n2 of P
  the notification was refused: P did not advertise this: advertisement 'a1': x >= 0 failed: x is -5
"""


def test_tables_at_the_end_are_in_the_order_of_the_overlay(tmp_path: Path) -> None:
    # Cluster 0 has entries in b alone, cluster 1 in all regions.
    steps = [
        {"do": "advertise", "client": "P", "at": ["b", 1], "id": "a1", "filter": "x >= 0"},
        {"do": "subscribe", "client": "S", "at": ["a", 1], "id": "s1", "filter": "x > 3"},
    ]
    file = tmp_path / "scene.json"
    file.write_text(json.dumps({"tree": "path:3", "clusters": 2, "routing": "snr", "steps": steps}), encoding="utf-8")
    done = octopia_command("replay", str(file))
    table = done.stdout.partition("Tables at the end")[2].splitlines()[2:5]
    assert [line.split() for line in table] == [["a", "0/0", "0/1"], ["b", "1/0", "1/1"], ["c", "0/0", "0/1"]]


def octopia_command(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    environment = PLAIN | (environment or {})
    if not environment.keys() & OF_PYTHON:
        return run(*arguments, env=environment, cwd=cwd)
    return subprocess.run(
        [sys.executable, "-m", "octopia", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=cwd,
        check=False,
    )


def result_of(*arguments: str, **options: Any) -> str:
    """Standard output of a run that works and has nothing else to say."""
    done = octopia_command(*arguments, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failure_of(*arguments: str, code: int = 2, **options: Any) -> str:
    """The one line on standard error of a run that fails."""
    done = octopia_command(*arguments, **options)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.removesuffix("\n")


def trimmed(text: str) -> str:
    """Tables fill their last column with blanks, which are invisible."""
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


@pytest.fixture
def example(tmp_path: Path) -> str:
    file = tmp_path / "example.json"
    file.write_text(json.dumps(EXAMPLE), encoding="utf-8")
    return str(file)


# ---- help, version, completion -------------------------------------------------------------------------------------


def test_help_on_each_level() -> None:
    top = result_of("--help")
    assert [name for name in COMMANDS if f"│ {name} " not in top] == []
    assert "Start with: octopia demo." in top
    # Every line of help is a whole sentence.
    assert [entry.name for entry in app.COMMANDS if not entry.help.endswith(".")] == []
    pages = {name: result_of(name, "--help") for name in COMMANDS}
    assert [name for name in COMMANDS if not pages[name].lstrip().startswith(f"Usage: octopia {name} ")] == []
    # A flag takes no value and shows none; an option with a value shows its type.
    assert [name for name in COMMANDS if "<bool>" in pages[name]] == []
    assert re.search(r"--routing +-r +ROUTING ", pages["replay"])
    assert result_of("replay", "-h") == pages["replay"]


def test_no_command_shows_the_help_and_is_a_usage_error() -> None:
    done = octopia_command()
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.strip() == result_of("--help").strip()


def test_version_by_module_and_by_script() -> None:
    assert result_of("--version") == f"octopia {octopia.__version__}\n"
    script = Path(sys.executable).with_name("octopia")
    if script.exists():
        done = subprocess.run([str(script), "--version"], capture_output=True, text=True, env=PLAIN, check=True)
        assert done.stdout == f"octopia {octopia.__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell is asked")
def test_completion_for_the_shell_it_is_asked_from() -> None:
    # `; true` keeps the shell from making way for the command: completion looks for its parent.
    line = f"'{sys.executable}' -m octopia --show-completion; true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=PLAIN, check=True)
    assert done.stderr == ""
    assert done.stdout.rstrip().endswith("complete -o default -F _octopia_completion octopia")


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", {"COMP_WORDS": "octopia re", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "octopia re"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "octopia re", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_completion_completes_a_command(shell: str, words: dict[str, str]) -> None:
    output = result_of(environment={"_OCTOPIA_COMPLETE": f"complete_{shell}", **words})
    assert "replay" in output
    assert not [name for name in ("demo", "topology", "explain") if name in output]


# ---- errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command 'frobnicate'."),
        (["--frobnicate"], "No such option: --frobnicate"),
        (["replay"], "Missing argument 'FILE'."),
        (["replay", "--frobnicate", FIG7B], "No such option: --frobnicate"),
        (["explain"], "Missing argument 'FILE'."),
        (["replay", FIG7B, "another"], "Got unexpected extra argument(s) (another)"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str) -> None:
    done = octopia_command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: octopia ")
    assert f"│ {words}" in done.stderr


@pytest.mark.parametrize("command", ["replay", "explain"])
def test_wrong_files(command: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"tree": "h",\n "steps": [}', encoding="utf-8")
    assert (
        failure_of(command, str(bad)) == f"octopia: {bad}: line 2, column 12: is not JSON: expecting value, found '}}'"
    )
    bad.write_text(json.dumps(EXAMPLE | {"steps": [{"do": "leave", "client": "X"}]}), encoding="utf-8")
    hint = "a client is known from its first advertise or subscribe on"
    assert failure_of(command, str(bad)) == f"octopia: {bad}: steps[0].client: unknown client 'X'; {hint}"
    broken_filter = EXAMPLE["steps"][0] | {"filter": "x >"}
    bad.write_text(json.dumps(EXAMPLE | {"steps": [broken_filter]}), encoding="utf-8")
    assert failure_of(command, str(bad)).startswith(f"octopia: {bad}: steps[0].filter: ")
    assert "at position 3" in failure_of(command, str(bad))
    missing = tmp_path / "no.json"
    assert failure_of(command, str(missing)) == f"octopia: {missing}: cannot be read: No such file or directory"
    assert failure_of(command, str(tmp_path)) == f"octopia: {tmp_path}: cannot be read: Is a directory"


def test_wrong_values() -> None:
    routings = "the routings are snr, idr, fdr, tid, tid-dynamic, or MODULE:NAME of your own"
    assert failure_of("replay", FIG7B, "--routing", "x") == f"octopia: unknown routing 'x'; {routings}"
    assert failure_of("explain", FIG7B, "-r", "x") == f"octopia: unknown routing 'x'; {routings}"
    assert failure_of("explain", FIG7B, "-c", "s1") == "octopia: no client 's1' in this scenario (did you mean S1?)"
    assert failure_of("explain", FIG7B, "-n", "q") == "octopia: no notification 'q' in this scenario; there is n1"
    assert failure_of("topology", "evaluatoin").startswith("octopia: no tree is called 'evaluatoin' (did you mean eval")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "x.svg"
    line = f"octopia: {nowhere}: cannot be written: No such file or directory"
    assert failure_of("replay", FIG7B, "--draw", str(nowhere)) == line
    assert failure_of("replay", FIG7B, "--draw", "x.pdf") == (
        "octopia: x.pdf: a picture is written as .svg or .png, not .pdf"
    )
    file = tmp_path / "file"
    file.write_text("")
    line = f"octopia: {file / 'scenes' / 'index.html'}: cannot be written: Not a directory"
    assert failure_of("scenes", "--out", str(file / "scenes")) == line


def test_brackets_in_a_name_are_no_markup(tmp_path: Path) -> None:
    odd = tmp_path / "[bold]x[/]"
    assert failure_of("replay", str(odd)) == f"octopia: {odd}: cannot be read: No such file or directory"
    assert f"\nReport: {odd / 'index.html'}\n" in result_of("scenes", "--out", str(odd))


# ---- replay --------------------------------------------------------------------------------------------------------


def test_replay_for_a_person(example: str) -> None:
    assert trimmed(result_of("replay", example)) == SCREEN


def test_replay_with_explanations_and_a_drawing(example: str, tmp_path: Path) -> None:
    picture = tmp_path / "last.svg"
    output = trimmed(result_of("replay", example, "--explain", "--draw", str(picture)))
    assert output == f"{SCREEN}\n{ANSWERS}\ndrawn: {picture}\n"
    assert picture.read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_replay_for_a_program(example: str, tmp_path: Path) -> None:
    record = json.loads(result_of("replay", example, "--json"))
    assert list(record) == ["steps", "tables", "advertisements"]
    assert record["steps"][3] == {
        "step": 3,
        "messages": [
            {"kind": "notify", "from": ["b", 2], "to": ["b", 0], "civ": None},
            {"kind": "notify", "from": ["b", 0], "to": ["c", 0], "civ": None},
        ],
        "deliveries": [{"client": "S1", "notification": "n1", "subscriptions": ["s1"]}],
    }
    assert record["advertisements"] == [{"id": "a1", "civ": "101", "target_clusters": [0]}]
    # A drawing says nothing; explanations are one more key.
    drawn = result_of("replay", example, "--json", "--explain", "--draw", str(tmp_path / "x.png"))
    explained = json.loads(drawn)
    assert [answer["delivered"] for answer in explained.pop("explanations")] == [True, False]
    assert explained == record


def test_replay_under_another_routing(example: str) -> None:
    output = result_of("replay", example, "--routing", "tid")
    assert output.startswith("3 regions × 3 clusters, routing tid\n")
    assert "step 0  P at (b,2): advertise a1  x >= 0  22 messages\n" in output
    assert "a1  P       (b,2)        –    –" in output
    assert json.loads(result_of("replay", example, "-r", "tid", "--json"))["advertisements"] == [
        {"id": "a1", "civ": None, "target_clusters": None}
    ]


def test_replay_of_toml(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('title = "A [title]"\ntree = "path:2"\nclusters = 1\nsteps = []\n', encoding="utf-8")
    assert result_of("replay", str(file)) == (
        "A [title]\n2 regions × 1 clusters, routing idr\n\n○ a ── ○ b\n\nregion  C0\n○ a     a,0\n○ b     b,0\n\n"
        "● inner  ○ edge\n\nAll tables are empty at the end.\n"
    )


def test_a_large_replay_is_cut_for_a_person_and_whole_for_a_program(tmp_path: Path) -> None:
    file = tmp_path / "flood.json"
    steps = [{"do": "advertise", "client": "P", "at": ["F", 2], "id": "a1", "filter": "x > 0"}]
    file.write_text(json.dumps({"tree": "evaluation", "routing": "tid", "steps": steps}), encoding="utf-8")
    output = result_of("replay", str(file))
    assert output.count("\n  advertise ") == 200
    assert "\n  … and 141 more messages (--json tells them all)\n" in output
    assert "\nN       1/0  1/0  1/0  1/0  1/0\n" in output
    assert len(json.loads(result_of("replay", str(file), "--json"))["steps"][0]["messages"]) == 341


def test_what_a_file_says_cannot_command_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    steps = [
        {"do": "advertise", "client": "[red]P[/]", "at": "a,0", "id": ":smile:", "filter": "s = 'a\x1b[31m\nb'"},
        {"do": "publish", "client": "[red]P[/]", "id": "n", "notification": {"s": "a\x1b[31m\nb"}},
    ]
    file.write_text(json.dumps({"tree": "path:2", "steps": steps}), encoding="utf-8")
    output = result_of("replay", str(file))
    assert "\x1b" not in output
    assert "step 0  [red]P[/] at (a,0): advertise :smile:  s = 'a [31m b'" in output
    assert "\n:smile:  [red]P[/]  (a,0) " in output


# ---- explain -------------------------------------------------------------------------------------------------------


def test_explain_for_a_person_and_for_a_program(example: str) -> None:
    assert result_of("explain", example) == ANSWERS
    assert result_of("explain", example, "-n", "n2", "-c", "P") == (
        "P did not get n2 of P\n"
        "  the notification was refused: P did not advertise this: advertisement 'a1': x >= 0 failed: x is -5\n"
    )
    assert json.loads(result_of("explain", example, "--json", "-n", "n2", "-c", "S1")) == [
        {
            "notification": "n2",
            "publisher": "P",
            "client": "S1",
            "delivered": False,
            "reasons": [
                "the notification was refused: P did not advertise this: advertisement 'a1': x >= 0 failed: x is -5"
            ],
        }
    ]


def test_explain_with_nothing_to_explain() -> None:
    fig6 = str(SCENES / "fig6.json")
    assert result_of("explain", fig6) == ("Nothing to explain: the scenario has no publications or no subscriptions.\n")
    assert json.loads(result_of("explain", fig6, "--json")) == []


# ---- scenes --------------------------------------------------------------------------------------------------------

# The notes' table of Fig. 7, and SNR of Fig. 8: (scene, notification, routing) -> messages.
NOTES = {
    ("fig7a", "n1", "SNR"): 6,
    ("fig7a", "n1", "IDR"): 6,
    ("fig7b", "n1", "SNR"): 6,
    ("fig7b", "n1", "IDR"): 4,
    ("fig7c", "n1", "SNR"): 6,
    ("fig7c", "n1", "IDR"): 5,
    ("fig7d", "n1", "SNR"): 5,
    ("fig7d", "n1", "IDR"): 5,
    ("fig8", "n1", "SNR"): 4,
    ("fig8", "n2", "SNR"): 6,
    ("fig8", "n3", "SNR"): 8,
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Output on the screen and in files."""
    folder = tmp_path_factory.mktemp("scenes") / "new" / "folder"
    screen = result_of("scenes", "--out", str(folder))
    assert screen.endswith(f"\nReport: {folder / 'index.html'}\n")
    assert [file.name for file in folder.iterdir()] == ["index.html"]
    return screen, (folder / "index.html").read_text(encoding="utf-8")


def test_the_scenes_table_has_the_notes_counts_and_fits_80_columns(scenes: tuple[str, str]) -> None:
    table = [line for line in scenes[0].splitlines() if line.startswith(("│", "┃", "├"))]
    assert all(len(line) == len(table[0]) <= 80 for line in table)
    assert [cell.strip() for cell in table[0].split("┃")[1:-1]] == [
        "scene", "notification", "routing", "messages", "deliveries", "hops", "CIVs",
    ]  # fmt: skip
    counted = {}
    scene = notification = ""
    for line in table[1:]:
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.split("│")[1:-1]]
            scene, notification = cells[0] or scene, cells[1].split(" ")[0] or notification
            counted[scene, notification, cells[2]] = int(cells[3].split(" ")[0])
    assert len(counted) == 40
    assert {key: counted[key] for key in NOTES} == NOTES
    assert "fig7b, SNR: The paper says 5, a slip" in scenes[0]


def test_the_scenes_page_has_the_same_counts_and_every_scene(scenes: tuple[str, str]) -> None:
    rows = re.findall(r'<tr><td>([\w-]+)</td><td>(\w+) of \w+</td><td>(\w+)</td><td class="n">(\d+)</td>', scenes[1])
    counted = {(scene, notification, routing): int(messages) for scene, notification, routing, messages in rows}
    assert len(counted) == 40
    assert {key: counted[key] for key in NOTES} == NOTES
    titles = re.findall(r"<h2>(Fig\. [^:]+|FDR, [^:]+): [^<]*</h2>", scenes[1])
    paper = ["Fig. 7(a)", "Fig. 7(b)", "Fig. 7(c)", "Fig. 7(d)", "Fig. 8", "Fig. 8", "Fig. 8"]
    assert titles == [*paper, "FDR, idle", "FDR, under load", "FDR, two of three clusters cut"]
    assert (
        "It takes cluster 1&#x27;s tree: of the iLinks of (b,2) the one to cluster 1 has the least Q_l, 4" in scenes[1]
    )
    assert (scenes[1].count("<svg"), scenes[1].count("<figure class=card>")) == (40, 40)


def test_the_scenes_page_needs_nothing_from_elsewhere(scenes: tuple[str, str]) -> None:
    # A namespace is a name that looks like an address; nothing is fetched for it.
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", scenes[1])
    assert re.findall(r"https?:|//\w", without_namespaces) == []
    assert re.findall(r"<script|<link|<iframe|<img|<object|@import|\bsrc=", scenes[1]) == []
    assert [target for target in re.findall(r'href="([^"]*)"', scenes[1]) if not target.startswith("#")] == []
    assert re.findall(r"url\((?!#)", scenes[1]) == []


def test_the_scenes_page_is_the_same_every_time(scenes: tuple[str, str], tmp_path: Path) -> None:
    result_of("scenes", "--out", str(tmp_path), environment={"PYTHONHASHSEED": "7"})
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == scenes[1]


# ---- terminals, locales, pipes, interrupts -------------------------------------------------------------------------


@pytest.mark.parametrize("columns", ["40", "10", "1"])
def test_narrow_terminals(columns: str, example: str) -> None:
    narrow = {"COLUMNS": columns}
    # We do not fold text, so nothing changes; tables continue below and lose no digit.
    assert trimmed(result_of("replay", example, environment=narrow)).startswith(SCREEN.partition("Advertisements")[0])
    assert result_of("explain", example, environment=narrow) == ANSWERS
    result_of("topology", "h", environment=narrow)
    result_of("--help", environment=narrow)


def test_the_scenes_on_a_narrow_terminal_and_in_ascii(scenes: tuple[str, str], tmp_path: Path) -> None:
    odd = {"COLUMNS": "40", "PYTHONIOENCODING": "ascii"}
    output = result_of("scenes", "--out", str(tmp_path), environment=odd)
    assert output.isascii()
    table = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert all(len(line) <= 40 for line in table)
    # Cells continue below: with all blanks and borders removed, every letter and digit is still there.
    for letter in "0123456789":
        assert "".join(table).count(letter) == scenes[0].partition("hops: on")[0].count(letter)


def test_no_colour_in_a_pipe_or_where_none_is_wanted(example: str) -> None:
    assert "\x1b" not in result_of("replay", example)
    coloured = result_of("replay", example, environment={"FORCE_COLOR": "1"})
    assert "\x1b[32m" in coloured
    wanted = {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    # Bold and dim are not colours; 30 to 37 and 90 to 97 are.
    assert re.findall(r"\x1b\[[0-9;]*\b[39][0-7]m", result_of("replay", example, environment=wanted)) == []


ASCII_SCREEN = SCREEN
for character, instead in {"→": "->", "×": "x", "●": "*", "○": "o", "─": "-"}.items():
    ASCII_SCREEN = ASCII_SCREEN.replace(character, instead)


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_terminal_with_ascii_only(locale: dict[str, str], example: str, tmp_path: Path) -> None:
    assert trimmed(result_of("replay", example, environment=locale)) == ASCII_SCREEN
    for arguments in (["topology", "h"], ["--help"], ["replay", "--help"]):
        assert result_of(*arguments, environment=locale).isascii()
    # What the name of a file becomes on its way in is the locale's; that it is told is ours.
    line = failure_of("replay", str(tmp_path / "é"), environment=locale)
    assert re.fullmatch(rf"octopia: {re.escape(str(tmp_path))}/\?+: cannot be read: No such file or directory", line)


def test_json_is_exact_in_every_locale(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    steps = [{"do": "advertise", "client": "P", "at": "a,0", "id": "α→1", "filter": "x > 0"}]
    file.write_text(json.dumps({"tree": "path:2", "steps": steps}), encoding="utf-8")
    exact = result_of("replay", str(file), "--json")
    assert '"id": "α→1"' in exact
    escaped = result_of("replay", str(file), "--json", environment={"PYTHONIOENCODING": "ascii"})
    assert escaped.isascii()
    assert json.loads(escaped) == json.loads(exact)


@pytest.mark.skipif(sys.platform == "win32", reason="file names are bytes elsewhere")
def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")
    assert failure_of("replay", name) == f"octopia: {tmp_path}/?.json: cannot be read: No such file or directory"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes differ")
@pytest.mark.parametrize("arguments", [["replay", FIG7B], ["replay", FIG7B, "--json"], ["--help"], ["--version"]])
def test_a_reader_that_went_away(arguments: list[str]) -> None:
    """`octopia replay … | head -1`, with the reader gone from the start, which no timing can change."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = Command(*arguments, stdout=writer, stderr=PIPE, env=PLAIN, cwd=ROOT)
    finally:
        os.close(writer)
    assert (command.communicate(), command.returncode) == (("", ""), 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
@pytest.mark.parametrize("arguments", [["replay", FIG7B], ["replay", FIG7B, "--json"], ["--help"]])
def test_a_full_disk(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = Command(*arguments, stdout=full, stderr=PIPE, env=PLAIN, cwd=ROOT)
    assert (command.communicate(), command.returncode) == (("", "octopia: cannot write: No space left on device\n"), 1)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell is asked")
def test_closed_streams(example: str) -> None:
    line = f"'{sys.executable}' -m octopia replay '{example}'"
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        assert (
            subprocess.run(["bash", "-c", f"{line} {closed}"], capture_output=True, env=PLAIN, check=True).stderr == b""
        )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    """The scenario comes through an endless pipe: once more is gone than a pipe can hold, it is being read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = Command("replay", pipe, stdout=PIPE, stderr=PIPE, env=PLAIN, cwd=ROOT)
    with pipe.open("wb", buffering=0) as endless:
        endless.write(b" " * 2_000_000)
        command.send_signal(signal.SIGINT)
    # closed only now: an interrupt that came between two reads is heeded when the next one ends
    assert (command.communicate(), command.returncode) == (("", ""), 130)


@pytest.mark.parametrize("module", ["octopia.cli.entry", "octopia.cli.app", "octopia.cli.topology"])
def test_an_interrupt_while_the_command_is_still_loading_ends_it_quietly(module: str) -> None:
    interrupted = f"""
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from octopia.cli import main
main()
"""
    line = [sys.executable, "-c", interrupted, "topology", "h"]
    done = subprocess.run(line, capture_output=True, env=PLAIN, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("module", ["octopia", "octopia.cli", "octopia.cli.entry", "typer", "rich.console"])
@pytest.mark.parametrize(("heeds", "code"), [(True, 130), (False, 0)])
def test_ctrl_c_before_the_command_is_loaded_ends_it_quietly_unless_ignored(
    module: str, heeds: bool, code: int
) -> None:
    interrupted = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler if {heeds} else signal.SIG_IGN)
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from octopia_command import main
main()
"""
    line = [sys.executable, "-c", interrupted, "--version"]
    done = subprocess.run(line, capture_output=True, env=PLAIN, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [("demo", "pyarrow", "demo"), ("simulate delivery", "pyarrow", "sim"), ("topology h", "networkx", "graphs")],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_all_the_command_needs(
    command: str, module: str, extra: str
) -> None:
    lacking = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} or (name == "octopia.cli.topology" and {module!r} == "networkx"):
            raise ModuleNotFoundError(f"No module named {module!r}", name={module!r})
sys.meta_path.insert(0, Missing())
from octopia.cli import main
main()
"""
    line = [sys.executable, "-c", lacking, *command.split()]
    done = subprocess.run(line, capture_output=True, text=True, env=PLAIN, cwd=ROOT, check=False)
    needs = f"octopia: this command needs {module}, which is not installed: pip install 'octopia[{extra}]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", needs)
