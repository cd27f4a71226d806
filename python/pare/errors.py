"""What goes wrong, as exceptions."""

from __future__ import annotations


class Error(Exception):
    """Anything that the library refuses or fails at.

    kind    failed, usage, file, format, shape, memory, unsupported, verification, quality or interrupted
    where   what it is about: a node, a file, an option in backticks
    message what was expected and what was found
    """

    def __init__(self, kind: str, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.kind = kind
        self.where = where
        self.message = message

    def __reduce__(self):
        return type(self), (self.kind, self.where, self.message)


class UsageError(Error, ValueError):
    """An argument or an option that makes no sense."""


class FileError(Error, OSError):
    """A file is missing, unreadable or unwritable."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class MemoryLimitError(Error, MemoryError):
    """Tensors would take more memory than they may."""


_CLASSES = {"usage": UsageError, "file": FileError, "memory": MemoryLimitError}


def make(kind: str, where: str, message: str) -> Error:
    return _CLASSES.get(kind, Error)(kind, where, message)
