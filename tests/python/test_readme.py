# SPDX-License-Identifier: MIT
"""The examples of client/python/README.md, one after the other, as a reader would run them."""

import re

from conftest import TREE


def test_examples(store, monkeypatch):
    monkeypatch.setenv("KVD_URL", store.url)
    text = (TREE / "client" / "python" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
