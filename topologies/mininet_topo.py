# SPDX-License-Identifier: Apache-2.0
"""For Mininet's own command: `mn --custom topologies/mininet_topo.py --topo fattree,4`, as root.

Topologies: fattree,K and leafspine,LEAVES,SPINES,HOSTS_PER_LEAF; `target=bmv2` for BMv2, `program=0` to leave
the devices without programs. Links are not limited. Mininet runs here in the machine's own namespace and by
the system's Python; `python -m controller` does the same in a private one.
"""

import subprocess as _subprocess
import sys as _sys
import tempfile as _tempfile
from pathlib import Path as _Path

_ROOT = _Path(_sys._getframe().f_code.co_filename).resolve().parent.parent
_sys.path.insert(0, str(_ROOT))

from topologies import fat_tree as _fat_tree  # noqa: E402
from topologies import leaf_spine as _leaf_spine  # noqa: E402
from topologies import targets as _targets  # noqa: E402
from topologies import to_json as _to_json  # noqa: E402
from topologies.mininet_nodes import FabricTopo as _FabricTopo  # noqa: E402
from topologies.model import Topology as _Topology  # noqa: E402
from topologies.targets import Embedded as _Embedded  # noqa: E402


def _python() -> str:
    """The project's environment, if it is set up: the system's Python has no gRPC."""
    environment = _ROOT / ".venv" / "bin" / "python"
    return str(environment) if environment.exists() else _sys.executable


def _topo(topology: _Topology, target: str, program: int) -> _FabricTopo:
    adapter = _Embedded(python=_python()) if target == "embedded" else _targets.find(target)
    adapter.check()
    directory = _Path(_tempfile.mkdtemp(prefix="forgive-mn-"))

    def start() -> None:
        adapter.start(_targets.settings(topology, None), directory)
        if program:
            file = directory / "topology.json"
            file.write_text(_to_json(topology))
            command = [_python(), "-m", "controller", "program", str(file)]
            try:
                _subprocess.run(command, cwd=_ROOT, check=True)
            except BaseException:
                adapter.stop()
                raise

    parameters = {"starter": start, "stopper": adapter.stop}
    return _FabricTopo(topology=topology, device_params=parameters)


def _fattree(k: int = 4, target: str = "embedded", program: int = 1) -> _FabricTopo:
    return _topo(_fat_tree(k), target, program)


def _leafspine(
    leaves: int = 2, spines: int = 2, hosts_per_leaf: int = 2, target: str = "embedded", program: int = 1
) -> _FabricTopo:
    return _topo(_leaf_spine(leaves, spines, hosts_per_leaf), target, program)


topos = {"fattree": _fattree, "leafspine": _leafspine}
