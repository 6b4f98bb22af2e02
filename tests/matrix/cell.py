"""
One start method in one situation, in a Python of its own: prints a line of JSON for each dataset and variant.

``python cell.py METHOD SITUATION FOLDER SECONDS VARIANTS DATASETS``, the last two with commas.
"""

import multiprocessing
import sys
from pathlib import Path

from matrix.inside import Order, run_in
from matrix.kinds import Numbers

if __name__ == "__main__":

    class InGuard(Numbers):
        """
        The dataset whose class stands under the guard.
        """

    method, situation, folder, seconds, variants, datasets = sys.argv[1:]
    multiprocessing.set_start_method(method)
    run_in(situation, Order(situation, Path(folder), float(seconds), variants.split(","), datasets.split(",")))
