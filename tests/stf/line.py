# SPDX-License-Identifier: Apache-2.0
"""One line of an STF file, taken apart from left to right."""

from __future__ import annotations

import re

from tests.stf.language import Number, Place, StfError

_COMMENT = re.compile(r'("[^"]*")|#.*')
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_IDENTIFIER = r"(?:[A-Za-z_$][\w$]*(?:\[\d+\])?)"
_NAME = re.compile(rf'"([^"]+)"|({_IDENTIFIER}(?:\.{_IDENTIFIER})*)')
_NUMBER = re.compile(r"0[xX][0-9a-fA-F*]+|0[bB][01*]+|\d+")
_FRACTION = re.compile(r"\d+(?:\.\d+)?")
_BITS = {"x": 4, "b": 1}
_STACK_INDEX = re.compile(r"\$(\d+)")


def strip_comment(line: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or "", line)


class Line:
    """A cursor. Every method that finds something else than it wants raises StfError."""

    def __init__(self, place: Place, text: str) -> None:
        self.place = place
        self._text = text
        self._at = 0

    def error(self, message: str) -> StfError:
        return StfError(self.place, message)

    def next_text(self) -> str:
        """What comes next, for a message."""
        self._skip()
        rest = self._text[self._at :]
        return repr(rest if len(rest) <= 30 else rest[:27] + "...") if rest else "the end of the line"

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        if found:
            self._at = found.end()

    def _match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        self._skip()
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self.error(f"expected {what}, got {self.next_text()}")
        self._at = found.end()
        return found

    def at_end(self) -> bool:
        self._skip()
        return self._at == len(self._text)

    def end(self) -> None:
        if not self.at_end():
            raise self.error(f"expected the end of the line, got {self.next_text()}")

    def take(self, text: str) -> bool:
        """Whether `text` came next; it is behind the cursor then."""
        self._skip()
        if not self._text.startswith(text, self._at):
            return False
        # `<` is no `<=`, `=` is no `==`.
        if text in ("<", ">", "=") and self._text.startswith("=", self._at + 1):
            return False
        self._at += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"expected {text!r}, got {self.next_text()}")

    def word(self, what: str) -> str:
        return self._match(_WORD, what)[0]

    def name(self, what: str) -> str:
        """A dotted name, or anything in quotes. `stack$0` is written for `stack[0]`."""
        found = self._match(_NAME, what)
        return str(found[1]) if found[1] else _STACK_INDEX.sub(r"[\1]", found[2])

    def at_number(self) -> bool:
        self._skip()
        return _NUMBER.match(self._text, self._at) is not None

    def pattern(self, what: str) -> Number:
        """A number that may have `*` for digits that don't matter."""
        text = self._match(_NUMBER, what)[0]
        base = text[1:2].lower()
        bits = _BITS.get(base)
        if bits is None:
            return Number(int(text), None, text)
        digits = text[2:]
        radix = 1 << bits
        value = int(digits.replace("*", "0"), radix)
        ones = "0123456789abcdef"[radix - 1]
        mask = int("".join("0" if digit == "*" else ones for digit in digits), radix)
        return Number(value, mask, text)

    def number(self, what: str) -> int:
        number = self.pattern(what)
        if "*" in number.text:
            raise self.error(f"expected {what}, got {number.text!r}, which is not one number")
        return number.value

    def fraction(self, what: str) -> str:
        return self._match(_FRACTION, what)[0]

    def port(self) -> int:
        return int(self._match(re.compile(r"\d+(?=\s|$)"), "a port number")[0])

    def packet_data(self, digits: str) -> str:
        """The rest of the line without its spaces, all of it from `digits`."""
        data = "".join(self._text[self._at :].split())
        self._at = len(self._text)
        for char in data:
            if char not in digits:
                raise self.error(f"{char!r} is no packet data")
        return data
