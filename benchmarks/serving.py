"""Predictions of a served model: time of one row and of a thousand, memory, and size of the file.

Times are the least CPU time of several calls of ``predict_proba`` (of the session, for ONNX), on
one thread. Memory is what a call with 100,000 rows takes beyond the rows and the model.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import pandas as pd
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from benchmarks._measure import least_times, peak_beyond
from fuzzytwin import FuzzyTwinCommittee, FuzzyTwinSVC
from fuzzytwin.datasets import load_uci
from fuzzytwin.store import save, to_onnx

COLUMNS = 20
MANY, MORE = 1_000, 100_000


def run(arguments: list[str]) -> None:
    """`python -m benchmarks serving`."""
    print(f"{'':44s}{'one row':>10s}{f'{MANY:,} rows':>12s}{'file':>10s}{f'{MORE:,} rows':>16s}")
    X, y = make_classification(20_000, COLUMNS, n_informative=8, random_state=0)
    new = make_classification(MORE, COLUMNS, n_informative=8, random_state=1)[0]
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        models = {n: FuzzyTwinCommittee().fit(X[:n], y[:n]) for n in (300, 1_500, 20_000)}
        for n, model in models.items():
            save(model, path, overwrite=True)
            line(f"committee of {n:,} rows", model.predict_proba, new, path)
        planes = FuzzyTwinSVC().fit(X, y)
        save(planes, path, overwrite=True)
        line("linear planes of 20,000 rows", planes.predict_membership, new, path)
        graph = to_onnx(models[1_500])
        path.write_bytes(graph.SerializeToString())
        line("committee of 1,500 rows, as ONNX", onnx_session(path), new, path, with_memory=False)
        patients, disease = load_uci("heart_cleveland", return_X_y=True, as_frame=True)
        model = FuzzyTwinCommittee().fit(patients, disease)
        save(model, path, overwrite=True)
        frame = pd.concat([patients] * -(-MORE // len(patients)), ignore_index=True)[:MORE]
        line("committee of 303 patients, data frames", model.predict_proba, frame, path)
        onnx_memory(X, y, path)


def line(name, predict, X, path, *, with_memory=True):
    """Print the measures of one model."""
    calls = {1: partial(predict, X[:1]), MANY: partial(predict, X[:MANY])}
    predict(X[:1])  # what a first call sets up is no part of the time
    one = least_times({1: calls[1]}, 50, time.process_time)[1]
    many = least_times({MANY: calls[MANY]}, 5, time.process_time)[MANY]
    memory = f"{peak_beyond(lambda: predict(X)):12.0f} MiB" if with_memory else ""
    size = path.stat().st_size / 1e6
    print(f"{name:44s}{1e3 * one:7.2f} ms{1e3 * many:9.1f} ms{size:7.2f} MB{memory}", flush=True)


def onnx_session(path):
    """Return a function that predicts rows by an ONNX graph, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), options)
    return lambda X: session.run(None, {"X": X})


def onnx_memory(X, y, path, n_landmarks=1_000, n=5_000):
    """Print the memory per row of an ONNX graph with a kernel."""
    model = FuzzyTwinSVC(kernel="rbf", n_landmarks=n_landmarks).fit(X, y)
    path.write_bytes(to_onnx(model).SerializeToString())
    predict = onnx_session(path)
    predict(X[:1])
    memory = peak_beyond(lambda: predict(X[:n])) * 1024 / n
    print(f"ONNX, {n_landmarks:,} landmarks: {memory:.0f} KiB of memory per row")
