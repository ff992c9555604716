"""The exceptions of PEP 249, with what the database knows about an error."""

from __future__ import annotations


class Warning(Exception):
    """Important warnings. FirnDB raises none."""


class Error(Exception):
    """Base of all errors.

    ``str(error)`` is the message, the line that it points at, detail and hint.
    """

    #: One sentence that says what went wrong.
    message: str
    #: Five characters (ISO 9075, PostgreSQL's appendix A), for instance "42P01" for an unknown table.
    sqlstate: str | None
    #: More about the values involved.
    detail: str | None
    #: What to do about it, for instance the nearest name.
    hint: str | None
    #: Character offset into the statement's text, from 0.
    position: int | None
    #: The text that `position` points into.
    statement: str | None

    def __init__(
        self,
        message: str = "",
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        statement: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint
        self.position = position
        self.statement = statement

    def __str__(self) -> str:
        lines = [self.message]
        if self.position is not None and self.statement is not None and self.position <= len(self.statement):
            lines += self._excerpt(self.statement, self.position)
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)

    @staticmethod
    def _excerpt(statement: str, position: int, width: int = 100) -> list[str]:
        """The line of the statement with the error, and a mark below it."""
        start = statement.rfind("\n", 0, position) + 1
        end = statement.find("\n", position)
        line = statement[start : len(statement) if end < 0 else end].replace("\t", " ")
        column = position - start
        first = max(0, column - width // 2)
        label = f"LINE {statement.count(chr(10), 0, position) + 1}: "
        return [label + line[first : first + width], " " * (len(label) + column - first) + "^"]

    def __reduce__(self) -> tuple[object, ...]:
        state = {name: getattr(self, name) for name in ("sqlstate", "detail", "hint", "position", "statement")}
        return type(self), (self.message,), state


class InterfaceError(Error):
    """Errors of the interface rather than the database: a closed connection, one used after fork."""


class DatabaseError(Error):
    """Base of the errors that come from the database."""


class DataError(DatabaseError):
    """Values out of range, division by zero, text that is no value of the type."""


class OperationalError(DatabaseError):
    """Conflicts between transactions, cancelled statements, exhausted memory, the operating system."""


class IntegrityError(DatabaseError):
    """Violated constraints."""


class InternalError(DatabaseError):
    """Bugs of FirnDB."""


class ProgrammingError(DatabaseError):
    """Statements that don't parse, unknown names, wrong types, wrong parameters."""


class NotSupportedError(DatabaseError):
    """What SQL or FirnDB does not offer."""
