"""
What is slow about the place of the data.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="cache.off",
        title="What is kept between runs is asked for, and nothing is kept",
        text="Nothing is kept between runs: AUTOLOADER_NO_CACHE is set, or this user has no home folder.",
        fix="Unset it, or name a folder in AUTOLOADER_CACHE_DIR.",
    ),
    Finding(
        id="cache.not-ours",
        title="A folder is to be cleared that is not a cache of autoloader's",
        text="{folder} is not cleared: it has no CACHEDIR.TAG of autoloader's, so something else may keep files there.",
        fix="Look whether AUTOLOADER_CACHE_DIR names the folder that you mean, and delete its files yourself.",
    ),
    Finding(
        id="cache.unusable",
        title="What is kept between runs cannot be deleted",
        text="The cache could not be cleared: {reason}.",
        fix="Delete the folder as its owner.",
    ),
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
