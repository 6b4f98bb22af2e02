"""
The example runs as it stands, on real JPEG files.
"""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "train_images.py"


@pytest.mark.torch
def test_example_trains_on_a_folder_of_jpegs(tmp_path: Path) -> None:
    """
    Three epochs over the demo's own pictures, and the plan before them; the script is short enough to copy.
    """
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    from autoloader.cli.demo import write_cuts

    write_cuts(tmp_path)
    command = [sys.executable, "-W", "error", str(EXAMPLE), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("num_workers=")
    assert [line.partition(":")[0] for line in lines[-3:]] == ["epoch 1", "epoch 2", "epoch 3"]
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 60
