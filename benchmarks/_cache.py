"""Results of single fits, kept in a file so that a stopped run continues."""

from __future__ import annotations

import json
import os


class Cache:
    """Results by key; with a path, every new one is written at once."""

    def __init__(self, path):
        self.path = path
        self.results = json.loads(path.read_text()) if path and path.exists() else {}

    def __setitem__(self, key, value):
        self.results[key] = value
        if self.path:
            new = self.path.with_name(self.path.name + ".new")
            new.write_text(json.dumps(self.results, indent=0))
            os.replace(new, self.path)


def key_of(*parts):
    return "|".join(map(str, parts))
