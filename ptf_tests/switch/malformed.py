# SPDX-License-Identifier: Apache-2.0
"""Malformed packets are counted and dropped, and never stop the switch."""

from __future__ import annotations

from ptf_tests.common.switch_test import SwitchTest


class MalformedIsCountedAndDropped(SwitchTest):
    """Each kind of broken packet is counted once and leaves nowhere; then good traffic still crosses."""

    def runTest(self) -> None:
        good = self.data(to=2)
        frame = good.encode()
        ip = 14
        broken = {
            "ether type": frame[:12] + b"\x86\xdd" + frame[14:],
            "version": frame[:ip] + b"\x65" + frame[ip + 1 :],
            "header length": frame[:ip] + b"\x44" + frame[ip + 1 :],
            "options beyond the frame": frame[:ip] + b"\x4f" + frame[ip + 1 : ip + 46],
            "IPv4 header cut short": frame[: ip + 19],
            "Ethernet alone": frame[:ip],
            "IP length beyond the frame": good.encode(ip_len=len(frame) - ip + 1),
            "IP length below the header": good.encode(ip_len=19),
            "ARP cut short": frame[:12] + b"\x08\x06" + bytes(27),
        }
        for number, (name, bad) in enumerate(broken.items(), 1):
            with self.subTest(name):
                self.send(1, bad)
                self.expect_counters(malformed=number)
        self.expect_nothing_else()
        self.exchange(1, good, p2=(self.forwarded(good),))
        self.expect_counters(malformed=len(broken), no_route=0, ttl_expired=0)


class PaddingIsNotMalformed(SwitchTest):
    """A frame longer than its IP length (Ethernet's padding) crosses."""

    def runTest(self) -> None:
        from ptf.testutils import simple_udp_packet

        sent = bytes(simple_udp_packet(ip_src="10.0.0.1", ip_dst="10.0.0.2", ip_ttl=64, pktlen=60))
        left = bytes(simple_udp_packet(ip_src="10.0.0.1", ip_dst="10.0.0.2", ip_ttl=63, pktlen=60))
        self.exchange(1, sent + bytes(4), p2=(left + bytes(4),))
