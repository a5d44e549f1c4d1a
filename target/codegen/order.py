# SPDX-License-Identifier: Apache-2.0
"""The order of a pipeline's nodes."""

from __future__ import annotations

from target.bmjson.model import Pipeline


def edges(pipeline: Pipeline, name: str) -> list[str | None]:
    """The nodes that may follow a node; None: the end."""
    if name in pipeline.tables:
        table = pipeline.tables[name]
        if table.hit_miss is not None:
            return [*table.hit_miss]
        return [*table.next.values(), table.default_next]
    if name in pipeline.conditionals:
        cond = pipeline.conditionals[name]
        return [cond.true_next, cond.false_next]
    return [pipeline.action_calls[name].next]


def node_order(pipeline: Pipeline) -> list[str]:
    """The reachable nodes, each before those it leads to."""
    done: set[str] = set()
    order: list[str] = []
    if pipeline.init is None:
        return order
    stack = [(pipeline.init, iter(edges(pipeline, pipeline.init)))]
    done.add(pipeline.init)
    while stack:
        name, rest = stack[-1]
        target = next(rest, "")
        if target == "":
            order.append(name)
            stack.pop()
        elif target is not None and target not in done:
            done.add(target)
            stack.append((target, iter(edges(pipeline, target))))
    return order[::-1]
