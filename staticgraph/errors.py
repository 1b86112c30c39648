"""Exception classes. Every one derives from ``Error`` and is raised at the user's own line.

While building a graph: ``GraphError`` and its two children, which are also the built-in class TF1 raises.
While running: ``OpError`` and its children, with TF1's names and codes.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Root of all errors of the project. ``site`` is the user's line that made the failing node, if known."""

    site: Any = None


class GraphError(Error):
    """A graph cannot be built as asked."""


class ShapeError(GraphError, ValueError):
    """Shapes or values that do not fit.

    ::

        sg.matmul(a, b)                   # f64[32,10] @ f64[12,4]: inner sizes differ
        sg.matmul(a, sg.transpose(b))     # f64[32,10] @ f64[10,12]
    """


class DTypeError(GraphError, TypeError):
    """Operands of different element types: nothing is promoted silently.

    ::

        x + i                             # float32 + int32
        x + sg.cast(i, sg.float32)
    """


class NotDifferentiableError(GraphError, LookupError):
    """A gradient was asked of an op that has none; the message says why."""


class InternalError_(Error):
    """The compiler broke one of its own rules (a pass, a rule or a kernel is at fault, not the user)."""


class OpError(Error):
    """A run failed. ``op`` is the operation, ``message`` the text, ``error_code`` TF1's number."""

    error_code = 2

    def __init__(self, node_def: Any = None, op: Any = None, message: str = "", error_code: int | None = None) -> None:
        if isinstance(node_def, str) and op is None and not message:      # OpError("text")
            node_def, message = None, node_def
        super().__init__(message)
        self._node_def, self._op, self._message = node_def, op, message
        if error_code is not None:
            self.error_code = error_code

    @property
    def op(self) -> Any:
        """The operation that failed (``.name``, ``.type``), or None where no single one did."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The operation's definition, or None."""
        return self._node_def if self._node_def is not None else getattr(self._op, "node_def", None)

    @property
    def message(self) -> str:
        """The text of the error without its class."""
        return self._message


class CancelledError(OpError):
    """The run was stopped (Ctrl-C, or the session was closed while it ran)."""

    error_code = 1


class UnknownError(OpError):
    """A host function raised; the text is the Python error's."""

    error_code = 2


class InvalidArgumentError(OpError, ValueError):
    """A value that only the run knows does not fit: an index out of range, a zero divisor, a missing feed."""

    error_code = 3


class DeadlineExceededError(OpError):
    """A time limit passed."""

    error_code = 4


class NotFoundError(OpError):
    """Something named does not exist, such as a key of a checkpoint."""

    error_code = 5


class AlreadyExistsError(OpError):
    """Something to be made exists."""

    error_code = 6


class PermissionDeniedError(OpError):
    """The system refused access."""

    error_code = 7


class ResourceExhaustedError(OpError):
    """Memory or another resource ran out."""

    error_code = 8


class FailedPreconditionError(OpError):
    """The state does not allow the run, most often a variable without a value.

    ::

        sess.run(w)                                     # Attempting to use uninitialized value w
        sess.run(sg.global_variables_initializer()); sess.run(w)
    """

    error_code = 9


class AbortedError(OpError):
    """The run was given up because of another one."""

    error_code = 10


class OutOfRangeError(OpError):
    """A sequence ended, such as an iterator or a queue."""

    error_code = 11


class UnimplementedError(OpError):
    """Not available in this build, such as an op without native code."""

    error_code = 12


class InternalError(OpError):
    """The runtime broke one of its own rules."""

    error_code = 13


class UnavailableError(OpError):
    """A service cannot be reached."""

    error_code = 14


class DataLossError(OpError):
    """A file is damaged."""

    error_code = 15


class UnauthenticatedError(OpError):
    """The caller could not be identified."""

    error_code = 16


class InaccessibleTensorError(GraphError, ValueError):
    """A tensor of a loop body or a branch was used outside of it."""


class OperatorNotAllowedInGraphError(DTypeError):
    """Python asked a symbolic tensor for a value: ``if t:``, ``for x in t:``, ``float(t)``."""
