"""Run commands in a fresh folder."""

import re

import pytest

from fuzzytwin import cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def run(capsys):
    def call(*words, code=0):
        capsys.readouterr()
        got = cli.run([str(word) for word in words])
        out, err = capsys.readouterr()
        assert got == code, (got, out, err)
        assert "\x1b" not in out + err  # colours are for terminals
        return err if code else out

    return call


@pytest.fixture
def refused(run, folder):
    """Run a command that ends with one line and code 2, and leaves the folder as it was."""

    def call(*words, match):
        before = sorted(folder.rglob("*"))
        said = run(*words, code=2)
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert len(said) < 400
        assert re.search(match, said), said
        assert sorted(folder.rglob("*")) == before

    return call
