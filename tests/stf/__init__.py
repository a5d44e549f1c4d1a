# SPDX-License-Identifier: Apache-2.0
"""STF packet tests: programs with a file of table entries, packets and expected packets beside them.

`language` says what an STF file can say, `reader` reads one, `program` finds its names in a BMv2 JSON,
`session` carries it out on a `dut.Dut`: `embedded` is the target of this project, `bmv2` the real
simple_switch. `cases` and `compiling` find and compile programs, `workers` runs each case in a process with
a timeout, `cli` is the command line (`python -m tests.stf --help`).
"""
