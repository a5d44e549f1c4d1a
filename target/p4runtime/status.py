# SPDX-License-Identifier: Apache-2.0
"""Errors of the P4Runtime service and their wire form.

The form is that of "Error Reporting Messages" in the P4Runtime specification 1.5.

One failed RPC carries a gRPC status; a batch carries, besides, one `p4.v1.Error` for every element in the
trailing metadata key `grpc-status-details-bin`, as a serialized `google.rpc.Status`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc
from finsy.proto import p4r, rpc_code, rpc_status

DETAILS_KEY: Final = "grpc-status-details-bin"
MAX_MESSAGE: Final = 500
"""Characters of one error message: clients take 8 kB of status by default, and names may be of any length."""

_GRPC_CODES: Final = {int(code.value[0]): code for code in grpc.StatusCode}


class P4Error(Exception):
    """A request, or one element of a batch, that is refused.

    `code` is a canonical code (`google.rpc.Code`), `message` one line for the developer.
    """

    def __init__(self, code: int, message: str) -> None:
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 3] + "..."
        super().__init__(message)
        self.code = code
        self.message = message

    def __repr__(self) -> str:
        return f"P4Error({code_name(self.code)}, {self.message!r})"


def code_name(code: int) -> str:
    """The canonical code's name, such as `NOT_FOUND`."""
    return rpc_code.Code.Name(code)  # type: ignore[arg-type]


def code_value(name: str) -> int:
    """The canonical code of a name; UNKNOWN for a name that is none."""
    try:
        return rpc_code.Code.Value(name)
    except ValueError:
        return rpc_code.UNKNOWN


def grpc_code(code: int) -> grpc.StatusCode:
    """The gRPC status code of a canonical code: the numbers are the same."""
    return _GRPC_CODES.get(code, grpc.StatusCode.UNKNOWN)


def invalid_argument(message: str) -> P4Error:
    return P4Error(rpc_code.INVALID_ARGUMENT, message)


def out_of_range(message: str) -> P4Error:
    return P4Error(rpc_code.OUT_OF_RANGE, message)


def not_found(message: str) -> P4Error:
    return P4Error(rpc_code.NOT_FOUND, message)


def already_exists(message: str) -> P4Error:
    return P4Error(rpc_code.ALREADY_EXISTS, message)


def permission_denied(message: str) -> P4Error:
    return P4Error(rpc_code.PERMISSION_DENIED, message)


def failed_precondition(message: str) -> P4Error:
    return P4Error(rpc_code.FAILED_PRECONDITION, message)


def resource_exhausted(message: str) -> P4Error:
    return P4Error(rpc_code.RESOURCE_EXHAUSTED, message)


def unimplemented(message: str) -> P4Error:
    return P4Error(rpc_code.UNIMPLEMENTED, message)


def internal(message: str) -> P4Error:
    return P4Error(rpc_code.INTERNAL, message)


class BatchError(Exception):
    """Some elements of a batch failed. `errors` has one item per element, None where it succeeded."""

    def __init__(self, operation: str, errors: Sequence[P4Error | None]) -> None:
        self.errors = list(errors)
        failed = sum(error is not None for error in self.errors)
        self.message = f"{operation} failure: {failed} of {len(self.errors)} element(s) failed"
        first = next((error for error in self.errors if error is not None), None)
        if first is not None:
            self.message += f", the first with {code_name(first.code)}: {first.message}"
        super().__init__(self.message)

    def details(self) -> bytes:
        """The serialized `google.rpc.Status`: UNKNOWN, and a `p4.v1.Error` for each element in order."""
        status = rpc_status.Status(code=rpc_code.UNKNOWN, message=self.message)
        for error in self.errors:
            detail = p4r.Error()
            if error is not None:
                detail.canonical_code = error.code
                detail.message = error.message
            status.details.add().Pack(detail)
        return status.SerializeToString()
