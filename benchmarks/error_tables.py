"""Download the five tables with real label errors: ``python -m benchmarks error_tables [FOLDER]``.

UCI's Mammographic Mass (CC BY 4.0): the label is a BI-RADS assessment of 5 or more, the truth the
biopsy. Four releases of Rnalytica (GPL 2 or later): the label is a heuristic about commits, the
truth the issue tracker. The tables are written as CSV files into FOLDER, by default the folder in
which ``python -m benchmarks label_issues`` looks for them. They are not part of the repository. A
table is written only if it is, to the last digit, the one that the documentation's figures were
measured on.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import OneHotEncoder

from benchmarks._keel import DEFAULT_FOLDER

UCI = (
    "https://archive.ics.uci.edu/ml/machine-learning-databases/mammographic-masses/"
    "mammographic_masses.data"
)
RNALYTICA = "https://raw.githubusercontent.com/awsm-research/Rnalytica/{commit}/inst/extdata/jira/"
RELEASES = {
    "jira_groovy": ("ebee4953dd808e476ba93a243f51bf8911d460a0", "groovy-1_6_BETA_1.csv"),
    "jira_jruby": ("ebee4953dd808e476ba93a243f51bf8911d460a0", "jruby-1.1.csv"),
    "jira_camel": ("ebee4953dd808e476ba93a243f51bf8911d460a0", "camel-1.4.0.csv"),
    "jira_wicket": ("070ff0e8e9e2d873bd52125ed70f6eb992f2d5ef", "wicket-1.3.0-beta2.csv"),
}
# SHA-256 of the numbers of each encoded table.
DIGESTS = {
    "mammo": "8c806b3740da50ef38b0bdf1f3d1463821b4fc84e0ebef0356a021c75a0822f9",
    "jira_groovy": "92bd9b8a9ca4af15c1a3f392da087ba0518ee9882fe08e268017d14e7b33beb8",
    "jira_jruby": "ee4943388b04ad1ad6dcdde6e2d4304338ce39ff6c7bddc6bfbe97f6f9fb540d",
    "jira_camel": "1d005a6a2d6a510732617efbe2d12d2850e27e97c4d9e971c390b2c97e48da39",
    "jira_wicket": "6d5f780887db4c4212c2046fd9ccf37d8614f24b23c917c05e3848ad420868f4",
}
TIMEOUT = 60  # seconds
MASSES = ("birads", "age", "shape", "margin", "density", "malignant")
NOT_FEATURES = ("File", "HeuBug", "HeuBugCount", "RealBug", "RealBugCount")


def addresses() -> dict[str, str]:
    """Return where each table is downloaded from."""
    releases = {
        name: RNALYTICA.format(commit=commit) + file for name, (commit, file) in RELEASES.items()
    }
    return {"mammo": UCI, **releases}


def masses(raw: str) -> pd.DataFrame:
    """Encode the mammographic masses: age, density, then shape and margin as indicators.

    Rows whose assessment is missing, or misprinted as 55, are removed. Missing ages and densities
    are replaced by the median, and a missing shape or margin is a category of its own.
    """
    frame = pd.read_csv(io.StringIO(raw), names=MASSES, na_values="?")
    frame = frame[frame["birads"].between(0, 6)]
    numbers = frame[["age", "density"]]
    categories = frame[["shape", "margin"]].fillna(0)
    indicators = OneHotEncoder(sparse_output=False).fit_transform(categories)
    X = np.column_stack([numbers.fillna(numbers.median()), indicators])
    return _table(X, label=frame["birads"] >= 5, truth=frame["malignant"] == 1)


def release(raw: str) -> pd.DataFrame:
    """Take the logarithm of the metrics of a release, plus 1."""
    frame = pd.read_csv(io.StringIO(raw))
    X = np.log1p(frame.drop(columns=list(NOT_FEATURES)).to_numpy(float)).round(6)
    return _table(X, label=frame["HeuBug"], truth=frame["RealBug"])


def _table(X, label, truth) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return frame.assign(label=label.to_numpy(int), truth=truth.to_numpy(int))


def digest(table: pd.DataFrame) -> str:
    """Return the SHA-256 of the numbers of a table."""
    return hashlib.sha256(table.to_numpy("<f8").tobytes()).hexdigest()


def download(address: str) -> str:
    """Return the text at an address."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as response:
            return response.read().decode("utf-8")
    except urllib.error.URLError as error:
        raise SystemExit(f"{address} cannot be downloaded: {error.reason}") from error


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks error_tables", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, address in addresses().items():
        encode = masses if name == "mammo" else release
        table = encode(download(address))
        if digest(table) != DIGESTS[name]:
            raise SystemExit(f"{name}: not the table of the documentation's figures: {address}")
        table.to_csv(folder / f"{name}.csv", index=False)
        wrong = (table["label"] != table["truth"]).mean()
        print(f"{name}: {len(table):,} rows, {wrong:.0%} of the labels wrong", flush=True)
