"""Each page on how to add something, done as it says."""

import pytest
from pages import ROOT, blocks, commands, copy_tree, put, run


@pytest.mark.parametrize("name", ["algorithm", "selector", "network", "topology"])
def test_what_the_page_says(name, tmp_path):
    copy_tree(tmp_path)
    for block in blocks(ROOT / "docs/howto" / f"{name}.md"):
        if block.file:
            put(block, tmp_path)
        for command in commands(block):
            print(command)
            print(run(command, tmp_path))
    run(".venv/bin/ruff check . && .venv/bin/ruff format --check .", tmp_path)
