# SPDX-License-Identifier: Apache-2.0
"""What crosses a NIC between host and wire, and what it stops."""

from __future__ import annotations

from ptf.testutils import simple_arp_packet, simple_icmp_packet, simple_tcp_packet, simple_udp_packet

from ptf_tests.common.nic_test import MTU, NicTest
from tests.model import draws
from tests.support import wire
from tests.support.nic import HOST, WIRE
from tests.support.wire import BLOCK, Roce


class PlainTrafficCrosses(NicTest):
    """Everything that is not RoCE crosses unchanged, both ways: ARP, ICMP, TCP, UDP, IPv6."""

    def runTest(self) -> None:
        ipv6 = bytes.fromhex("020000000002020000000001 86dd") + bytes([0x60] + [0] * 39 + [7] * 20)
        packets = [
            bytes(simple_arp_packet()),
            bytes(simple_icmp_packet(ip_ttl=1)),
            bytes(simple_tcp_packet(pktlen=1400)),
            bytes(simple_udp_packet()),
            ipv6,
        ]
        for packet in packets:
            for port, other in ((HOST, WIRE), (WIRE, HOST)):
                self.send(port, packet)
                self.expect(other, packet)
        self.expect_nothing_else()
        self.expect_counters(malformed=0)


class FragmentsAndOptionsCross(NicTest):
    """A RoCE port number in a fragment, or after IPv4 options, means nothing."""

    def runTest(self) -> None:
        from scapy.layers.inet import IP, UDP, IPOption
        from scapy.layers.l2 import Ether

        for fields in ({"options": [IPOption(b"\x94\x04\x00\x00")]}, {"frag": 100}, {"flags": "MF"}):
            packet = bytes(
                Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
                / IP(src="10.0.0.1", dst="10.0.0.2", **fields)
                / UDP(sport=0xC000, dport=wire.UDP_PORT_ROCE, chksum=0)
                / bytes(80)
            )
            self.send(WIRE, packet)
            self.expect(HOST, packet)
        self.expect_nothing_else()


class HostDataGetsItsEntropy(NicTest):
    """Data from the host leaves with the UDP source port that its queue pairs give, all else unchanged."""

    def runTest(self) -> None:
        for dest_qp, source_qp in ((1, 2), (0xABCDEF, 0x123456), (1, 3)):
            packet = wire.data(dest_qp, 0, MTU, source_qp=source_qp, udp_src=40000)
            self.send(HOST, packet)
            self.expect(WIRE, packet.but(udp_src=draws.source_port(dest_qp, source_qp)))
        self.expect_nothing_else()
        self.expect_counters(malformed=0)


class HostSendsOnlyData(NicTest):
    """Feedback, notifications and unknown opcodes from the host are malformed."""

    def runTest(self) -> None:
        packets = [
            Roce(wire.ACKNOWLEDGE, 5, feedback=wire.Feedback(wire.ACK, 0, 0, BLOCK)),
            Roce(wire.CNP, 5),
            Roce(0x04, 5, payload=bytes(100)),
        ]
        for packet in packets:
            self.expect_dropped(packet, HOST)
        self.expect_counters(malformed=len(packets))


class MalformedIsCountedAndDropped(NicTest):
    """Each kind of broken RoCE packet is counted once, changes no state and stops nothing."""

    def runTest(self) -> None:
        good = self.data(0)
        assert good.reth is not None
        frame = good.encode()
        header = self.header(0)
        report = Roce(wire.ACKNOWLEDGE, 5, feedback=wire.Feedback(wire.ACK, 0, 0, BLOCK)).encode()
        broken = {
            "cut in BTH": good.but(reth=None, payload=b"").encode()[:-3],
            "cut in RETH": Roce(0, 0, payload=b"").encode()[:42] + frame[42:60],
            "IP length above the frame": good.encode(ip_len=len(frame) - 13),
            "IP length below the frame": good.encode(ip_len=len(frame) - 15),
            "UDP length": good.encode(udp_len=8),
            "payload shorter than dma_len": good.but(payload=good.payload[:-1]).encode(),
            "payload longer than dma_len": good.but(payload=good.payload + b"x").encode(),
            "data without payload": header.but(dscp=wire.DSCP_GRADIENT).encode(),
            "trimmed with payload": good.but(dscp=wire.DSCP_GRADIENT_TRIMMED).encode(),
            "high address": good.but(reth=wire.Reth(0, MTU, 7, virtual_addr_high=1)).encode(),
            "high key": good.but(reth=wire.Reth(0, MTU, 7, rkey_high=1)).encode(),
            "opcode": good.but(opcode=0x0B).encode(),
            "cut in feedback": report[:-1],
        }
        for number, (name, bad) in enumerate(broken.items(), 1):
            with self.subTest(name):
                self.send(WIRE, bad)
                self.expect_counters(malformed=number)
        self.expect_nothing_else()
        self.expect_delivered(good, MTU)
        self.expect_state(received=MTU, trimmed=0)
