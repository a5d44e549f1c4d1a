# SPDX-License-Identifier: Apache-2.0
"""The paper's worst fabric again: 64 ranks at 400 Gb/s, four hosts' bytes to one uplink's, decided by the P4
programs.

    python -m controller.experiments.paper --scale 0.1          # every arm, two of twenty steps
    python -m controller.experiments.paper --scale full --resume

Question: does FORGIVE cut training time by 16 percent for 7.6 percent of gradient bytes, and is it the
exemption that does it? `published.toml` has what the study reported; `table.csv` holds it against what is
measured here. A cell is an arm with a seed; each runs in a process of its own (`cell`), and what it leaves in
its directory is complete or not there.

`arms`: what varies. `plan`: how a run is made smaller. `cell`: one arm. `rows`: the files and their columns.
`metrics`: every figure, from the files. `published`: the study's figures. `table`, `plots`: what is made of
both. `session`: the command. `publish`: what is kept of a run.
"""
