"""Files appear whole or not at all, with the permissions they had."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from fuzzytwin._utils.files import atomic_write, check_writable, output_mode

posix = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.parametrize("before", [0o600, 0o640, 0o400, 0o664])
def test_overwriting_keeps_permissions(tmp_path, before):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(before)
    with atomic_write(path, overwrite=True) as draft:
        assert mode(draft) == 0o600
        draft.write_text("new")
    assert path.read_text() == "new"
    assert mode(path) == before


@posix
def test_a_new_file_has_the_usual_permissions(tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    with atomic_write(tmp_path / "a.txt") as draft:
        draft.write_text("new")
    assert mode(tmp_path / "a.txt") == mode(usual)


@posix
@pytest.mark.parametrize(
    ("modes", "expected"), [((0o600,), 0o600), ((0o400,), 0o600), ((0o644, 0o640), 0o640)]
)
def test_a_new_file_is_as_private_as_what_it_was_made_of(tmp_path, modes, expected):
    inputs = [tmp_path / f"{i}.csv" for i in range(len(modes))]
    for path, private in zip(inputs, modes, strict=True):
        path.touch()
        path.chmod(private)
    with atomic_write(tmp_path / "a.txt", inputs=[*inputs, "s3://elsewhere/b.csv"]) as draft:
        assert mode(draft) == 0o600
    assert mode(tmp_path / "a.txt") == expected


@posix
def test_inputs_of_another_group_are_not_shown_to_ours(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.touch()
    path.chmod(0o640)
    assert output_mode([path]) == 0o640
    monkeypatch.setattr(os, "getegid", lambda: path.stat().st_gid + 1)
    assert output_mode([path]) == 0o600
    path.chmod(0o664)
    assert output_mode([path]) == 0o644


@posix
def test_another_group_gains_no_access(tmp_path, monkeypatch):
    """As for a user who replaces a file of a group that is not theirs."""
    path = tmp_path / "a.txt"
    path.touch()
    path.chmod(0o664)
    real = os.stat

    def refused(*arguments):
        raise PermissionError(errno.EPERM, "not permitted")

    def of_another_group(file, **options):
        found = list(real(file, **options))
        found[stat.ST_GID] += file == path
        return os.stat_result(found)

    monkeypatch.setattr(os, "chown", refused)
    monkeypatch.setattr(os, "stat", of_another_group)
    with atomic_write(path, overwrite=True):
        pass
    monkeypatch.undo()
    assert mode(path) == 0o604


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_reported_as_such(tmp_path, number):
    path = tmp_path / "a.parquet"
    path.write_text("old")

    def write():
        try:
            raise OSError(number, "in the depths of a library")
        except OSError as error:
            raise ValueError(f"{path} cannot be read") from error

    with (
        pytest.raises(OSError, match=r"a\.parquet was not written: .*; free some space") as caught,
        atomic_write(path, overwrite=True),
    ):
        write()
    assert caught.value.errno == number
    assert os.strerror(number) in str(caught.value)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_really_full(tmp_path):
    """The limit of a file's size stands for the size of a disk."""
    resource = pytest.importorskip("resource")
    script = (
        "import resource, sys\n"
        "from fuzzytwin import FuzzyTwinSVC\n"
        "from fuzzytwin.store import save\n"
        "save(FuzzyTwinSVC(), sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "save(FuzzyTwinSVC(), sys.argv[1], overwrite=True)\n"
    )
    assert resource is not None
    path = tmp_path / "m.skops"
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert "m.skops was not written: File too large; free some space." in done.stderr
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_size > 1000


def test_other_errors_pass(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "a.txt"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_where_nothing_can_be_written_is_noticed_before_the_work(tmp_path, monkeypatch, number):
    def fail(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    with pytest.raises(OSError, match=rf"a.csv cannot be written: {os.strerror(number)}; choose"):
        check_writable(tmp_path / "a.csv")


def test_writable_places_are_left_as_they_are(tmp_path):
    check_writable(tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


def test_drafts_of_killed_processes_are_removed_a_day_later(tmp_path):
    old, new, other = (tmp_path / f".{name}.tmp" for name in (
        "a[1].csv.0123abcd", "a[1].csv.4567abcd", "b.csv.0123abcd"
    ))  # fmt: skip
    for draft in (old, new, other):
        draft.touch()
    for draft in (old, other):
        os.utime(draft, (0, 0))
    with atomic_write(tmp_path / "a[1].csv"):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([new, other, tmp_path / "a[1].csv"])


HANGS = """
import sys, time
from fuzzytwin._utils.files import atomic_write
with atomic_write(sys.argv[1]) as first, atomic_write(sys.argv[2]) as second:
    first.write_text("half")
    print("ready", flush=True)
    while True:
        time.sleep(0.1)  # a signal that comes just before a long sleep would wait for its end
"""


@posix
def test_sigterm_removes_drafts(tmp_path):
    command = [sys.executable, "-c", HANGS, tmp_path / "a.txt", tmp_path / "b.txt"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout.readline() == "ready\n"
        assert len(list(tmp_path.iterdir())) == 2
        run.terminate()
        assert run.wait(30) == 128 + signal.SIGTERM
    finally:
        run.kill()
        run.wait()
        run.stdout.close()
    assert not list(tmp_path.iterdir())


@posix
def test_handlers_of_the_program_stay(tmp_path):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("own"))
    try:
        with atomic_write(tmp_path / "a.txt"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
        assert heard == ["own"]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with atomic_write(tmp_path / "b.txt"):
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread(tmp_path):
    def write():
        with atomic_write(tmp_path / "a.txt") as draft:
            draft.write_text("done")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (tmp_path / "a.txt").read_text() == "done"


@posix
def test_devices_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="pipe is a device or a pipe"), atomic_write(
        pipe, overwrite=True
    ):  # fmt: skip
        pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)
