"""
Moving batches: what runs in workers and around them.
"""
