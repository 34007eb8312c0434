"""Every python block of the README runs, in order, as one session, and prints what is shown."""

import re
from pathlib import Path

from fuzzytwin.cli import run

README = Path(__file__).parents[2] / "README.md"


def words(text):
    return [line.split() for line in text.splitlines() if line.strip()]


def test_readme_blocks_run(tmp_path, monkeypatch, capsys):
    block = r"^```python\n(.*?)^```(?:\n\nprints\n\n```text\n(.*?)^```)?"
    blocks = re.findall(block, README.read_text(encoding="utf-8"), re.M | re.S)
    assert all(shown for _, shown in blocks), "a python block of README.md shows no output"
    monkeypatch.chdir(tmp_path)  # what a block writes stays out of the work tree
    assert run(["generate", "patients", "patients.csv"]) == 0  # the first command of the README
    session = {"__name__": "readme"}
    capsys.readouterr()
    for number, (block, shown) in enumerate(blocks, start=1):
        exec(compile(block, f"README.md, python block {number}", "exec"), session)
        assert words(capsys.readouterr().out) == words(shown)


def test_the_first_screen_shows_what_the_command_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["generate", "patients", "patients.csv"]) == 0
    monkeypatch.setenv("COLUMNS", "100")
    block = r"^```console\n\$ fuzzytwin (.*?)\n(.*?)^```"
    shown = re.search(block, README.read_text(encoding="utf-8"), re.M | re.S)
    assert run(shown[1].split()) == 0
    assert shown[2].endswith("\n...\n"), "more is printed than is shown"
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    lines = [line for line in shown[2].splitlines() if line.strip() not in ("", "...")]
    for line in lines:
        assert line.split() in printed, line
