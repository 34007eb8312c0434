"""A small table, and sessions whose journals are closed."""

import pytest

from tests.studio.helpers import OPENED, open_session, written


@pytest.fixture(autouse=True)
def closed_journals():
    yield
    while OPENED:
        if (journal := OPENED.pop().history.journal) is not None:
            journal.close()


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "t.csv")


@pytest.fixture
def session(path):
    return open_session(path)
