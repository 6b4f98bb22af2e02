"""
Show the settings for a dataset, each with its reason.
"""

import argparse
import contextlib
import sys
from typing import Any

from ..errors import ArgumentError
from ..findings import describe
from .target import load_dataset, require_torch


def add_loader_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare what says which loader is meant.
    """
    parser.add_argument("target", metavar="TARGET", help="module:factory or file.py:factory, which returns the dataset")
    parser.add_argument("--batch-size", type=int, default=1, metavar="N", help="samples a batch (default: 1)")
    parser.add_argument("--epochs", type=int, metavar="N", help="how often you go through the dataset (default: many)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    add_loader_arguments(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--explain", metavar="NAME", help="why one argument has its value, and what did not bind")
    output.add_argument("--json", action="store_true", help="print the plan as JSON, for auto_loader(plan=FILE)")


def run(arguments: argparse.Namespace) -> int:
    """
    Print the plan for the dataset that TARGET returns; none of its samples is fetched.
    """
    require_torch("'plan'")
    from ..loader import plan_loader

    check_batch_size(arguments.batch_size)
    with contextlib.redirect_stdout(sys.stderr):
        dataset = load_dataset(arguments.target)
    plan = plan_loader(dataset, arguments.batch_size, **order_for(dataset), epochs=arguments.epochs)
    if arguments.json:
        print(plan.to_json())
    elif arguments.explain is not None:
        print(plan.explain(arguments.explain))
    else:
        print(plan)
    return 0


def order_for(dataset: object) -> dict[str, Any]:
    """
    Return the arguments that shuffle as in training, if the dataset is map-style and has an order to change.
    """
    from torch.utils.data import IterableDataset

    from ..profiling.inspect import length_of

    return {"shuffle": True} if not isinstance(dataset, IterableDataset) and length_of(dataset) else {}


def check_batch_size(batch_size: int) -> None:
    """
    Refuse a batch without samples.

    Raises:
        ArgumentError: It is one.
    """
    if batch_size < 1:
        evidence = {"value": batch_size, "meaning": "it counts the samples of a batch", "least": 1}
        raise ArgumentError(describe("argument.too-small", name="batch_size", **evidence))
