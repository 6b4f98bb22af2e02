"""
What is slow about the place of the data.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="storage.network",
        title="The data lies across a network",
        text="{path} lies on {filesystem}: each read waits for the network.",
        fix="Copy the data to a local disk if it fits.",
    ),
    Finding(
        id="storage.hdd",
        title="The data lies on a spinning disk",
        text="{path} lies on a spinning disk, which slows down when many workers read at once.",
        fix="Pack small files into few large ones, or copy the data to an SSD.",
    ),
)
"""
The findings of this area, in the order of the docs.
"""
