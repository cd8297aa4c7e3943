"""What happened in a history, for a person to read."""

from typing import Any


class Story:
    """Lines with their time; made into text only when they are printed."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, str, tuple[Any, ...]]] = []

    def log(self, now: float, line: str, *details: Any) -> None:
        """Add a line, a %-format with its arguments."""
        self._lines.append((now, line, details))

    def text(self) -> str:
        """The whole story."""
        return "\n".join(
            f"{now:9.3f}  {line % details if details else line}"
            for now, line, details in self._lines
        )
