"""The studio as a user has it: the real command, a real Chromium."""

import contextlib
import csv
import http.client
import io
import json
import re
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from fuzzytwin.studio._journal import journal_path
from tests.studio.helpers import (
    Page,
    Served,
    noted,
    open_browser,
    open_session,
    wait_for,
    write_table,
)

pytestmark = pytest.mark.integration

EVIL = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"


@pytest.fixture(scope="module")
def browser():
    opened = open_browser()
    yield opened
    opened.quit()


@pytest.fixture
def serve():
    running = []

    def start(*arguments):
        running.append(Served(*arguments))
        return running[-1]

    yield start
    for one in running:
        one.stop()


def events(path):
    lines = journal_path(path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


def test_decisions_by_keyboard_survive_kill_9_and_the_export_has_them(browser, serve, path):
    before = path.read_bytes()
    arguments = (path, "--target", "sick", "--id", "name")
    served = serve(*arguments)
    page = Page(browser, served)
    seen = []
    for _ in range(3):
        seen.append(page.row)
        page.press("r")
    assert len(set(seen)) == 3
    page.press("u")
    assert page.row == seen[2]  # what is undone is looked at again
    page.press(Keys.ARROW_RIGHT)
    page.press("x")
    served.kill()

    again = serve(*arguments)
    page = Page(browser, again)
    page.go("save")
    wait_for(lambda: "3 rows reviewed" in page.text(".made-list"))
    given = [event["action"] for event in events(path)]
    assert given == ["relabel", "relabel", "relabel", "undo", "exclude"]

    export = urllib.request.urlopen(f"{again.address}export/table").read().decode()
    rows = list(csv.DictReader(io.StringIO(export)))
    reviewed = {
        i: (row["reviewed_label"], row["decision"]) for i, row in enumerate(rows) if row["decision"]
    }
    expected = {}
    for event in events(path):
        if event["action"] == "undo":
            expected.popitem()
        else:
            out = event["action"] == "exclude"
            expected[event["row"] - 2] = ("" if out else event["label"], event["action"])
    assert reviewed == expected
    assert set(reviewed) >= set(seen[:2])
    assert all(
        row["reviewed_label"] == row["sick"] for i, row in enumerate(rows) if i not in reviewed
    )
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["t.csv", "t.csv.reviews.jsonl"]
    assert not page.errors()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that leave it running."""
    path = tmp_path_factory.mktemp("shared") / "t.csv"
    write_table(path)
    served = Served(path, "--target", "sick", "--id", "name")
    yield served, path
    served.stop()


def open_session_beside(path):
    """Open the same data without its journal, which the page has locked."""
    copy = path.with_name("copy.csv")
    copy.write_bytes(path.read_bytes())
    session = open_session(copy)
    session.history.journal.close()
    session.history.journal = None
    return session


def test_a_page_that_comes_back_shows_what_was_decided_meanwhile(browser, shared):
    page = Page(browser, shared[0])
    page.go("save")
    page.script("socket.disconnect()")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    try:
        other = Page(browser, shared[0])
        name = other.text(".detail .row-name")
        other.press("x")
    finally:
        browser.close()
        browser.switch_to.window(first)
    assert name not in page.text(".made-list")
    page.script("socket.connect()")
    wait_for(lambda: name in page.text(".made-list"))


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """Serve a table of 53 rare rows that are not found, with decimal commas."""
    path = tmp_path_factory.mktemp("rare") / "t.csv"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1240, 3))
    ill = X[:, 0] + 2 * rng.normal(size=1240) > 3.75
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["nr", "age", "dose", "size", "state"])
        for i, (row, k) in enumerate(zip(X, ill, strict=True)):
            cells = [f"{value:.3f}".replace(".", ",") for value in row]
            writer.writerow([f"case-{i + 1}", *cells, "ill" if k else "well"])
    served = Served(path, "--target", "state", "--id", "nr")
    yield served, path
    served.stop()


def test_a_closed_tab_and_a_wrong_address_print_nothing(serve, path):
    """Say goodbye twice on a connection that is polled, as a tab that is closed may do."""
    served = serve(path, "--target", "sick", "--id", "name")
    assert ask(served, f"/{served.token}/nothing")[0] == 404
    address = f"{served.address}_nicegui_ws/socket.io/?EIO=4&transport=polling"
    sid = json.loads(urllib.request.urlopen(address).read()[1:])["sid"]
    for packet in (b"40", b"41\x1e1", b"1"):
        text = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{address}&sid={sid}", packet, text)
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(request)
    served.kill()
    said = served.process.stdout.read()
    assert "Decisions are kept in" in said
    assert len(said.splitlines()) == 1


def test_the_browser_is_started_without_the_token(browser, path, tmp_path):
    program = tmp_path / "browser"
    line_file = tmp_path / "line"
    program.write_text(f'#!/bin/sh\necho "$1" > {line_file}.new; mv {line_file}.new {line_file}\n')
    program.chmod(0o700)
    served = Served(path, "--target", "sick", "--id", "name", browser=program)
    try:
        wait_for(line_file.exists)
        line = line_file.read_text().strip()
        assert served.token not in line
        browser.get(line)
        wait_for(lambda: browser.current_url == served.address)
        wait_for(lambda: browser.execute_script("return !!document.querySelector('.detail')"))
    finally:
        served.process.send_signal(signal.SIGINT)
        served.process.wait(timeout=60)
        served.stop()
    assert not Path(urllib.parse.urlparse(line).path).exists()


def ask(served, path, host=None, origin=None):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host or served.host)
    if origin:
        connection.putheader("Origin", origin)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def websocket_status(served, token, host=None, origin=None):
    """Ask to open the page's websocket; return the status of the answer."""
    lines = [
        f"GET /{token}/_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1",
        f"Host: {host or served.host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Origin: {origin or 'http://' + served.host}",
    ]
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:
        line.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(line.recv(1000).split()[1])


def test_only_this_page_gets_an_answer(shared):
    served, _ = shared
    good = f"/{served.token}/"
    assert ask(served, good)[0] == 200
    assert b"studio" in ask(served, good)[1]
    evil = "http://evil.example"
    for where in ("", "export/table", "_nicegui/static/nicegui.css"):
        for status, body in (
            ask(served, f"/{where}"),
            ask(served, f"/{'x' * len(served.token)}/{where}"),
            ask(served, good + where, host=f"evil.example:{served.port}"),
            ask(served, good + where, origin=evil),
        ):
            assert (status, body) == (403, b"")
    assert websocket_status(served, served.token) == 101
    assert websocket_status(served, "x") == 403
    assert websocket_status(served, served.token, origin=evil) == 403
    assert websocket_status(served, served.token, host="evil.example") == 403
    for escape in ("../t.csv", "..%2ft.csv", "export/..%2f..%2ft.csv", "export/nothing"):
        assert ask(served, good + escape)[0] in (403, 404)
    with pytest.raises(ConnectionRefusedError):  # no other address of this computer
        socket.create_connection(("127.0.0.2", served.port), timeout=10)


def test_a_page_stays_on_its_row_while_another_decides(browser, serve, path):
    served = serve(path, "--target", "sick", "--id", "name")
    first = Page(browser, served)
    for _ in range(3):
        first.press(Keys.ARROW_RIGHT)
    row, listed = first.row, first.listed
    mine = browser.current_window_handle
    browser.switch_to.new_window("tab")
    second = Page(browser, served)
    second.press("k")
    browser.close()
    browser.switch_to.window(mine)
    wait_for(lambda: first.listed != listed)
    assert first.row == row
    first.press("x")
    assert [event["action"] for event in events(path)] == ["keep", "exclude"]
    assert events(path)[1]["row"] == row + 2


def test_the_page_opens_on_the_rows_to_review_and_follows_decisions(browser, serve, path):
    page = Page(browser, serve(path, "--target", "sick", "--id", "name"))
    session = open_session_beside(path)
    made = len(events(path))
    assert page.row == session.rows_to_review[0]
    assert f"To review {len(session.rows_to_review)}" in page.text(".queue")
    listed = page.listed
    page.press("r")
    assert page.listed[: len(listed) - 1] == listed[1:]  # what was listed stays in its place
    wait_for(lambda: "1\nof 120 rows reviewed" in page.text(".strip"))
    page.press("n")
    page.press("k")
    page.press("p")
    assert [event["action"] for event in events(path)[made:]] == ["relabel", "keep"]
    page.press("u")
    page.press("U")
    page.press("u")
    page.press("u")
    given = [event["action"] for event in events(path)[made:]]
    assert given == ["relabel", "keep", "undo", "redo", "undo", "undo"]
    assert not page.errors()


def test_a_decision_that_cannot_be_saved_is_not_made_and_that_is_said(browser, serve, tmp_path):
    path = tmp_path / "t.csv"
    write_table(path)
    name = f"pixel_0_{'1' * 6000}"  # no number that Python reads
    path.write_text(path.read_text("utf-8").replace("noise", name, 1), "utf-8")
    page = Page(browser, serve(path, "--target", "sick", "--id", "name"))
    row = page.row
    journal_path(path).unlink()
    page.press("x")
    assert "Not saved, and therefore not done" in page.text(".message")
    assert "was moved or deleted by another program" in page.text(".message")
    assert page.row == row
    assert not page.errors()


def test_a_label_without_a_digit_is_typed(browser, serve, tmp_path):
    path = tmp_path / "t.csv"
    names = [f"label {letter}" for letter in "abcdefghijkl"]
    write_table(path, n=500, classes=names)
    page = Page(browser, serve(path, "--target", "sick", "--id", "name"))
    page.press("2")
    assert events(path)[0]["label"] == "label b"
    page.type("l")
    wait_for(lambda: page.script("return !!document.activeElement.closest('.labels')"))
    page.type("k")
    wait_for(lambda: page.script(BUTTONS) == ["label k"])
    page.press(Keys.ENTER)
    wait_for(lambda: len(events(path)) == 2)
    assert events(path)[1]["label"] == "label k"
    page.press("x")  # the keys are those of the page again
    assert events(path)[2]["action"] == "exclude"


BUTTONS = """return [...document.querySelectorAll('.labels button')].map(
    button => button.innerText.split("\\n")[0])"""


def test_text_and_few_digits_are_shown_and_no_votes(browser, serve, tmp_path):
    path = tmp_path / "t.parquet"
    write_table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    frame["text"] = [f"ticket {i}: " + "please call me back " * 20 + "END" for i in range(120)]
    frame["ann_a"] = frame["sick"]
    frame["ann_b"] = ["yes", "no"] * 60
    frame["noise"] /= 7
    frame.to_parquet(path)
    page = Page(browser, serve(path, "--target", "sick", "--id", "name", "--votes", "ann_*"))
    name = page.text(".row-name")
    assert page.text(".whole").splitlines()[0] == "text"
    assert f"ticket {name[1:]}:" in page.text(".whole")
    assert page.text(".whole").endswith("END")
    assert "ann_" not in page.text(".detail")
    assert not re.search(r"\d\.[1-9]\d{4}", page.text(".columns"))
    assert "from the given label and the votes." in page.text(".detail")


def test_without_a_target_the_label_is_the_majority_of_the_votes(browser, serve, tmp_path):
    write_table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv").rename(columns={"sick": "ann_a"})
    for name in ("ann_b", "ann_c"):
        frame[name] = frame["ann_a"]
    frame.to_parquet(tmp_path / "t.parquet")
    page = Page(browser, serve(tmp_path / "t.parquet", "--id", "name", "--votes", "ann_*"))
    assert "majority of the votes" in page.text(".detail .title")
    assert "and from the votes." in page.text(".detail")
    assert "given label" not in page.text(".detail")


def test_numbers_of_an_embedding_are_not_listed(browser, serve, tmp_path):
    write_table(tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    rng = np.random.default_rng(0)
    frame["emb"] = [rng.normal(size=9).tolist() for _ in range(len(frame))]
    frame.to_parquet(tmp_path / "t.parquet")
    page = Page(browser, serve(tmp_path / "t.parquet", "--target", "sick", "--id", "name"))
    assert "age" in page.text(".columns")
    assert "emb_" not in page.text(".columns")
    only = frame[["name", "emb", "sick"]]
    only.to_parquet(tmp_path / "only.parquet")
    page = Page(browser, serve(tmp_path / "only.parquet", "--target", "sick", "--id", "name"))
    assert not page.script("return !!document.querySelector('.columns')")
    assert not page.errors()


def test_the_overview_begins_with_the_notes_about_the_table(browser, serve, tmp_path):
    noted(tmp_path / "t.csv")
    page = Page(browser, serve(tmp_path / "t.csv", "--target", "sick", "--id", "name"))
    page.go("overview")
    wait_for(lambda: "Note: column 'age' holds -999" in page.text(".notes"))
    assert "'YES' and 'yes' differ only in case" in page.text(".notes")
    assert "column 'copy' by itself gives a balanced accuracy of 1.00" in page.text(".notes")
    top = "return document.querySelector('.notes').compareDocumentPosition("
    assert page.script(f"{top}document.querySelector('.figures')) & 4")  # the figures follow


def test_figures_have_one_decimal_mark(browser, rare):
    page = Page(browser, rare[0])
    shown = page.text(".detail")
    assert re.search(r"\d\.\d", shown)
    assert not re.search(r"\d,\d(?!\d\d\b)", shown)


def test_no_button_is_preselected(browser, rare):
    page = Page(browser, rare[0])
    looks = """return [...document.querySelectorAll('.actions button')].map(b => {
        const s = getComputedStyle(b);
        return s.backgroundColor + s.color + s.borderColor + s.fontWeight;
    })"""
    assert len(page.script(looks)) == 4
    assert len(set(page.script(looks))) == 1
    assert page.script("return document.activeElement.tagName") == "BODY"


def test_rows_are_found_by_id_and_by_number(browser, rare):
    page = Page(browser, rare[0])
    page.type("/")
    wait_for(lambda: page.script("return !!document.activeElement.closest('.queue')"))
    page.type("CASE-77")
    wait_for(lambda: set(page.listed) == {f"case-77{i}" for i in ["", *range(10)]})
    assert page.text(".row-name") == page.listed[0]
    page.type("7")
    wait_for(lambda: page.listed == ["case-777"])
    assert "row 778" in page.text(".detail .title")
    page.script("document.activeElement.blur()")
    page.press("x")  # the row that was found stays, with what was decided
    assert page.text(".row-name") == "case-777"
    assert "excluded" in page.text(".detail .made")
    page.press("u")
    page.click("[data-list=open]")
    wait_for(lambda: len(page.listed) == 12)


def test_reviewed_rows_are_listed_beside_a_search(browser, serve, path):
    page = Page(browser, serve(path, "--target", "sick", "--id", "name"))
    page.press("k")
    page.browser.find_element("css selector", ".queue input").send_keys("p1")
    wait_for(lambda: "reviewed or not" in page.text(".queue"))
    page.click("[data-list=reviewed]")
    wait_for(lambda: "the latest first" in page.text(".queue"))
    assert len(page.listed) == 1


@pytest.mark.parametrize("view", ["review", "overview", "save"])
def test_everything_fits_on_a_telephone(browser, shared, view):
    page = Page(browser, shared[0])
    page.resize(390, 844)
    try:
        for tab in ("review", "overview", "save"):
            ends = f"const b = document.querySelector('[data-view={tab}]').getBoundingClientRect();"
            assert page.script(f"{ends} return b.left >= 0 && b.right <= 390 && b.width > 50")
        page.go(view)
        assert page.script("return document.documentElement.scrollWidth") <= 390
        beyond = """return [...document.querySelectorAll('.q-tab-panel *')].filter(e =>
            e.offsetParent && e.getBoundingClientRect().right > 391).map(e => e.outerHTML)"""
        assert page.script(beyond) == []
    finally:
        page.resize(1280, 800)


def test_light_and_dark_can_be_changed(browser, shared):
    page = Page(browser, shared[0])
    dark = "return document.body.classList.contains('body--dark')"
    before = page.script(dark)
    page.click("[aria-label='Light or dark']")
    wait_for(lambda: page.script(dark) != before)


def test_a_table_that_holds_html_shows_it_as_text(browser, serve, tmp_path):
    path = tmp_path / "evil<b>.csv"
    rng = np.random.default_rng(0)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [f"id {EVIL}", f"a {EVIL}", f"b {EVIL}", "</script>", f"text {EVIL}"]
        writer.writerow([*names, f"v1 {EVIL}", f"v2 {EVIL}", f"y {EVIL}"])
        for i in range(60):
            a, b = rng.normal(size=2)
            label = f"{EVIL}one" if a + 0.3 * rng.normal() > 0 else "'\"&two"
            text = f"{EVIL} {i} was labelled"
            cells = [f"{EVIL}{i}", f"{a:.3f}", f"{b:.3f}", [EVIL, "plain"][i % 2], text]
            writer.writerow([*cells, label, label, label])
    columns = ("--target", f"y {EVIL}", "--id", f"id {EVIL}", "--votes", "v[12] *")
    served = serve(path, *columns)
    page = Page(browser, served)
    assert EVIL[:25] in page.text(".detail .whole")
    page.press("r")
    for view in ("save", "review"):
        page.go(view)
        assert EVIL[:15] in page.text(".q-tab-panels")
    page.go("overview")
    wait_for(lambda: page.script("return !!document.querySelector('.map canvas')"))
    centre = browser.find_element(By.CSS_SELECTOR, ".map")
    for step in range(-40, 41, 10):  # tooltips of points
        ActionChains(browser, 0).move_to_element_with_offset(centre, 3 * step, step).perform()
    assert page.script("return window.stolen ?? null") is None
    assert page.script("return document.querySelectorAll('img').length") == 0
    report = urllib.request.urlopen(f"{served.address}export/report").read().decode()
    assert "<script" not in report
    assert "<img" not in report
    assert not page.errors()


def test_downloads_do_not_hold_up_the_page_and_ctrl_c_ends_it(browser, serve, path):
    served = serve(path, "--target", "sick", "--id", "name")
    page = Page(browser, served)
    page.go("save")
    links = "return [...document.querySelectorAll('.files a')].map(a => a.getAttribute('href'))"
    assert page.script(links) == ["export/table", "export/report"]
    with urllib.request.urlopen(f"{served.address}export/table") as answer:
        assert "t.reviewed.csv" in answer.headers["content-disposition"]
        assert answer.read().startswith(b"name,age")
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(timeout=60) == 0
