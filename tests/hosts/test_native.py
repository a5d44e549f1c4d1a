# SPDX-License-Identifier: Apache-2.0
"""The C code under sanitizers, its build, and its queue pairs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hosts.build
from hosts.bench import CheckerScenario, Scenario, run, run_checker
from hosts.build import CORE, SANITIZE, BuildError, build, compiler, library, sources
from hosts.endpoint import BusyError, Endpoint, ExhaustedError, UnknownMessageError
from hosts.wire import QueuePair
from tests.hosts.harness import config_for

NATIVE = Path(__file__).parent / "native"


def sanitized(name: str, *arguments: int) -> None:
    program = build(name, [*sources(), NATIVE / f"{name}.c"], flags=SANITIZE, shared=False)
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    result = subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("seed", range(6))
def test_random_network_under_address_and_undefined_sanitizers(seed: int) -> None:
    sanitized("soak", seed, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_random_network_under_sanitizers_at_length(seed: int) -> None:
    sanitized("soak", seed, 60)


@pytest.mark.parametrize("seed", range(4))
def test_checker_survives_any_frames_under_sanitizers(seed: int) -> None:
    sanitized("checker_fuzz", seed, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_checker_survives_any_frames_at_length(seed: int) -> None:
    sanitized("checker_fuzz", seed, 2_000_000)


def test_timer_heap_agrees_with_a_table() -> None:
    program = build("heap", [CORE / "heap.c", NATIVE / "heap.c"], flags=SANITIZE, shared=False)
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr


SOCKETS = """
import sys
import hosts.native
from hosts.build import CORE, SANITIZE, build, sources
hosts.native.library = lambda: build("transport", sources(), flags=SANITIZE)
import pytest
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "tests/hosts/test_udp.py", "-k", sys.argv[1]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("tests", ["cross or fails or closing or descriptor", "all_reduce or icmp or class"])
def test_sockets_under_address_and_undefined_sanitizers(tests: str) -> None:
    """The interpreter itself leaks by design, so leaks are the soak's business."""
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    if not Path(found.stdout.strip()).is_absolute():
        pytest.skip("needs gcc's libasan")
    environment = os.environ | {"LD_PRELOAD": found.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    result = subprocess.run(
        [sys.executable, "-c", SOCKETS, tests],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    assert "passed" in result.stdout


def test_build_is_cached_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGIVE_CACHE", str(tmp_path))
    source = tmp_path / "a.c"
    source.write_text("int one(void);\nint one(void) { return 1; }\n")
    first = build("a", [source])
    stamp = first.stat().st_mtime_ns
    assert build("a", [source]) == first
    assert first.stat().st_mtime_ns == stamp
    source.write_text("int one(void);\nint one(void) { return 2; }\n")
    assert build("a", [source]) != first
    assert build("a", [source], flags=("-O0",)) != first
    # Nothing half-made is left beside what was built.
    assert all(path.suffix == ".so" for path in first.parent.iterdir())


def test_compiler_errors_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGIVE_CACHE", str(tmp_path))
    source = tmp_path / "broken.c"
    source.write_text("int x = ;\n")
    with pytest.raises(BuildError, match=r"(?s)failed on broken:.*broken\.c:1"):
        build("broken", [source])
    assert list((tmp_path / "hosts").iterdir()) == []


def test_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BuildError, match="install gcc, or set CC"):
        compiler()


def test_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGIVE_CACHE", "/proc/nowhere")
    with pytest.raises(BuildError, match=r"/proc/nowhere.*set FORGIVE_CACHE"):
        hosts.build.cache_directory()


def test_library_keeps_no_state_of_its_own() -> None:
    """No writable data but what the C start-up code has."""
    symbols = subprocess.run(["nm", str(library())], capture_output=True, text=True, check=True).stdout
    writable = [line.split()[-1] for line in symbols.splitlines() if line.split()[-2] in "BbDdCc"]
    assert [name for name in writable if not name.startswith(("_", "completed.", "__"))] == []


def test_queue_pairs_carry_step_slot_owner_and_flow_slot() -> None:
    with Endpoint(config_for(0, first_owner=2047)) as endpoint:
        numbers = [endpoint.alloc_receive_qp(step_slot=i % 8) for i in range(1024)]
        pairs = [QueuePair.from_number(n) for n in numbers]
        assert [p.flow_slot for p in pairs] == list(range(1024))
        assert [p.step_slot for p in pairs] == [i % 8 for i in range(1024)]
        assert {p.owner for p in pairs} == {2047}
        with pytest.raises(ExhaustedError, match="1024"):
            endpoint.alloc_receive_qp()
        # The oldest free slot comes first; its owner is one up, modulo 2^11.
        endpoint.free_receive_qp(numbers[7])
        endpoint.free_receive_qp(numbers[3])
        assert QueuePair.from_number(endpoint.alloc_receive_qp(5)) == QueuePair(5, 0, 7)
        assert QueuePair.from_number(endpoint.alloc_receive_qp(6)) == QueuePair(6, 0, 3)


def test_send_and_receive_queue_pairs_are_apart() -> None:
    with Endpoint(config_for(0)) as endpoint:
        assert endpoint.alloc_send_qp() == endpoint.alloc_receive_qp()


def test_queue_pair_in_use_is_not_freed_nor_used_twice() -> None:
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        message = endpoint.post_receive(0, qp=qp, length_bytes=100)
        with pytest.raises(BusyError):
            endpoint.free_receive_qp(qp)
        with pytest.raises(BusyError):
            endpoint.post_receive(0, qp=qp, length_bytes=100)
        endpoint.retire(message, qp)
        for call in (
            lambda: endpoint.free_receive_qp(qp),
            lambda: endpoint.release(message),
            lambda: endpoint.post_receive(0, qp=qp, length_bytes=100),
            lambda: endpoint.flow_stats(0, message),
            lambda: endpoint.forgiven(message),
        ):
            with pytest.raises(UnknownMessageError):
                call()


def test_failed_post_leaves_nothing_allocated() -> None:
    with Endpoint(config_for(0)) as endpoint:
        for _ in range(2000):
            with pytest.raises(ValueError, match="out of its range"):
                endpoint.post_send(0, destination="10.0.0.2", dst_qp=1 << 24, length_bytes=5)
            with pytest.raises(ValueError, match="address"):
                endpoint.post_send(0, destination="nowhere", dst_qp=1, length_bytes=5)
        assert QueuePair.from_number(endpoint.alloc_send_qp()).flow_slot < 1024


def test_step_slot_out_of_range_is_refused() -> None:
    with Endpoint(config_for(0)) as endpoint, pytest.raises(ValueError, match="queue pair"):
        endpoint.alloc_receive_qp(8)


def test_read_only_buffer_is_refused_for_a_receive() -> None:
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        with pytest.raises((BufferError, ValueError)):
            endpoint.post_receive(0, qp=qp, buffer=b"constant")
        with pytest.raises(ValueError, match="either data or length_bytes"):
            endpoint.post_receive(0, qp=qp)
        with pytest.raises(ValueError, match="data has 8 bytes"):
            endpoint.post_receive(0, qp=qp, buffer=bytearray(8), length_bytes=9)


def test_many_messages_reuse_their_memory_and_slots() -> None:
    """More messages than slots, of changing length, over one pair of endpoints."""
    with Endpoint(config_for(0)) as endpoint:
        for i in range(3000):
            message = endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, length_bytes=1 + i * 37 % 5000)
            endpoint.poll(0)
            qp = endpoint.alloc_receive_qp()
            endpoint.retire(endpoint.post_receive(0, qp=qp, length_bytes=1 + i * 41 % 7000), qp)
            endpoint.release(message)
        assert endpoint.next_wake() is None
        assert QueuePair.from_number(endpoint.alloc_send_qp()) == QueuePair(0, 3, 3000 % 1024)


def test_benchmark_counts_every_packet() -> None:
    """521 full packets and a tail for each message of the study."""
    found = run(Scenario("test", 20, 7, 16))
    assert found["packets"] == 20 * 522
    assert found["retransmitted_packets"] == 0
    assert found["signals"] == 20 * (522 // 16)


def test_benchmark_of_the_checker_counts_every_packet() -> None:
    assert run_checker(CheckerScenario("test", 20, 7, 0))["packets"] == 20 * 522
    assert run_checker(CheckerScenario("test", 20, 7, 20))["packets"] > 20 * 522
