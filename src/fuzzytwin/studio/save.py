"""The view Save: what was decided, where it is kept, and files to take away."""

from __future__ import annotations

from nicegui import ui

from fuzzytwin.studio.export import WORDS, file_names, train_command
from fuzzytwin.studio.markup import label, put, safe, table
from fuzzytwin.studio.session import Session

MOST_LISTED = 200
ABOUT = {
    "table": (
        "The table",
        "As CSV: all columns of the file, and three more for the settled label, its degree and "
        "the decision. Rows that are left out have no label.",
    ),
    "model": (
        "The model",
        "Learned from the settled rows, for <code>fuzzytwin predict</code>, "
        "<code>explain</code> and <code>evaluate</code>.",
    ),
    "report": ("A report", "One page about the decisions and what came of them."),
}


class SaveView:
    """The journal, the files, and the list of decisions."""

    def __init__(self, session: Session) -> None:
        self.session = session
        with ui.element("section").classes("view save"):
            with ui.element("div").classes("stack"):
                self.kept = ui.html("", sanitize=False).classes("card")
                self.files = ui.html("", sanitize=False).classes("card")
            self.made = ui.html("", sanitize=False).classes("card")

    def refresh(self) -> None:
        """Draw all that has changed."""
        put(self.kept, self._kept())
        put(self.files, self._files())
        put(self.made, self._made())

    def _kept(self) -> str:
        session = self.session
        where = safe(session.journal.path if session.journal else "", 400)
        counts = ", ".join(f"{n:,} {WORDS[action]}" for action, n in session.counts().items())
        return (
            "<h2>Everything is saved already</h2>"
            f"<p>Every decision is written at once to <code>{where}</code>. Close the page or the "
            "program whenever you like: the next time, the studio goes on from there. The data "
            f"file itself is never written.</p><p>So far: {counts}.</p>"
        )

    def _files(self) -> str:
        names = file_names(self.session)
        lines = "".join(
            f'<div><dt><a class="plain{" main" if kind == "table" else ""}" '
            f'href="export/{kind}" download="{safe(names[kind])}">{title}</a> '
            f"<code>{safe(names[kind])}</code></dt><dd>{words}</dd></div>"
            for kind, (title, words) in ABOUT.items()
        )
        return (
            f"<h2>Take it away</h2><dl>{lines}</dl><p class='hint'>To train on the table:</p>"
            f"<p><code>{safe(train_command(self.session), 1000)}</code></p>"
        )

    def _made(self) -> str:
        session = self.session
        rows = list(reversed(session.decisions.items()))
        lines = [
            [
                f'<button class="plain" data-open="{row}">{safe(session.table.name_of(row), 40)}'
                "</button>",
                safe(WORDS[made.action]),
                label(int(session.table.codes[row]),
                      session.class_name(int(session.table.codes[row]))),
                label(made.code, session.class_name(made.code)) if made.used else "–",
                f"{made.degree:.2f}" if made.used else "–",
            ]
            for row, made in rows[:MOST_LISTED]
        ]  # fmt: skip
        if not lines:
            return "<h2>Decisions</h2><p>None yet: begin in the view Doubts.</p>"
        more = f" The latest {MOST_LISTED} are shown." if len(rows) > MOST_LISTED else ""
        caption = f"{len(rows):,} rows settled, the latest first.{more} Press one to look at it."
        head = ["row", "decision", "given label", "label now", "degree"]
        return f'<h2>Decisions</h2><div class="scroll">{table(caption, head, lines)}</div>'
