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

    def __init__(self, inner: InnerLoader, *, draws_like_new: bool) -> None:
        self._inner = inner
        self._issued = inner.issued
        self._source = inner.start_epoch(draws_like_new=draws_like_new)
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
            if self._issued is not None and self._issued.outstanding and self.is_running:
                self._fail()  # it is a sample's own
            else:
                self._finish()
            raise
        except BaseException:
            self._fail()
            raise
        self._served += 1
        if self._issued is not None:
            self._issued.outstanding.pop(delivery.position, None)
        return delivery.batch

    def _fail(self) -> None:
        """
        Note that a batch could not be loaded, or that waiting for it was interrupted.
        """
        self._inner.has_failed = True
        if self._issued is not None:
            self._issued.failed()

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled or copied: its workers cannot")

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
