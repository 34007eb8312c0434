"""The paper, reproduced and audited: ``python -m reproduction``.

`reproduction.main.reproduce` runs every experiment of the paper under two protocols, two studies
that it should have had, and an audit of its formulas. It writes tables, figures and a report.
"""
