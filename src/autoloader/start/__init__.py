"""
May worker processes start here, and how: the main guard, at run time and in source.
"""
