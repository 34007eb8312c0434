"""Every python block of the README runs, in order, as one session."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_readme_blocks_run(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks, "README.md shows no python block"
    monkeypatch.chdir(tmp_path)  # what a block writes stays out of the work tree
    session = {"__name__": "readme"}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"README.md, python block {number}", "exec"), session)
