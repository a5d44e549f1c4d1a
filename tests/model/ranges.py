# SPDX-License-Identifier: Apache-2.0
"""Byte ranges of a message as blocks: the unit in which the paper's scoreboard is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tests.support import wire

Blocks: TypeAlias = dict[int, int]
"""Block number -> bytes of the range in that block: 512, or less in the block that ends a message."""


def blocks_of(start: int, length: int) -> Blocks:
    """The blocks of the range of `length` bytes at `start`, a multiple of 512."""
    assert start % wire.BLOCK == 0 and length > 0
    end = start + length
    return {
        block: min(end, (block + 1) * wire.BLOCK) - block * wire.BLOCK
        for block in range(start // wire.BLOCK, (end - 1) // wire.BLOCK + 1)
    }


def count(blocks: Mapping[int, int]) -> int:
    """Count(range) of the paper: its bytes."""
    return sum(blocks.values())


def mask(start: int, blocks: Iterable[int]) -> int:
    """The `accept` field: bit i stands for the i-th block of the packet that starts at `start`."""
    return sum(1 << (block - start // wire.BLOCK) for block in blocks)


def is_valid(virtual_addr: int, dma_len: int, ends_message: bool) -> bool:
    """docs/dataplane.md, "Ranges"."""
    return (
        virtual_addr % wire.BLOCK == 0
        and 1 <= dma_len <= wire.MAX_RANGE
        and (dma_len % wire.BLOCK == 0 or ends_message)
    )
