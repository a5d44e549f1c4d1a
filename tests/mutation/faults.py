# SPDX-License-Identifier: Apache-2.0
"""The list of faults: what is replaced in which file, and which packet tests must then fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One seeded fault. `old` occurs exactly once in `path` (below p4src/)."""

    name: str
    program: str
    path: str
    old: str
    new: str
    caught_by: tuple[str, ...]


def _nic(name: str, path: str, old: str, new: str, *caught_by: str) -> Fault:
    return Fault(name, "nic", f"nic/{path}.p4", old, new, caught_by)


def _switch(name: str, path: str, old: str, new: str, *caught_by: str) -> Fault:
    return Fault(name, "switch", f"switch/{path}.p4", old, new, caught_by)


NIC_FAULTS = (
    # The vesting rule and the charge.
    _nic(
        "vesting dropped",
        "forgiveness",
        "if (!vested) {",
        "if (!vested && meta.step.p_ppm == 0) {",
        "vesting.OneByteShort",
    ),
    _nic(
        "vesting: <= turned into <",
        "forgiveness",
        "vested = after * 1000000 <= ",
        "vested = after * 1000000 < ",
        "vesting.VestedToTheByte",
    ),
    _nic(
        "vesting against received alone",
        "forgiveness",
        "(received + after);",
        "received;",
        "vesting.VestedToTheByte",
    ),
    _nic(
        "whole budget: <= turned into <",
        "forgiveness",
        "vested = after <= meta.step.budget;",
        "vested = after < meta.step.budget;",
        "vesting.WithoutVestingTheWholeBudgetIsThere",
    ),
    _nic(
        "full length charged instead of missing",
        "forgiveness",
        "forgiven_bytes = forgiven_bytes + (bit<64>)meta.range.missing_bytes;",
        "forgiven_bytes = forgiven_bytes + (bit<64>)hdr.reth.dma_len;",
        "unsettled.PartlyReceivedRangeIsForgiven",
        "unsettled.StraddlingTheCumulativeAcknowledgement",
    ),
    _nic(
        "forgiving never charged",
        "forgiveness",
        "state_forgiven.write(slot, forgiven_bytes);",
        "",
        "vesting.SecondRangeCountsTheFirst",
    ),
    # Outstanding.
    _nic(
        "outstanding not lowered by an arrival",
        "forgiveness",
        "outstanding = outstanding |-| (bit<64>)meta.range.charged_bytes;",
        "",
        "scoreboard.RequestedArrives",
        "budget.ClearedByAnArrival",
    ),
    _nic(
        "outstanding not lowered by a forgiveness",
        "forgiveness",
        "outstanding = outstanding |-| (bit<64>)meta.range.missing_bytes;",
        "",
        "scoreboard.AbsentTrimmedIsForgiven",
    ),
    _nic(
        "a range trimmed again charged again",
        "forgiveness",
        "(bit<64>)(meta.range.missing_bytes - meta.range.charged_bytes);",
        "(bit<64>)meta.range.missing_bytes;",
        "scoreboard.RequestedTrimmedIsReconsidered",
        "unsettled.OverlappingTrimsCountOnce",
    ),
    # The flags.
    _nic(
        "exhausted latched",
        "forgiveness",
        "      if (last != meta.reply.budget_exhausted) {",
        "      meta.reply.budget_exhausted = meta.reply.budget_exhausted | last;\n"
        "      if (last != meta.reply.budget_exhausted) {",
        "budget.ClearedByAnArrival",
    ),
    _nic(
        "exhausted at the budget: <= turned into <",
        "forgiveness",
        "(bit<64>)meta.step.packet_bytes <=",
        "(bit<64>)meta.step.packet_bytes <",
        "budget.ExhaustedAtTheExactByte",
    ),
    _nic(
        "exhausted without the next packet",
        "forgiveness",
        "forgiven_bytes + outstanding + (bit<64>)meta.step.packet_bytes <=",
        "forgiven_bytes + outstanding <=",
        "budget.PacketSizeIsAParameter",
    ),
    _nic(
        "exhausted without outstanding",
        "forgiveness",
        "forgiven_bytes + outstanding + (bit<64>)meta.step.packet_bytes <=",
        "forgiven_bytes + (bit<64>)meta.step.packet_bytes <=",
        "budget.FlowsShareTheFlag",
    ),
    _nic(
        "eligibility by packet instead of by flow",
        "flows",
        "flow_eligible.read(meta.flow.exemption_eligible, meta.flow.slot);",
        "meta.flow.exemption_eligible = meta.gradient;",
        "steps.EligibilityIsFixedAtTheStart",
        "steps.EligibilityIsOfTheFlowNotThePacket",
    ),
    # What is forgivable.
    _nic(
        "budget ignored when closed",
        "forgiveness",
        "} else if (!has_entry || meta.step.open == 0) {",
        "} else if (!has_entry) {",
        "steps.ClosedStepForgivesNothing",
    ),
    _nic(
        "any traffic class forgiven",
        "forgiveness",
        "meta.gradient == 0 || (has_entry && meta.step.eligible == 0)",
        "has_entry && meta.step.eligible == 0",
        "steps.OtherTrafficIsNotForgivable",
    ),
    _nic(
        "other traffic counted as received",
        "forgiveness",
        "  @hidden action count_data() {\n    if (meta.flow.exemption_eligible == 1) {",
        "  @hidden action count_data() {\n    if (meta.range.missing_bytes != 0) {",
        "steps.EligibilityIsFixedAtTheStart",
    ),
    _nic(
        "a flow of the old step touches the new one",
        "forgiveness",
        "bool in_step = meta.flow.step_tag != 0 && meta.flow.step_tag == tag;",
        "bool in_step = tag != 0;",
        "steps.NewTagStartsAfresh",
    ),
    _nic(
        "a new step inherits outstanding",
        "forgiveness",
        "state_outstanding.write(slot, 0);",
        "",
        "steps.NewTagStartsAfresh",
    ),
    # The draw.
    _nic(
        "draw not fresh",
        "forgiveness",
        "flow_draws.write(meta.flow.slot, draws + 1);",
        "",
        "draw.FreshForEachHeader",
    ),
    _nic(
        "draw the wrong way round",
        "forgiveness",
        "if ((bit<33>)draw >= meta.step.forgive_threshold) {",
        "if ((bit<33>)draw < meta.step.forgive_threshold) {",
        "draw.NeverForgives",
    ),
    # The scoreboard.
    _nic(
        "late data overwrites forgiven",
        "scoreboard",
        "meta.range.all & ~below_next & ~range_forgiven &",
        "meta.range.all & ~below_next &",
        "unsettled.LateDataIsMasked",
    ),
    _nic(
        "received bytes forgiven",
        "scoreboard",
        "~range_received;",
        "~(range_mask_t)0;",
        "scoreboard.ReceivedTrimmedIsAcknowledged",
    ),
    _nic(
        "bytes below rcv_nxt counted as missing",
        "scoreboard",
        "meta.range.all & ~below_next & ~range_forgiven &",
        "meta.range.all & ~range_forgiven &",
        "unsettled.StraddlingTheCumulativeAcknowledgement",
    ),
    _nic(
        "a short tail counted as a block",
        "scoreboard",
        "bytes = (blocks << BLOCK_SHIFT) - gap;",
        "bytes = (blocks << BLOCK_SHIFT);",
        "unsettled.TailRequestedAndRepaired",
        "unsettled.TailPartlyThere",
    ),
    _nic(
        "window a word too large",
        "scoreboard",
        "current_word + (RING_WORDS - 2);",
        "current_word + (RING_WORDS - 1);",
        "ranges.WindowEdge",
    ),
    _nic(
        "a new owner inherits the scoreboard",
        "flows",
        "epoch = epoch + 1;",
        "",
        "ranges.NewOwnerStartsAfresh",
    ),
    _nic(
        "stale owners accepted",
        "flows",
        "is_stale = true;",
        "is_stale = false;",
        "ranges.StaleOwnerIsDropped",
    ),
    # What starts a flow.
    _nic(
        "trimmed headers start flows that only data may start",
        "flows",
        "meta.step.trimmed_starts_flow == 0) {",
        "meta.step.trimmed_starts_flow == 0 && meta.step.p_ppm == 0) {",
        "starting.UnknownFlowIsOnlyRequested",
        "starting.EarlierFlowStays",
    ),
    _nic(
        "trimmed headers start no flow",
        "flows",
        "meta.step.tag != 0 &&\n          meta.step.trimmed_starts_flow == 0) {",
        "meta.step.tag != 0) {",
        "starting.TrimmedHeaderStartsItsFlow",
    ),
    _nic(
        "trimmed headers start no flow outside a step",
        "flows",
        "meta.kind == KIND_TRIMMED && meta.step.tag != 0 &&",
        "meta.kind == KIND_TRIMMED &&",
        "starting.WithoutAnEntryAnyPacketStarts",
    ),
    _nic(
        "data starts no flow either",
        "flows",
        "if (meta.kind == KIND_TRIMMED && meta.step.tag != 0 &&",
        "if (meta.step.tag != 0 &&",
        "starting.UnknownFlowIsOnlyRequested",
    ),
    _nic(
        "an unknown flow requested with the flags",
        "receiver",
        "meta.reply.exemption_eligible = 0;",
        "meta.reply.exemption_eligible = meta.gradient;",
        "starting.UnknownFlowIsOnlyRequested",
        "starting.DataFixesEligibility",
    ),
    # The receiver's packets.
    _nic(
        "ECN echo suppressed while exempt",
        "notification",
        "meta.reply.ecn_echo = 1;",
        "meta.reply.ecn_echo = ~meta.flow.exemption_eligible;",
        "echo.EchoWhetherOrNotExempt",
    ),
    _nic(
        "retransmission requests echo",
        "notification",
        "if (meta.reply.syndrome == SYNDROME_ACK &&\n        (",
        "if ((",
        "echo.RequestCarriesNoEcho",
    ),
    _nic(
        "notifications without an interval",
        "notification",
        "          stay_quiet();\n",
        "",
        "echo.OneNotificationPerInterval",
    ),
    _nic(
        "a request names the missing bytes alone",
        "feedback",
        "hdr.feedback.range_len = hdr.reth.dma_len;",
        "hdr.feedback.range_len = meta.range.missing_bytes;",
        "unsettled.PartlyReceivedRangeIsRequested",
    ),
    _nic(
        "delivery without the IP length",
        "feedback",
        "hdr.ipv4.total_len = hdr.ipv4.total_len + DELIVERY_BYTES;",
        "",
        "scoreboard.AbsentArrives",
    ),
    # The sender.
    _nic(
        "flags applied after the signal",
        "sender",
        "    exempt = mode;\n",
        "",
        "modes.FlagsComeBeforeTheSignal",
    ),
    _nic(
        "exempt senders obey notifications",
        "sender",
        "      if (exempt == 0) {\n        notification_delivered",
        "      if (exempt != 2w2[0:0]) {\n        notification_delivered",
        "modes.NotificationsIgnored",
    ),
    _nic(
        "exhausted reports exempt",
        "sender",
        "hdr.bth.exemption_eligible & ~hdr.bth.budget_exhausted;",
        "hdr.bth.exemption_eligible;",
        "modes.NotificationsObeyed",
    ),
    _nic(
        "requests always reduce",
        "sender",
        "hdr.bth.becn = ~exempt;",
        "hdr.bth.becn = 1;",
        "modes.RequestReducesOnlyWhenObeying",
    ),
)

SWITCH_FAULTS = (
    _switch(
        "trim without rewriting the IP length",
        "trimming",
        "hdr.ipv4.total_len = TRIMMED_IPV4_BYTES;",
        "",
        "trimming.QueueLimitExceeded",
    ),
    _switch(
        "trim without rewriting the UDP length",
        "trimming",
        "hdr.udp.length = TRIMMED_UDP_BYTES;",
        "",
        "trimming.QueueLimitExceeded",
    ),
    _switch(
        "trim without cutting",
        "trimming",
        "truncate((bit<32>)TRIMMED_FRAME_BYTES);",
        "",
        "trimming.QueueLimitExceeded",
    ),
    _switch(
        "trimmed headers in the data queue",
        "trimming",
        "std_meta.priority = PRIORITY_TRIMMED;",
        "",
        "priorities.FreshlyTrimmedHeaderOvertakesData",
    ),
    _switch(
        "packets trimmed that are not trimmable",
        "trimming",
        "if (meta.trimmable == 1 && hdr.reth.isValid()) {",
        "if (hdr.reth.isValid()) {",
        "trimming.NotTrimmableIsDropped",
    ),
    _switch(
        "occupancy not lowered on departure",
        "departure",
        "queue_departed.write(std_meta.egress_port, out_bytes + meta.queued_bytes);",
        "",
        "trimming.OccupancyFallsOnDeparture",
    ),
    _switch(
        "queue limit off by a byte",
        "admission",
        "queue_bytes <= (bit<64>)queue_limit",
        "queue_bytes < (bit<64>)queue_limit",
        "trimming.QueueLimitFits",
    ),
    _switch(
        "queue limit without the frame itself",
        "admission",
        "(bit<64>)(queue_in - queue_out + frame);",
        "(bit<64>)(queue_in - queue_out);",
        "trimming.QueueLimitExceeded",
    ),
    _switch(
        "ingress limit off by a byte",
        "admission",
        "ingress_bytes <= ingress_limit",
        "ingress_bytes < ingress_limit",
        "trimming.IngressLimitFits",
    ),
    _switch(
        "shared buffer not divided",
        "admission",
        "(free >> ingress_alpha_shift)",
        "(free)",
        "trimming.SharedBufferShrinks",
    ),
    _switch(
        "shared buffer does not shrink",
        "admission",
        "buffer_admitted.write(0, buffer_in + frame);",
        "",
        "trimming.SharedBufferShrinks",
    ),
    _switch(
        "packets marked that are not ECT",
        "marking",
        "(hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1) &&",
        "",
        "marking.NotEctIsNeverMarked",
    ),
    _switch(
        "marked at kmax",
        "marking",
        "bytes_behind > threshold_max",
        "bytes_behind >= threshold_max",
        "marking.MarkedAboveKmax",
    ),
    _switch(
        "marked by the queue with the packet itself",
        "departure",
        "bytes_behind = in_bytes - (out_bytes + meta.queued_bytes);",
        "bytes_behind = in_bytes - out_bytes;",
        "marking.NotMarkedAtKmin",
    ),
    _switch(
        "a mark leaves the old checksum",
        "marking",
        "hdr.ipv4.ecn = ECN_CE;",
        "hdr.ipv4.ecn = ECN_CE;\n        hdr.ipv4.hdr_checksum = hdr.ipv4.hdr_checksum + 1;",
        "marking.MarkedAboveKmax",
    ),
    _switch(
        "wrong queue for every class",
        "classification",
        "std_meta.priority = priority;",
        "",
        "priorities.TrimmedHeaderOvertakesData",
        "priorities.FeedbackOvertakesData",
    ),
    _switch(
        "spray on feedback",
        "forwarding",
        "if (meta.spray == 1 && hdr.bth.isValid()) {",
        "if (hdr.bth.isValid()) {",
        "balancing.FeedbackIsNeverSprayed",
    ),
    _switch(
        "paths chosen without the seed",
        "forwarding",
        "{ DRAW_MEMBER, meta.seed, ",
        "{ DRAW_MEMBER, 32w0, ",
        "balancing.SeedChangesThePlacement",
    ),
    _switch(
        "TTL 1 forwarded",
        "validation",
        "hdr.ipv4.ttl <= 1",
        "hdr.ipv4.ttl == 0",
        "forwarding.TtlExpires",
    ),
)

FAULTS = NIC_FAULTS + SWITCH_FAULTS

QUICK = (
    "vesting dropped",
    "full length charged instead of missing",
    "exhausted latched",
    "draw not fresh",
    "flags applied after the signal",
    "trimmed headers start flows that only data may start",
    "queue limit off by a byte",
    "trim without rewriting the IP length",
)
"""The faults of the fast suite; the others are marked slow."""
