# SPDX-License-Identifier: Apache-2.0
"""A picture of a topology: layers from the hosts up, links coloured by anything that has a number per
link.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from topologies.model import Link, Topology

_WIDTH_PER_HOST = 0.95
_HEIGHT_PER_LAYER = 1.5


def draw(
    topology: Topology, path: Path, weights: Mapping[Link, float] | None = None, title: str | None = None
) -> None:
    """Write a picture to `path`; its suffix gives the format (.png, .svg, .pdf).

    weights: one number per link, for example packets trimmed on it, shown as colour; links without one are
    grey.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    places = _places(topology)
    width = max(6.0, _WIDTH_PER_HOST * len(topology.hosts))
    figure, axes = pyplot.subplots(figsize=(width, _HEIGHT_PER_LAYER * (len(topology.layers) + 1)))
    most = max([*(weights or {}).values(), 1e-9])
    colours = pyplot.get_cmap("viridis_r")
    for link in topology.links:
        (x1, y1), (x2, y2) = places[link.a.node], places[link.b.node]
        weight = (weights or {}).get(link)
        colour = "0.6" if weight is None else colours(weight / most)
        axes.plot([x1, x2], [y1, y2], color=colour, linewidth=1.2, zorder=1)
    for name, (x, y) in places.items():
        text = name if not topology.is_host(name) else f"{name}\n{topology.host(name).ip}"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.3"}
        axes.text(x, y, text, ha="center", va="center", fontsize=7, bbox=box, zorder=2)
    axes.set_axis_off()
    parameters = ", ".join(f"{k}={v}" for k, v in topology.parameters.items())
    axes.set_title(title or f"{topology.family} {parameters}")
    if weights:
        figure.colorbar(ScalarMappable(Normalize(0.0, most), colours), ax=axes, shrink=0.6)
    figure.savefig(path, bbox_inches="tight", dpi=120)
    pyplot.close(figure)


def _places(topology: Topology) -> dict[str, tuple[float, float]]:
    """Hosts and their NICs side by side; every layer above spread over the same width."""
    width = float(max(len(topology.hosts), 1))
    places = {}
    for index, host in enumerate(topology.hosts):
        places[host.name] = (index + 0.5, 0.0)
        places[host.nic] = (index + 0.5, 1.0)
    for height, layer in enumerate(topology.layers[1:], start=2):
        devices = topology.layer(layer)
        for index, device in enumerate(devices):
            places[device.name] = ((index + 0.5) * width / len(devices), float(height))
    return places
