"""
Measurements, always as ratios of runs that were made side by side.
"""
