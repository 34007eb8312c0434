"""The view Save: the journal, the files to download, and the list of decisions."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from fuzzytwin._utils.text import count
from fuzzytwin.studio._export import FILES, evaluate_command, train_command
from fuzzytwin.studio._history import ACTIONS
from fuzzytwin.studio._view import View, card, heading, hint, label_chip, short

MAX_LISTED = 100


class SaveView(View):
    """What is kept, the files, and the decisions."""

    name = "save"

    def build(self) -> None:
        """Lay out three cards."""
        with ui.grid().classes("w-full grid-cols-1 lg:grid-cols-2 gap-3 items-start"):
            with ui.column().classes("gap-3 min-w-0 w-full"):
                self.kept = card("kept")
                with card("files"):
                    heading("Download")
                    self._lay_out_files()
            self.made = card("made-list")

    def _lay_out_files(self) -> None:
        rows = "the sampled rows" if self.session.table.sampled else "all rows and columns"
        about = {
            "table": f"In the format of the data: {rows}, with the reviewed label and the "
            "decision. Excluded rows have no label.",
            "report": "One page about the decisions and their result.",
        }
        for kind, export in FILES.items():
            name = export.name(self.session)
            with ui.column().classes("gap-0 w-full"):
                with ui.row().classes("items-center gap-2 w-full min-w-0"):
                    button = ui.button(kind.capitalize(), icon="download")
                    button.props(f'outline no-caps dense href="export/{kind}" download')
                    ui.label(name).classes("font-mono text-sm break-all min-w-0")
                hint(about[kind])
        hint("To train on the table:")
        self.command = ui.label().classes("font-mono text-sm break-words w-full command")
        if measure := evaluate_command(self.session):
            hint("To measure that model on new rows, whose labels are in the column of the target:")
            ui.label(measure).classes("font-mono text-sm break-words w-full evaluate-command")

    def refresh(self) -> None:
        """Draw what is kept and the decisions."""
        session = self.session
        journal = session.history.journal
        self.command.set_text(train_command(session))
        self.kept.clear()
        with self.kept:
            heading("Every decision is saved already")
            where = "" if journal is None else str(journal.path)
            ui.label(
                "Each one is written to the journal at once. Close the page or the program "
                "whenever you like: the next time, the studio continues from there. The data file "
                "itself is never written."
            )
            ui.label(where).classes("font-mono text-sm break-all w-full")
            counts = session.labels.count()
            made = [f"{n:,} {ACTIONS[action]}" for action, n in counts.items() if n]
            ui.label(f"Rows: {', '.join(made)}." if made else "No rows are reviewed yet.")
            for note in session.history.journal_notes:
                ui.label(short(note, 400))
        self._draw_decisions()

    def _draw_decisions(self) -> None:
        session = self.session
        names = session.class_names
        made = list(session.decisions.items())[::-1]
        self.made.clear()
        with self.made:
            heading("Decisions")
            if not made:
                hint("None yet. Begin in the view Review.")
                return
            more = f" The latest {MAX_LISTED} are shown." if len(made) > MAX_LISTED else ""
            reviewed = f"{count(len(made), 'row')} reviewed, the latest first."
            hint(f"{reviewed}{more} Click one to show it.")
            with ui.list().props("dense separator").classes("w-full max-h-[560px] overflow-auto"):
                for row, decision in made[:MAX_LISTED]:
                    with ui.item(on_click=partial(self.page.look_at, row)).classes("px-1"):
                        with ui.item_section().classes("min-w-0"):
                            ui.item_label(short(session.table.name_of(row)))
                            given = short(names[session.table.codes[row]], 24)
                            ui.item_label(f"given label {given}").props("caption")
                        with ui.item_section().props("side").classes("max-w-[50%]"):
                            ui.item_label(decision.words).props("caption")
                            if decision.used:
                                label_chip(decision.code, names[decision.code])
