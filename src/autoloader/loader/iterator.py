"""
One pass over a loader.
"""

from typing import Any

from ..engine.inner import InnerLoader
from ..errors import LoaderClosedError
from ..findings import describe


class LoaderIterator:
    """
    Yields the batches of one epoch, in the sampler's order.

    After a batch that raised an error it goes on with the next one, as torch's iterators do. Dropping it early leaves
    no process behind; persistent workers stay with their loader.
    """

    def __init__(self, inner: InnerLoader) -> None:
        self._inner = inner
        self._issued = inner.issued
        self._source = inner.start_epoch()
        self._served = 0
        self.is_running = True

    def __iter__(self) -> "LoaderIterator":
        return self

    def __len__(self) -> int:
        return len(self._issued)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        try:
            delivery = next(self._source)
        except StopIteration:
            self._finish()
            raise
        except Exception:
            if self._issued is not None:
                self._issued.failed()
            raise
        self._served += 1
        if self._issued is not None:
            self._issued.outstanding.pop(delivery.position, None)
        return delivery.batch

    def _finish(self) -> None:
        """
        Let torch's iterator go, and from now on answer as an exhausted one.
        """
        if self.is_running:
            self.is_running = False
            self._source = iter(())
            self._inner.end_epoch()

    def uses(self, inner: InnerLoader) -> bool:
        """
        Return whether the batches come from *inner*.
        """
        return self._inner is inner

    def close(self) -> None:
        """
        End the workers; an iterator that was not exhausted gives an error from now on.
        """
        if self.is_running:
            self.is_running = False
            self._source = _Closed(self._served)
        self._inner.close()


class _Closed:
    """
    What an iterator draws from after its loader was closed.
    """

    def __init__(self, served: int) -> None:
        self._served = served

    def __next__(self) -> Any:
        raise LoaderClosedError(describe("loader.closed", served=self._served))
