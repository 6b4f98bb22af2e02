"""
Statistics of paired runs, with values known by hand or from tables.
"""

import pytest
from benchmarks.paired import geometric_mean, median_with_interval, paired_ratios


def test_paired_ratios_divides_round_by_round() -> None:
    """Each round has the ratio of its own two runs."""
    assert paired_ratios([1.0, 3.0], [2.0, 2.0]) == [0.5, 1.5]


def test_paired_ratios_of_unequal_rounds_is_an_error() -> None:
    """A round that one of the two lacks pairs with nothing."""
    with pytest.raises(ValueError, match="zip"):
        paired_ratios([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [
        pytest.param(1, 1, 1, 0.0, id="one"),
        pytest.param(3, 1, 3, 0.75, id="three-have-all-of-their-range"),
        pytest.param(5, 1, 5, 0.9375, id="five-too-few-for-95"),
        pytest.param(6, 1, 6, 0.96875, id="six"),
        pytest.param(7, 1, 7, 0.984375, id="seven"),
        pytest.param(9, 2, 8, 0.9609375, id="nine"),
        pytest.param(20, 6, 15, 0.9586, id="twenty"),
    ],
)
def test_median_with_interval_has_the_ranks_of_the_tables(count: int, low: int, high: int, coverage: float) -> None:
    """The ranks are those of the sign test's table at 0.05."""
    found = median_with_interval([float(each) for each in range(count, 0, -1)])
    assert (found.value, found.low, found.high) == ((count + 1) / 2, low, high)
    assert found.coverage_fraction == pytest.approx(coverage, abs=1e-4)


def test_median_with_interval_of_nothing_says_so() -> None:
    """There is no median without a round."""
    with pytest.raises(ValueError, match="no round was run"):
        median_with_interval([])


def test_geometric_mean_of_known_values() -> None:
    """Twice as fast and half as fast make neither."""
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([0.25, 1.0]) == pytest.approx(0.5)
