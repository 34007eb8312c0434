"""What a model predicts, as a frame."""

from __future__ import annotations

from typing import Any


def predictions(model: Any, X: Any) -> Any:
    """Predict the label and the memberships of each row, as a frame."""
    import pandas

    columns: dict[str, Any] = {}
    if hasattr(model, "predict_proba"):
        u = model.predict_proba(X)
        columns["label"] = model.classes_[u.argmax(axis=1)]
        for k, label in enumerate(model.classes_):
            columns[f"membership_{label}"] = u[:, k]
    else:
        columns["label"] = model.predict(X)
    return pandas.DataFrame(columns)
