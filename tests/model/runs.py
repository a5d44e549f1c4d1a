# SPDX-License-Identifier: Apache-2.0
"""Settings of the property tests: no limits of time, which belong to no test that a busy machine may run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def runs(examples: int) -> settings:
    """So many examples, however long they take. The device is emptied by the test, not by a fixture."""
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
        ],
    )
