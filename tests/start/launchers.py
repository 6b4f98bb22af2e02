"""
Scripts that installers write, and what they need to be run.
"""

PIP_SCRIPT = r"""
# -*- coding: utf-8 -*-
import re
import sys
from tool.cli import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\.pyw|\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""
"""
A console script as pip 21 to 25 writes it (distlib's template, its first line apart).
"""

SETUPTOOLS_SCRIPT = r"""
# EASY-INSTALL-ENTRY-SCRIPT: 'tool','console_scripts','tool'
import re
import sys

# for compatibility with easy_install; see #2198
__requires__ = 'tool'

try:
    from importlib.metadata import distribution
except ImportError:
    try:
        from importlib_metadata import distribution
    except ImportError:
        from pkg_resources import load_entry_point


def importlib_load_entry_point(spec, group, name):
    dist_name, _, _ = spec.partition('==')
    matches = (
        entry_point
        for entry_point in distribution(dist_name).entry_points
        if entry_point.group == group and entry_point.name == name
    )
    return next(matches).load()


globals().setdefault('load_entry_point', importlib_load_entry_point)


if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\.pyw?|\.exe)?$', '', sys.argv[0])
    sys.exit(load_entry_point('tool', 'console_scripts', 'tool')())
"""
"""
A console script as ``setup.py install`` and ``setup.py develop`` wrote it (setuptools, command/easy_install.py).
"""

DEVELOP_SCRIPT = r"""
# EASY-INSTALL-DEV-SCRIPT: 'tool','job.py'
__file__ = 'job.py'
with open(__file__) as f:
    exec(compile(f.read(), __file__, 'exec'))
"""
"""
What ``setup.py develop`` wrote for a file listed under ``scripts=`` (setuptools, ``script (dev).tmpl``).
"""

TOOL = {
    "tool/__init__.py": "",
    "site/tool-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n",
    "site/tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool = tool.cli:main\n",
}
