"""One page of HTML about a trained model; needs no network and no other file."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import numpy as np

import fuzzytwin
from fuzzytwin.report.insight import explain
from fuzzytwin.tables.training import Trained

STYLE = """
:root { --ink: #1d2430; --faint: #667; --line: #dde1e8; --blue: #0072b2; --red: #b00020; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0; background: #f6f7f9; }
main { max-width: 60rem; margin: 2rem auto; padding: 2rem 2.5rem; background: #fff;
       border: 1px solid var(--line); border-radius: 8px; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.faint, .faint { color: var(--faint); } small { color: var(--faint); }
.score { display: flex; gap: 2.5rem; flex-wrap: wrap; margin: 1.4rem 0; }
.score div { min-width: 8rem; } .score b { display: block; font-size: 2rem; line-height: 1.2; }
.score .main b { color: var(--blue); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.hit { background: #e5f1f8; font-weight: 600; }
.planes { display: grid; gap: 0 2.5rem;
          grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); }
.bar { display: inline-block; height: .7rem; background: var(--blue); border-radius: 2px;
       vertical-align: middle; } .bar.minus { background: #e69f00; }
.bar.both { background: #8a93a3; }
img { max-width: 100%; height: auto; } code { background: #f1f3f6; padding: .1rem .3rem; }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .85rem; }
"""


def report(trained: Trained, command: str, versions: dict[str, str]) -> str:
    """The page."""
    facts, score = trained.facts, trained.facts["score"]
    title = f"{_base(facts['data'])}: predicting {facts['target'] or 'the label'}"
    parts = [
        f"<h1>{_e(title)}</h1>",
        f"<p class=faint>{facts['rows']:,} rows, {len(facts['classes'])} classes: "
        f"{_e(', '.join(f'{k} ({n:,})' for k, n in list(facts['classes'].items())[:12]))}</p>",
        "<div class=score>",
        _number("accuracy", f"{score['accuracy']:.3f}", f"± {score['accuracy_std']:.3f}", "main"),
        _number("balanced accuracy", f"{score['balanced_accuracy']:.3f}"),
        _number("always the largest class", f"{score['baseline']:.3f}"),
        "</div>",
        f"<p>{_e(verdict(score))} By {_e(score['how'])}: what is learned, the encoding and the "
        "choice of parameters included, never saw the rows it is measured on.</p>",
    ]
    parts += [f"<p>Note: {_e(note)}.</p>" for note in facts["notes"]]
    parts += ["<h2>Where it is right and wrong</h2>", _confusion(score)]
    parts += _doubtful(trained)
    parts += ["<h2>What drives each plane</h2>", _planes(trained)]
    parts += _surface(trained)
    parts += ["<h2>What became of the columns</h2>", _columns(facts["columns"])]
    chosen = ", ".join(f"{name} = {_value(value)}" for name, value in facts["parameters"].items())
    if facts["landmarks"] is not None:
        chosen += f"; {facts['landmarks']:,} landmarks"
    how = "chosen by cross-validation" if facts["tuned"] else "as given"
    parts += [
        "<h2>How to make it again</h2>",
        f"<p><code>{_e(command)}</code></p><p>Parameters, {how}: {_e(chosen)}.</p>",
        f"<footer>fuzzytwin {_e(fuzzytwin.__version__)}, "
        f"{_e(', '.join(f'{k} {v}' for k, v in versions.items() if k != 'fuzzytwin'))}</footer>",
    ]
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{_e(title)}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n"
        "</main></body></html>\n"
    )


def verdict(score: dict[str, Any]) -> str:
    """Whether the model knows more than the frequencies of the classes, in one sentence."""
    gain = score["accuracy"] - score["baseline"]
    if gain <= 0:
        return "It is no better than always naming the largest class: do not use it."
    if gain < 2 * score["accuracy_std"]:
        return "It is hardly better than always naming the largest class."
    return "It is clearly better than always naming the largest class."


def _number(what: str, value: str, spread: str = "", kind: str = "") -> str:
    return f"<div class='{kind}'><b>{value} <small>{spread}</small></b>{_e(what)}</div>"


def _confusion(score: dict[str, Any]) -> str:
    table, labels = np.array(score["confusion"]), score["classes"]
    if len(labels) > 20:
        return "<p class=faint>Too many classes for a table.</p>"
    head = "".join(f"<th class=n>said {_e(label)}</th>" for label in labels)
    rows = []
    for i, label in enumerate(labels):
        cells = "".join(
            f"<td class='n{' hit' if i == j else ''}'>{count:,}</td>"
            for j, count in enumerate(table[i])
        )
        recall = f"{table[i, i] / table[i].sum():.0%}" if table[i].sum() else "-"
        rows.append(f"<tr><td>is {_e(label)}</td>{cells}<td class=n>{recall}</td></tr>")
    return (
        f"<div class=wide><table><tr><th></th>{head}<th class=n>found</th></tr>"
        f"{''.join(rows)}</table></div>"
    )


def _doubtful(trained: Trained) -> list[str]:
    if not len(trained.y):
        return []
    classes = np.unique(trained.y)
    own = trained.memberships[np.arange(len(trained.y)), np.searchsorted(classes, trained.y)]
    order = np.argsort(own, kind="stable")[:10]
    # Rows count from 1, without the line of names.
    index = np.asarray(getattr(trained.rows, "index", np.arange(len(own)))) + 1
    rows = index[order]
    lines = "".join(
        f"<tr><td class=n>{row}</td><td>{_e(trained.y[i])}</td>"
        f"<td>{_e(classes[trained.memberships[i].argmax()])}</td><td class=n>{own[i]:.2f}</td></tr>"
        for i, row in zip(order, rows, strict=True)
    )
    parts = [
        "<h2>Rows to look at first</h2>",
        "<p>Their label fits worst with what the others teach: wrong labels, or special cases.</p>",
        "<div class=wide><table><tr><th class=n>row</th><th>labelled</th><th>looks like</th>"
        f"<th class=n>degree in its label</th></tr>{lines}</table></div>",
    ]
    picture = _picture(
        lambda plot, ax: plot.MembershipDisplay(own, trained.y, index, n_doubtful=5).plot(ax),
        (7.5, 1.2 + 1.05 * min(len(classes), 8)),
        "Degrees of membership in the own label, by class",
    )
    return [*parts, picture] if len(classes) <= 8 else parts


def _planes(trained: Trained) -> str:
    try:
        planes = explain(trained.model)
    except ValueError as error:
        return f"<p>{_e(error)}</p>"
    fuzzy = trained.facts["parameters"]["planes"] == "fuzzy"
    blocks = []
    for plane in planes[:12]:
        lines = []
        top = plane["features"][0]["share"] or 1.0
        for feature in plane["features"][:8]:
            kind = {1: "bar", -1: "bar minus", 0: "bar both"}[feature["sign"]]
            lines.append(
                f"<tr><td>{_e(feature['name'])}</td><td><span class='{kind}' "
                f"style='width:{6 * feature['share'] / top:.2f}rem'></span></td>"
                f"<td class=n>{feature['share']:.0%}</td></tr>"
            )
        vague = f"<small>, vagueness {plane['vagueness']:.2f}</small>" if fuzzy else ""
        blocks.append(
            f"<div><h3>{_e(plane['class'])}{vague}</h3><table>{''.join(lines)}</table></div>"
        )
    both = ""
    if not all(plane["one_sided"] for plane in planes):
        both = " Grey: the class's rivals lie on both sides of its plane, so no sign tells."
    return (
        "<p>Share of each column in the plane of a class; blue speaks for the class, orange "
        f"against it.{both}</p><div class=planes>{''.join(blocks)}</div>"
    )


def _surface(trained: Trained) -> list[str]:
    if trained.search is None:
        return []
    picture = _picture(
        lambda plot, ax: plot.ValidationSurfaceDisplay.from_estimator(trained.search, ax=ax),
        (5.5, 4.2),
        "Score of the settings that were tried",
    )
    count = len(trained.search.cv_results_["params"])
    return [f"<h2>What the search saw</h2><p>{count:,} settings were tried.</p>", picture]


def _columns(columns: list[dict[str, Any]]) -> str:
    shown = columns[:200]
    rows = "".join(
        f"<tr><td>{_e(c['name'])}</td><td>{_e(c['kind'])}</td><td class=n>{c['distinct']:,}</td>"
        f"<td class=n>{c['missing']:,}</td><td>{_e(c['note'])}</td></tr>"
        for c in shown
    )
    more = f"<p>... and {len(columns) - 200:,} more.</p>" if len(columns) > 200 else ""
    return (
        "<div class=wide><table><tr><th>column</th><th>taken as</th><th class=n>values</th>"
        f"<th class=n>missing</th><th></th></tr>{rows}</table></div>{more}"
    )


def _picture(draw: Any, size: tuple[float, float], what: str) -> str:
    """A drawing inside the page; without matplotlib, a word about it."""
    try:
        from matplotlib.figure import Figure

        from fuzzytwin import plot
    except ImportError:
        return "<p class=faint>(Pictures need matplotlib.)</p>"
    figure = Figure(figsize=size, layout="constrained")
    draw(plot, figure.subplots())
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    text = base64.b64encode(buffer.getvalue()).decode()
    return f"<p><img alt='{_e(what)}' src='data:image/png;base64,{text}'></p>"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "(" + ", ".join(_value(item) for item in value) + ")"
    return str(value)


def _base(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _e(text: object) -> str:
    return html.escape(str(text), quote=True)
