"""The studio as a user has it: the real command, a real Chromium."""

import contextlib
import csv
import http.client
import io
import json
import re
import signal
import socket
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from fuzzytwin import FuzzyTwinSVC
from fuzzytwin.apps.studio.journal import journal_path
from tests.studio.helpers import Page, Served, open_browser, open_session, wait_for, write_table

pytestmark = pytest.mark.integration

EVIL = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"


@pytest.fixture(scope="module")
def browser():
    opened = open_browser()
    yield opened
    opened.quit()


@pytest.fixture
def path(tmp_path):
    write_table(tmp_path / "t.csv")
    return tmp_path / "t.csv"


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
    page.go("doubts")
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
    wait_for(lambda: "3 rows settled" in page.text())
    given = [event["action"] for event in events(path)]
    assert given == ["relabel", "relabel", "relabel", "undo", "leave out"]

    export = urllib.request.urlopen(f"{again.address}export/table").read().decode()
    rows = list(csv.DictReader(io.StringIO(export)))
    settled = {i: (row["label"], row["decision"]) for i, row in enumerate(rows) if row["decision"]}
    expected = {}
    for event in events(path):
        if event["action"] == "undo":
            expected.popitem()
        else:
            out = event["action"] == "leave out"
            expected[event["row"] - 2] = ("" if out else event["label"], event["action"])
    assert settled == expected
    assert set(settled) >= set(seen[:2])
    assert all(row["label"] == row["sick"] for i, row in enumerate(rows) if i not in settled)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["t.csv", "t.csv.doubts.jsonl"]
    assert not page.errors()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that leave it running."""
    path = tmp_path_factory.mktemp("shared") / "t.csv"
    write_table(path)
    served = Served(path, "--target", "sick", "--id", "name")
    yield served, path
    served.stop()


def test_the_page_follows_a_decision(browser, shared):
    served, path = shared
    page = Page(browser, served)
    assert "leave-one-out accuracy" in page.text()
    assert "What drives the prediction" in page.text()
    page.go("doubts")
    session = open_session_beside(path)
    assert page.row == session.open_rows[0]
    assert f"{100 * session.accuracy:.1f} %" in page.text(".strip")
    listed = page.listed
    session.decide(page.row, "relabel")
    page.press("r")
    assert f"{100 * session.accuracy:.1f} %" in page.text(".strip")
    assert page.listed[:-1] == listed[1:]  # what was on the screen stays where it was

    row = page.row
    page.type("d")
    wait_for(lambda: page.script("return document.activeElement.id") == "degree")
    page.type(Keys.ARROW_LEFT * 10)
    page.press(Keys.ENTER)
    assert page.row != row
    session.decide(row, "degree", degree=0.5)
    assert events(path)[-1]["degree"] == 0.5
    page.press("k")
    assert [event["action"] for event in events(path)] == ["relabel", "degree", "keep"]
    page.press("u")
    page.click("[data-key=redo]")
    wait_for(lambda: events(path)[-1]["action"] == "redo")
    for name in ("strip", "queue", "detail"):
        assert page.text(f".{name}")
    words = (
        "return [...document.querySelectorAll('svg.layer')].every(s => s.ariaLabel || s.ariaHidden)"
    )
    assert page.script(words)
    assert not page.errors()


def open_session_beside(path):
    """Open the same data without its journal, which the page has locked."""
    copy = path.with_name("copy.csv")
    copy.write_bytes(path.read_bytes())
    session = open_session(copy)
    session.journal.close()
    session.journal = None
    return session


def test_draw_shows_the_planes_of_the_library_and_ctrl_c_ends_it(browser, serve):
    served = serve()
    page = Page(browser, served)
    assert page.script("return document.querySelector('.studio').dataset.view") == "draw"

    def state():
        return json.loads(page.script("return document.getElementById('draw-state').dataset.state"))

    def check():
        shown = state()
        model = FuzzyTwinSVC(**shown["parameters"]).fit(
            shown["points"], shown["labels"], membership=shown["degrees"]
        )
        np.testing.assert_allclose(shown["coef"], model.coef_, rtol=1e-9)
        np.testing.assert_allclose(shown["intercept"], model.intercept_, rtol=1e-9)
        return model

    model = check()
    board = browser.find_element(By.ID, "board")
    count = len(state()["points"])
    width, height = board.size["width"], board.size["height"]
    at = ActionChains(browser).move_to_element_with_offset(board, -width // 3, -height // 3)
    at.click().perform()
    wait_for(lambda: len(state()["points"]) == count + 1)
    x, y = state()["points"][-1]
    assert x == pytest.approx(10 / 6, abs=0.05)
    assert y == pytest.approx(7 * 5 / 6, abs=0.05)
    assert not np.allclose(check().coef_, model.coef_)

    # The line that is drawn lies where the plane's value is 0.
    d = page.script("return document.querySelector('#board path.plane.c0').getAttribute('d')")
    pixels = np.array([part.split() for part in d.lstrip("M").split("L")], dtype=float)
    points = np.column_stack([pixels[:, 0] / 60, 7 - pixels[:, 1] / 60])
    model = check()
    values = model.plane_values(points)[0][:, 0] / np.linalg.norm(model.coef_[0])
    assert np.abs(values).max() < 0.02

    moved = ActionChains(browser).move_to_element_with_offset(board, -width // 3, -height // 3)
    moved.click_and_hold().move_by_offset(60, 60).move_by_offset(10, 0).release().perform()
    wait_for(lambda: state()["points"][-1][0] > x + 0.5)
    check()
    for name, text, value in (
        ("planes", "crisp lines", "crisp"),
        ("rule", "smallest value", "residual"),
        ("kernel", "curved (RBF)", "rbf"),
    ):
        page.choose(name, text)
        wait_for(lambda name=name, value=value: state()["parameters"][name] == value)
    for step in range(1, 5):
        slider = browser.find_element(By.CSS_SELECTOR, ".choice-C [tabindex]")
        slider.send_keys(Keys.ARROW_RIGHT)  # a quarter of a power of two, and no point moves
        wait_for(lambda step=step: np.isclose(state()["parameters"]["C"], 2 ** (step / 4 - 1)))
    model = FuzzyTwinSVC(**state()["parameters"], random_state=0)
    model.fit(state()["points"], state()["labels"], membership=state()["degrees"])
    np.testing.assert_allclose(state()["coef"], model.coef_, rtol=1e-6, atol=1e-9)
    assert not page.errors()
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(timeout=60) == 0


def test_a_choice_does_not_take_the_focus_back(browser, shared):
    """Open a choice while its hint comes up, choose, and go on to a slider at once."""
    page = Page(browser, shared[0])
    page.go("draw")
    choice = browser.find_element(By.CSS_SELECTOR, ".choice-rule")
    ActionChains(browser, 0).move_to_element(choice).pause(0.1).click().perform()
    page.click(".q-menu .q-item:last-child")
    page.script("document.querySelector('.choice-C [tabindex]').focus()")
    time.sleep(1)  # more than all transitions take
    assert page.script("return !!document.activeElement.closest('.choice-C')")


def test_a_page_that_was_out_of_reach_keeps_its_points(browser, shared):
    page = Page(browser, shared[0])
    page.go("draw")
    page.click("[data-key=clear]")
    points = "return JSON.parse(document.getElementById('draw-state').dataset.state).points.length"
    wait_for(lambda: page.script(points) == 0)
    page.script("window.same = true; socket.disconnect()")
    time.sleep(4)  # a page of NiceGUI is forgotten after three seconds unless told otherwise
    page.script("socket.connect()")
    page.click("[data-key=groups]")
    wait_for(lambda: page.script(points) == 28)
    assert page.script("return window.same")


def test_a_page_that_comes_back_shows_what_was_decided_meanwhile(browser, shared):
    page = Page(browser, shared[0])
    page.go("save")
    page.script("socket.disconnect()")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    try:
        other = Page(browser, shared[0])
        other.go("doubts")
        name = other.text(".detail h2")
        other.press("x")
    finally:
        browser.close()
        browser.switch_to.window(first)
    assert name not in page.text(".save")
    page.script("socket.connect()")
    wait_for(lambda: name in page.text(".save"))


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


def test_the_overview_first_says_which_label_is_not_found(browser, rare):
    page = Page(browser, rare[0])
    found = " ".join(page.text(".figures").split())
    assert found.startswith("0 of 53")
    assert found.index("rows of ill are found") < found.index("leave-one-out accuracy")
    words = page.text()
    assert not re.search(r"\bM[12]\b|principal direction", words)
    assert "mixtures of the columns along which the rows differ most" in words
    page.go("draw")
    assert not re.search(r"\bM[12]\b", page.text())


def test_figures_have_one_decimal_mark_and_the_list_a_heading(browser, rare):
    page = Page(browser, rare[0])
    page.go("doubts")
    shown = page.text(".detail")
    assert re.search(r"\d\.\d", shown)
    assert not re.search(r"\d,\d(?!\d\d\b)", shown)
    assert page.text(".queue .heads").split("\n") == ["row", "label is right"]


def test_no_button_is_preselected(browser, rare):
    page = Page(browser, rare[0])
    page.go("doubts")
    looks = """return [...document.querySelectorAll('.detail [data-key]')].map(b => {
        const s = getComputedStyle(b);
        return s.backgroundColor + s.color + s.borderColor + s.fontWeight;
    })"""
    assert len(page.script(looks)) == 4
    assert len(set(page.script(looks))) == 1
    assert page.script("return document.activeElement.tagName") == "BODY"


def test_rows_are_found_by_id_and_by_number(browser, rare):
    page = Page(browser, rare[0])
    page.go("doubts")
    page.script("document.querySelector('.queue input').focus()")
    page.type("CASE-77")
    wait_for(lambda: set(page.listed) == {f"case-77{i}" for i in ["", *range(10)]})
    assert page.text(".detail h2") == page.listed[0]
    page.type("7")
    wait_for(lambda: page.listed == ["case-777"])
    assert "row 778" in page.text(".detail .title")
    page.type(Keys.ESCAPE)
    page.press("x")  # the row that was found stays, with what was decided
    assert page.text(".detail h2") == "case-777"
    assert "left out" in page.text(".detail .badge")
    page.press("u")
    page.click("[data-key=open]")
    wait_for(lambda: len(page.listed) == 12)


def test_a_bar_towards_a_label_has_its_colour_in_every_view(browser, shared):
    page = Page(browser, shared[0])
    colour = """return [...document.querySelectorAll(arguments[0])].map(
        e => getComputedStyle(e)[arguments[1]])"""
    marks = page.script(colour, ".legend .label .mark", "fill")[:2]  # of no and yes
    checked = 0
    for view in ("overview", "doubts"):
        page.go(view)
        for bar in page.script("""return [...document.querySelectorAll('.two')].filter(
                b => b.offsetParent).map(b => [getComputedStyle(b.firstChild).backgroundColor,
                b.nextSibling.textContent.trim()[0],
                b.closest('table').querySelector('thead').innerText.match(/(no|yes)\\s*(strength|$)/)[1]])"""):
            towards = ["no", "yes"].index(bar[2]) ^ (bar[1] == "−")
            assert bar[0] == marks[towards]
            checked += 1
    assert checked >= 8
    for name, background in page.script("""return [...document.querySelectorAll(
            '.queue li, .degrees .label')].map(e => [e.querySelector('.mark') ?? e,
            e.querySelector('.bar i') ?? e.parentElement.nextSibling.firstChild]).map(
            ([m, b]) => [getComputedStyle(m).fill, getComputedStyle(b).backgroundColor])"""):
        assert name == background


@pytest.mark.parametrize("view", ["overview", "doubts", "draw", "save"])
def test_everything_fits_on_a_telephone(browser, shared, view):
    page = Page(browser, shared[0])
    page.resize(390, 844)
    try:
        for tab in ("overview", "doubts", "draw", "save"):
            ends = f"const b = document.getElementById('tab-{tab}').getBoundingClientRect();"
            assert page.script(f"{ends} return b.left >= 0 && b.right <= 390 && b.width > 50")
        page.go(view)
        assert page.script("return document.documentElement.scrollWidth") <= 390
        tall = """return [...document.querySelectorAll('th, td')].filter(c => c.offsetParent)
            .map(c => c.offsetHeight)"""
        assert all(height < 60 for height in page.script(tall))
        beyond = """return [...document.querySelectorAll('.view *')].filter(e => e.offsetParent
            && e.getBoundingClientRect().right > 391).length"""
        assert page.script(beyond) == 0
    finally:
        page.resize(1280, 800)


def test_a_closed_tab_prints_nothing(serve, path):
    """Say goodbye twice on a connection that is polled, as a tab that is closed may do."""
    served = serve(path, "--target", "sick", "--id", "name")
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


def test_a_table_that_holds_html_shows_it_as_text(browser, serve, tmp_path):
    path = tmp_path / "evil<b>.csv"
    rng = np.random.default_rng(0)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([f"id {EVIL}", f"a {EVIL}", f"b {EVIL}", "</script>", f"y {EVIL}"])
        for i in range(60):
            a, b = rng.normal(size=2)
            label = f"{EVIL}one" if a + 0.3 * rng.normal() > 0 else "'\"&two"
            writer.writerow([f"{EVIL}{i}", f"{a:.3f}", f"{b:.3f}", [EVIL, "plain"][i % 2], label])
    served = serve(path, "--target", f"y {EVIL}", "--id", f"id {EVIL}")
    page = Page(browser, served)
    for view in ("overview", "doubts", "save"):
        page.go(view)
        assert EVIL[:25] in page.text()
        if view == "doubts":
            page.press("r")
            wait_for(lambda: EVIL[:25] in page.text(".detail"))
    assert page.script("return window.stolen ?? null") is None
    assert page.script("return document.querySelectorAll('img').length") == 0
    report = urllib.request.urlopen(f"{served.address}export/report").read().decode()
    assert "<script" not in report
    assert "<img" not in report
    assert not page.errors()


def test_a_page_stays_on_its_row_while_another_decides(browser, serve, path):
    served = serve(path, "--target", "sick", "--id", "name")
    first = Page(browser, served)
    first.go("doubts")
    for _ in range(3):
        first.press(Keys.ARROW_DOWN)
    row, listed = first.row, first.listed
    mine = browser.current_window_handle
    browser.switch_to.new_window("tab")
    second = Page(browser, served)
    second.go("doubts")
    second.press("k")
    browser.close()
    browser.switch_to.window(mine)
    wait_for(lambda: first.listed != listed)
    assert first.row == row
    first.press("x")
    assert [event["action"] for event in events(path)] == ["keep", "leave out"]
    assert events(path)[1]["row"] == row + 2


def test_settled_rows_are_listed_beside_a_search(browser, serve, path):
    page = Page(browser, serve(path, "--target", "sick", "--id", "name"))
    page.go("doubts")
    page.press("k")
    page.browser.find_element("css selector", ".queue input").send_keys("p1")
    wait_for(lambda: "open or settled" in page.text(".queue"))
    page.click('[data-key="settled"]')
    wait_for(lambda: "the latest first" in page.text(".queue"))
    assert len(page.listed) == 1
