"""One line of `teachkv doctor`."""

from dataclasses import dataclass

OK, MISSING, CLASH = "ok", "--", "!!"


@dataclass(frozen=True)
class Finding:
    """`state` is OK, MISSING or CLASH; `remedy` says what to do, if anything."""

    state: str
    what: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        first = f"{self.state}  {self.what:<12} {self.found}"
        return f"{first}\n    {'':<12} to change that: {self.remedy}" if self.remedy else first
