"""
The peers' rules as truth tables.
"""

from typing import Any

import pytest
from benchmarks.measure import peer_settings
from benchmarks.peers import PEERS, RULES, Facts


def facts(**other: Any) -> Facts:
    """
    Return a Linux machine of eight CPUs, all usable, with what differs.
    """
    return Facts(**{"cpus": 8, "usable_cpus": 8, "platform": "linux", **other})


@pytest.mark.parametrize(
    ("peer", "other", "expected"),
    [
        pytest.param("torch", {}, {}, id="torch"),
        pytest.param("tutorial", {"cpus": 2}, {"num_workers": 4}, id="tutorial-whatever-the-cpus"),
        pytest.param("cpu-count", {"usable_cpus": 2}, {"num_workers": 8}, id="cpu-count-ignores-mask"),
        pytest.param("lightning", {}, {"num_workers": 7}, id="lightning-one-less"),
        pytest.param("lightning", {"usable_cpus": 3}, {"num_workers": 2}, id="lightning-mask"),
        pytest.param("lightning", {"usable_cpus": 2}, {}, id="lightning-does-not-warn-at-two"),
        pytest.param("lightning", {"usable_cpus": 1}, {}, id="lightning-does-not-warn-at-one"),
        pytest.param("lightning", {"devices": 2}, {"num_workers": 3}, id="lightning-two-devices"),
        pytest.param(
            "lightning", {"platform": "darwin"}, {"num_workers": 7, "persistent_workers": True}, id="lightning-spawns"
        ),
        pytest.param("table", {}, {"num_workers": 4, "prefetch_factor": 4}, id="table-four"),
        pytest.param("table", {"cpus": 2}, {"num_workers": 2, "prefetch_factor": 4}, id="table-few-cpus"),
        pytest.param("table", {"platform": "win32"}, {"num_workers": 0}, id="table-windows"),
    ],
)
def test_rule_gives_what_its_document_says(peer: str, other: dict[str, Any], expected: dict[str, Any]) -> None:
    """A row says what differs from eight usable CPUs on Linux."""
    assert RULES[peer](None, 64, facts(**other)) == expected


def test_peer_settings_has_every_peer_and_joins_equal_settings() -> None:
    """On two CPUs Lightning says nothing, which is torch's default."""
    found = peer_settings(facts(cpus=2, usable_cpus=2))
    assert tuple(found) == PEERS
    assert {name: setting.key for name, setting in found.items()} == {
        "torch": "0w",
        "tutorial": "4w prefetch 2",
        "cpu-count": "2w prefetch 2",
        "lightning": "0w",
        "table": "2w prefetch 4",
        "paddle": "paddle",
        "loadtune": "loadtune",
        "efficio": "efficio",
        "policy": "policy",
        "auto_loader": "auto_loader",
        "calibrated": "calibrated",
    }


def test_peer_settings_leaves_out_what_is_not_installed() -> None:
    """All others stay."""
    assert set(PEERS) - set(peer_settings(facts(), ["loadtune", "efficio"])) == {"loadtune", "efficio"}


def test_lightning_rule_is_that_of_the_installed_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suggestion follows the package, at any number of CPUs."""
    data = pytest.importorskip("lightning.fabric.utilities.data", reason="lightning is not installed")
    for cpus in (3, 4, 16, 64):
        monkeypatch.setattr(data, "_num_cpus_available", lambda cpus=cpus: cpus)
        expected = {"num_workers": data.suggested_max_num_workers(2)}
        ours = RULES["lightning"](None, 64, facts(usable_cpus=cpus, devices=2))
        assert ours == (expected if expected["num_workers"] > 1 else {})
