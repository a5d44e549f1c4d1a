# SPDX-License-Identifier: Apache-2.0
"""DCQCN's rate after a given train of signals, against an event-by-event model in exact decimals."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from decimal import Decimal, getcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import Endpoint, FlowStats
from tests.hosts.harness import config_for

LINE = 400_000_000_000
STUDY = DcqcnConfig()


class Model:
    """HPCC's simulator: periodic events, each scheduling its successor, ties by order of scheduling. Decimals
    with 120 digits, nothing rounded to bits per second."""

    def __init__(self, config: DcqcnConfig, line_rate: int) -> None:
        getcontext().prec = 120
        self.config = config
        self.line = Decimal(line_rate)
        self.rate = self.target = self.line
        self.alpha = Decimal(0)
        self.stage = 0
        self.cuts = 0
        self.started = self.alpha_signal = self.cut_signal = False
        self.queue: list[tuple[int, int, Callable[[int], None]]] = []
        self.order = itertools.count()
        self.timer = -1
        self.g = Decimal(config.gain)

    def at(self, time: int, action: Callable[[int], None]) -> int:
        number = next(self.order)
        heapq.heappush(self.queue, (time, number, action))
        return number

    def advance(self, now: int) -> None:
        while self.queue and self.queue[0][0] <= now:
            time, number, action = heapq.heappop(self.queue)
            if action != self.increase or number == self.timer:
                action(time)

    def signal(self, now: int) -> None:
        self.advance(now)
        self.alpha_signal = self.cut_signal = True
        if self.started:
            return
        self.started = True
        self.alpha = Decimal(self.config.initial_alpha)
        self.alpha_signal = False
        self.at(now + self.config.alpha_period_ns, self.update_alpha)
        self.at(now + self.config.decrease_period_ns + 1, self.check)
        self.rate = self.target = max(
            Decimal(self.config.min_bps), self.rate * Decimal(str(self.config.first_signal_factor))
        )

    def update_alpha(self, now: int) -> None:
        self.alpha = (1 - self.g) * self.alpha + (self.g if self.alpha_signal else 0)
        self.alpha_signal = False
        self.at(now + self.config.alpha_period_ns, self.update_alpha)

    def check(self, now: int) -> None:
        self.at(now + self.config.decrease_period_ns, self.check)
        if not self.cut_signal:
            return
        if self.config.clamp_target or self.stage != 0:
            self.target = self.rate
        self.rate = max(Decimal(self.config.min_bps), self.rate * (1 - self.alpha / 2))
        self.stage = 0
        self.cuts += 1
        self.cut_signal = False
        self.timer = self.at(now + self.config.increase_period_ns, self.increase)

    def increase(self, now: int) -> None:
        self.timer = self.at(now + self.config.increase_period_ns, self.increase)
        if self.stage == self.config.fast_recovery_stages:
            self.target = min(self.line, self.target + self.config.additive_bps)
        elif self.stage > self.config.fast_recovery_stages:
            self.target = min(self.line, self.target + self.config.hyper_bps)
        self.rate = self.rate / 2 + self.target / 2
        self.stage += 1


class Sender:
    """A flow that has sent one packet and gets notifications."""

    def __init__(self, config: DcqcnConfig | None) -> None:
        changes = {"line_rate_bps": LINE, "dcqcn": config, "rto_ns": 1 << 50, "window_bytes": 1}
        self.endpoint = Endpoint(config_for(0, **changes))
        self.qp = self.endpoint.alloc_send_qp()
        self.message = self.endpoint.post_send(
            0, destination="10.0.0.2", dst_qp=1, src_qp=self.qp, length_bytes=1 << 20
        )
        assert self.endpoint.poll(0) is not None

    def signal(self, now: int) -> None:
        cnp = wire.Notification(wire.Bth(wire.OPCODE_CNP, self.qp, 0, becn=True))
        self.endpoint.receive(now, cnp.encode())

    def stats(self, now: int) -> FlowStats:
        return self.endpoint.flow_stats(now, self.message)


CONFIGS = {
    "study": STUDY,
    "increase x4": DcqcnConfig(additive_bps=800_000_000, hyper_bps=1_600_000_000),
    "clamped": DcqcnConfig(clamp_target=True),
    "firmware": DcqcnConfig(gain=5 / 1024, increase_period_ns=300_000, additive_bps=5_000_000),
    "slow alpha": DcqcnConfig(alpha_period_ns=55_000, decrease_period_ns=50_000, increase_period_ns=60_000),
    "half first": DcqcnConfig(first_signal_factor=0.5, initial_alpha=0.25, fast_recovery_stages=5),
    "odd periods": DcqcnConfig(alpha_period_ns=997, decrease_period_ns=1_000, increase_period_ns=7_001),
}


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=25, deadline=None)
@given(
    gaps=st.lists(
        st.one_of(
            st.integers(0, 6_000),
            st.sampled_from([0, 1, 1_000, 4_000, 4_001, 900_000]),
            st.integers(0, 2_000_000),
        ),
        min_size=1,
        max_size=60,
    ),
    start=st.integers(0, 1 << 40),
    rest=st.integers(0, 5_000_000),
    look=st.booleans(),
)
def test_rate_after_any_train_of_signals(
    name: str, gaps: list[int], start: int, rest: int, look: bool
) -> None:
    config = CONFIGS[name]
    model, sender = Model(config, LINE), Sender(config)
    now = start
    for gap in gaps:
        now += gap
        if look:  # Looking must not change anything.
            sender.stats(now)
        model.signal(now)
        sender.signal(now)
    now += rest
    model.advance(now)
    stats = sender.stats(now)
    assert stats.rate_cuts == model.cuts
    assert stats.signals == len(gaps)
    assert abs(stats.rate_bps - model.rate) <= model.rate * Decimal("1e-6")


def test_first_signal_halves_the_rate_at_the_first_check() -> None:
    """alpha = 1, decayed by the four periods before the check: 1 - (255/256)^4 / 2 of the line rate."""
    sender = Sender(STUDY)
    sender.signal(10_000)
    assert sender.stats(14_000).rate_bps == LINE
    rate = sender.stats(14_001).rate_bps
    assert rate == pytest.approx(LINE * (1 - (255 / 256) ** 4 / 2), rel=1e-8)
    # The increase timer runs from the cut: back to the mean with the target, which was left at line rate.
    assert sender.stats(14_001 + 899_999).rate_bps == rate
    recovered = sender.stats(14_001 + 900_000).rate_bps
    assert recovered == (rate + LINE + 1) // 2
    # Then additive: the target is at line rate already.
    assert sender.stats(14_001 + 1_800_000).rate_bps == (recovered + LINE + 1) // 2


def test_many_signals_in_one_period_are_one_cut() -> None:
    sender = Sender(STUDY)
    for now in range(10_000, 14_000, 100):
        sender.signal(now)
    assert sender.stats(18_000).rate_cuts == 1
    assert sender.stats(18_000).signals == 40


def test_rate_stays_at_or_above_the_minimum() -> None:
    sender = Sender(STUDY)
    for now in range(0, 1_000_000, 4_000):
        sender.signal(now)
    assert sender.stats(1_000_000).rate_bps == STUDY.min_bps


def test_recovery_ends_at_line_rate() -> None:
    sender = Sender(STUDY)
    for now in range(0, 400_000, 4_000):
        sender.signal(now)
    assert sender.stats(400_000).rate_bps == STUDY.min_bps
    assert sender.stats(3_000_000_000_000).rate_bps == LINE


def test_without_congestion_control_signals_are_counted_only() -> None:
    sender = Sender(None)
    for now in range(0, 1_000_000, 4_000):
        sender.signal(now)
    stats = sender.stats(1_000_000)
    assert (stats.rate_bps, stats.signals, stats.rate_cuts) == (LINE, 250, 0)


@pytest.mark.parametrize("nak", [False, True])
def test_becn_on_feedback_is_one_signal(nak: bool) -> None:
    sender = Sender(STUDY)
    for becn in (False, True):
        bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, sender.qp, 0, becn=becn)
        sender.endpoint.receive(1_000, wire.Feedback(bth, nak, 0, 0, 512).encode())
        assert sender.stats(1_000).signals == int(becn)


def test_host_counts_the_cuts_of_all_flows() -> None:
    sender = Sender(STUDY)
    for now in range(0, 40_000, 1_000):
        sender.signal(now)
    cuts = sender.stats(100_000).rate_cuts
    assert cuts == 10
    assert sender.endpoint.stats().rate_cuts == cuts
