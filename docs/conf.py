"""
Sphinx: the four doors of the docs.
"""

import autoloader

project = "autoloader"
author = "the autoloader authors"
release = version = autoloader.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "autoloader"
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(SCHEMA|torch|collections|pathlib|weakref|autoloader\.loader\.auto_loader|P|T|R)(\..*)?")
]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
