"""
Statistics of runs that were made side by side: ratios by round, their median, its interval, and a geometric mean.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Median:
    """
    A median and its interval.
    """

    value: float
    """The sample median."""
    low: float
    """The interval's lower end, one of the values."""
    high: float
    """The interval's upper end, one of the values."""
    coverage_fraction: float
    """How probable it is that such an interval holds the median of the distribution; 0 to 1."""


def paired_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """
    Return the ratio of each round.

    Raises:
        ValueError: The two have not the same number of rounds.
    """
    return [above / below for above, below in zip(numerators, denominators, strict=True)]


def median_with_interval(values: Sequence[float], least_coverage_fraction: float = 0.95) -> Median:
    """
    Return the median with its order-statistic interval.

    The interval is from the k-th smallest to the k-th largest value, with the largest k at which it holds the median of
    any continuous distribution with probability ``1 - 2 P(B < k)``, B binomial (n, 1/2), not below
    *least_coverage_fraction*. Too few values for that give all of their range, and the coverage that it has: 0.75 of
    three, 0.984 of seven. Source: David and Nagaraja, Order Statistics, third edition, section 7.1.

    Raises:
        ValueError: There is no value.
    """
    if not values:
        raise ValueError("values=[] has no median: no round was run. Run one.")
    ordered, count = sorted(values), len(values)
    coverages = {k: _coverage_fraction(count, k) for k in range(1, (count + 1) // 2 + 1)}
    k = max((k for k, coverage in coverages.items() if coverage >= least_coverage_fraction), default=1)
    return Median(
        value=statistics.median(ordered), low=ordered[k - 1], high=ordered[-k], coverage_fraction=coverages[k]
    )


def _coverage_fraction(count: int, k: int) -> float:
    below: int = sum(math.comb(count, successes) for successes in range(k))
    return max(0.0, 1 - below / 2.0 ** (count - 1))


def geometric_mean(values: Sequence[float]) -> float:
    """
    Return the n-th root of the product of *values*, which are above zero.
    """
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
