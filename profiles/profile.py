# SPDX-License-Identifier: Apache-2.0
"""The profile as a whole: reading, overriding, and deriving a configuration from a link rate."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from profiles.concrete import (
    BudgetPolicy,
    Configuration,
    DcqcnRates,
    IngressBytes,
    Links,
    QueueBytes,
    TransportBytes,
)
from profiles.reader import ProfileError, plain, read
from profiles.schema import (
    PPM,
    Budget,
    Dcqcn,
    Dscp,
    Fabric,
    Fault,
    Queue,
    Scale,
    Study,
    Transport,
    Wire,
    Workload,
)

NANOSECONDS = 1_000_000_000
NIC_WINDOW_BYTES = 127 * 64 * 512
"""What the NIC's scoreboard can hold per flow (docs/dataplane.md, p4src/include/sizes.p4)."""

MINIMUM_PACKETS_PER_SECOND = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A profile as written in TOML. Keys and units: `profiles.schema`."""

    name: str
    wire: Wire
    dscp: Dscp
    scale: Scale
    fabric: Fabric
    queue: Queue
    dcqcn: Dcqcn
    transport: Transport
    budget: Budget
    workload: Workload
    study: Study | None = None
    faults: tuple[Fault, ...] = ()

    def override(self, values: Mapping[str, Any], where: str = "override") -> Profile:
        """A copy with single keys replaced, checked as if they stood in the file.

        values: "section.key" -> value, for example {"budget.forgive_ppm": 250_000}. Raises ProfileError.
        """
        tree = plain(self)
        for path, value in values.items():
            *sections, key = path.split(".")
            table = tree
            for depth, section in enumerate(sections):
                if table.get(section, {}) is None:  # an optional table that the profile leaves out
                    table[section] = {}
                table = table.get(section)
                if not isinstance(table, dict):
                    raise ProfileError(
                        f"{where}: {'.'.join(sections[: depth + 1])} is not a section; known: "
                        f"{', '.join(k for k, v in tree.items() if isinstance(v, dict))}"
                    )
            table[key] = value
        return read(Profile, tree, where)

    def override_text(self, settings: Iterable[str]) -> Profile:
        """`override` from command-line texts such as `budget.exemption="never"`."""
        values: dict[str, Any] = {}
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals:
                raise ProfileError(
                    f"--set {setting}: write section.key=value, as in budget.forgive_ppm=250000"
                )
            try:
                values[path.strip()] = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:
                values[path.strip()] = text.strip()
        return self.override(values, "--set")

    def configuration(self) -> Configuration:
        """The configuration at the profile's own link rate. Raises ProfileError where it has none."""
        if not self.fabric.rate_bps:
            raise ProfileError(
                f"{self.name}: fabric.rate_bps is 0; give the link rate in bit/s, or calibrate the machine"
            )
        return self.at_rate(self.fabric.rate_bps)

    def at_rate(self, link_rate_bps: int) -> Configuration:
        """The configuration at a link rate in bits per second.

        Raises ProfileError for a rate of fewer than 10 full frames a second, and for a window that the NIC's
        scoreboard can't hold.
        """
        frame = self.wire.frame_bytes
        least = MINIMUM_PACKETS_PER_SECOND * frame * 8
        if link_rate_bps < least:
            raise ProfileError(
                f"{self.name}: link rate {link_rate_bps} bit/s; give {least} or more "
                f"({MINIMUM_PACKETS_PER_SECOND} frames of {frame} bytes a second)"
            )
        weight = self.wire.weight_bytes(frame)
        packet_ns = Fraction(weight * 8 * NANOSECONDS, link_rate_bps)
        factor = self.scale.factor

        def packets(number: float, each: int = frame) -> int:
            return max(round(Fraction(number) * each / factor), each if number else 0)

        def time_ns(number: float) -> int:
            return max(round(Fraction(number) * packet_ns / factor), 1 if number else 0)

        def share(ppm: int) -> int:
            return max(link_rate_bps * ppm // PPM, 1 if ppm else 0)

        payload = self.wire.payload_bytes
        window = max(payload, round(Fraction(self.transport.window_packets) * payload / factor))
        if window > NIC_WINDOW_BYTES:
            raise ProfileError(
                f"{self.name}: transport.window_packets {self.transport.window_packets} / scale {factor} is "
                f"{window} bytes; the NIC's scoreboard holds {NIC_WINDOW_BYTES}: lower it to "
                f"{NIC_WINDOW_BYTES // payload * factor}"
            )
        queue = self.queue
        limit = packets(queue.data_limit_packets)
        ingress = None
        if queue.ingress is not None:
            reserve, shared = queue.ingress.reserve_packets, queue.ingress.shared_packets
            ingress = IngressBytes(packets(reserve), packets(shared), queue.ingress.alpha_shift)
        header = self.wire.trimmed_frame_bytes
        return Configuration(
            profile=self.name,
            packet_ns=-(-packet_ns.numerator // packet_ns.denominator),
            wire=self.wire,
            dscp=self.dscp,
            fabric=self.fabric,
            links=Links(
                rate_bps=link_rate_bps,
                core_rate_bps=share(self.fabric.core_rate_ppm),
                host_rate_bps=share(self.fabric.host_rate_ppm),
                access_delay_ns=time_ns(self.fabric.access_delay_packets),
                fabric_delay_ns=time_ns(self.fabric.fabric_delay_packets),
            ),
            queue=QueueBytes(
                data_limit_bytes=limit,
                kmin_bytes=packets(queue.kmin_packets),
                kmax_bytes=packets(queue.kmax_packets),
                pmax_2e32=min(queue.pmax_ppm * 2**32 // PPM, 2**32 - 1),
                data_capacity_bytes=limit * (100 + queue.headroom_percent) // 100,
                trimmed_capacity_bytes=packets(queue.trimmed_capacity_headers, header),
                feedback_capacity_bytes=packets(queue.feedback_capacity_headers, header),
                trimmed_share_percent=queue.trimmed_share_percent,
                ingress=ingress,
            ),
            dcqcn=DcqcnRates(
                enabled=self.dcqcn.enabled,
                line_rate_bps=link_rate_bps,
                minimum_rate_bps=share(self.dcqcn.minimum_ppm),
                additive_bps=share(self.dcqcn.additive_ppm),
                hyper_bps=share(self.dcqcn.hyper_ppm),
                gain_shift=self.dcqcn.gain_shift,
                alpha_period_ns=time_ns(self.dcqcn.alpha_period_packets),
                decrease_period_ns=time_ns(self.dcqcn.decrease_period_packets),
                increase_period_ns=time_ns(self.dcqcn.increase_period_packets),
                fast_recovery_stages=self.dcqcn.fast_recovery_stages,
                clamp_target=self.dcqcn.clamp_target,
            ),
            transport=TransportBytes(
                window_bytes=window,
                scale_window=self.transport.scale_window,
                rto_ns=time_ns(self.transport.rto_packets),
                window=self.transport.window,
                window_basis=self.transport.window_basis,
                repeat_tail=self.transport.repeat_tail,
                window_repairs=self.transport.window_repairs,
                gap_repair_ns=time_ns(self.transport.gap_repair_packets),
                ignore_beyond_gap=self.transport.ignore_beyond_gap,
                blocked_stops_timer=self.transport.blocked_stops_timer,
            ),
            budget=BudgetPolicy(
                p_low_ppm=self.budget.p_low_ppm,
                p_high_ppm=self.budget.p_high_ppm,
                forgive_threshold=self.budget.forgive_ppm * 2**32 // PPM,
                vesting=self.budget.vesting,
                exemption=self.budget.exemption,
                eligible=self.budget.eligible,
                notification_interval_us=-(-time_ns(self.budget.notification_interval_packets) // 1000),
                forgiveness_echoes=self.budget.forgiveness_echoes,
                trimmed_starts_flow=self.budget.trimmed_starts_flow,
            ),
            workload=self.workload,
            study=self.study,
            faults=self.faults,
        )


def load(name: str | Path) -> Profile:
    """Read a profile: a path to a TOML file, or the name of one in `profiles/` ("mininet", "bmv2", "paper").

    Raises ProfileError in one line naming file, key and mend.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = Path(__file__).with_name(f"{name}.toml")
        if not path.exists():
            known = ", ".join(sorted(p.stem for p in path.parent.glob("*.toml")))
            raise ProfileError(f"profile {name}: there is none; give a .toml file or one of: {known}")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}; give the path of a readable profile") from None
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: not TOML: {error}; mend it there") from None
    return read(Profile, tree, str(path))
