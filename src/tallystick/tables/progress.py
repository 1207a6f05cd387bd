"""Progress of a release: a callback of the caller, whose errors never reach the computation.

A callback runs after the charge, beside private data. If its error stopped the release, the charge would be spent, the
answer would be lost and the data would be closed for every caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str], None] | None


class ProgressFailed(UserWarning):
    """The ``progress`` of a release raised an error. The release is not affected, and its answer is stored."""


@contextmanager
def reported(progress: Progress) -> Iterator[Progress]:
    """Yield a progress callback that raises nothing but an interrupt; say at the end what it raised.

    An ``Exception`` becomes the warning ``ProgressFailed``. What ends a program or a task (``SystemExit``, a
    cancellation) is raised again. Both happen after the block, so after the answer is stored. ``KeyboardInterrupt``
    is not kept back: it interrupts the release as it does elsewhere. After its first error a callback is not called.

    >>> with reported(None) as tell:
    ...     tell is None
    True
    """
    if progress is None:
        yield None
        return
    raised: list[BaseException] = []

    def tell(stage: str) -> None:
        if raised:
            return
        try:
            progress(stage)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            raised.append(problem)

    yield tell
    for problem in raised:
        if not isinstance(problem, Exception):
            raise problem
        text = f"progress raised {type(problem).__name__}; the release is not affected, and its answer is stored"
        warnings.warn(ProgressFailed(text), stacklevel=5)
