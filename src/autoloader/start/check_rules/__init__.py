"""
What the check looks for in source, and how it follows loaders through a file.
"""
