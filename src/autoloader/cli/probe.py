"""
Show what this host is, as far as loading data is concerned.
"""

import argparse
import json

from ..probe import probe_host
from ..records import to_json
from ..report import render_facts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    parser.add_argument("--json", action="store_true", help="print every fact with its source, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """
    Print the facts.
    """
    facts = probe_host()
    print(json.dumps(to_json(facts), indent=2) if arguments.json else render_facts(facts))
    return 0
