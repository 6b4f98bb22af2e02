"""
Finding settings by trying them: trials in a process of their own, and what follows from them.
"""
