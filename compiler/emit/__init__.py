# SPDX-License-Identifier: Apache-2.0
"""Emitters: flat program to BMv2 JSON (docs/JSON_format.md of behavioral-model, 2.23) and to P4Info."""
