"""
A script that is edited while it runs is judged by the code that runs, and not by the new text.
"""

import ast
from pathlib import Path
from types import CodeType

from autoloader.start.main_guard import _tree

TEXT = 'def main():\n    pass\n\n\nif __name__ == "__main__":\n    main()\n'


def compiled(path: Path, text: str) -> CodeType:
    """
    Write a script and return its code, as Python compiles it.
    """
    path.write_text(text, encoding="utf-8")
    return compile(text, str(path), "exec")


def test_source_that_was_compiled_to_the_code_is_read(tmp_path: Path) -> None:
    """
    Nobody edited it: its statements are known.
    """
    script = tmp_path / "train.py"
    tree = _tree(str(script), compiled(script, TEXT))
    assert tree is not None
    assert [type(statement) for statement in tree.body] == [ast.FunctionDef, ast.If]


def test_source_whose_lines_moved_is_not_known(tmp_path: Path) -> None:
    """
    The lines of the frames are those of the earlier text, so that nothing can be said of them.
    """
    script = tmp_path / "train.py"
    code = compiled(script, TEXT)
    script.write_text(f"# a comment\n{TEXT}", encoding="utf-8")
    assert _tree(str(script), code) is None


def test_edit_after_the_first_look_changes_nothing(tmp_path: Path) -> None:
    """
    What was known of the code stays known in every later epoch.
    """
    script = tmp_path / "train.py"
    code = compiled(script, TEXT)
    first = _tree(str(script), code)
    script.write_text("main()\n", encoding="utf-8")
    assert first is not None
    assert _tree(str(script), code) is first
