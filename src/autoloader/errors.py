"""
Every exception and warning class, each with the exit code that the command line ends with.

Exit codes: 0 fine, 1 internal, 2 usage, 3 the request cannot be met, 4 torch is missing, 5 a calibration failed,
6 the cache is unusable.
"""

__all__ = [
    "ArgumentError",
    "AutoloaderError",
    "AutoloaderWarning",
    "CacheError",
    "CalibrationError",
    "CannotSendError",
    "DemoMissingError",
    "LoaderClosedError",
    "MissingMainGuardError",
    "PlanFileError",
    "TargetError",
    "TorchMissingError",
    "WorkerDiedError",
    "WorkersCannotStartError",
]


class AutoloaderError(Exception):
    """
    Be the root of every error that autoloader raises on its own account.

    The text says what is wrong, because of which fact, and what to do.
    """

    exit_code = 1


class ArgumentError(AutoloaderError, ValueError):
    """
    Say that one argument has a value that no loader can work with.
    """

    exit_code = 2


class TargetError(AutoloaderError, ValueError):
    """
    Say that a TARGET of the command line does not lead to a dataset.
    """

    exit_code = 2


class PlanFileError(AutoloaderError, ValueError):
    """
    Say that a file given as ``plan=`` is not a plan that this version can read.
    """

    exit_code = 3


class DemoMissingError(AutoloaderError, ImportError):
    """
    Say that a package is missing which only the demo uses.
    """

    exit_code = 3


class LoaderClosedError(AutoloaderError, RuntimeError):
    """
    Say that an iterator was asked for a batch that it cannot give any more, after its loader was closed for instance.
    """

    exit_code = 3


class MissingMainGuardError(AutoloaderError, RuntimeError):
    """
    Say that workers would import the script again and start it all over, as it has no main guard.
    """

    exit_code = 3


class WorkersCannotStartError(AutoloaderError, RuntimeError):
    """
    Say that no worker process can start here, to a caller who wants that to be an error.
    """

    exit_code = 3


class CannotSendError(AutoloaderError, RuntimeError):
    """
    Say that a batch cannot travel between a worker and the training process, as it cannot be pickled.
    """

    exit_code = 3


class WorkerDiedError(AutoloaderError, RuntimeError):
    """
    Say that a worker process died in the middle of an epoch: how it ended, the limits that matter, and what to do.
    """

    exit_code = 3


class CacheError(AutoloaderError, RuntimeError):
    """
    Say that what is kept between runs cannot be shown or cleared.
    """

    exit_code = 6


class CalibrationError(AutoloaderError, RuntimeError):
    """
    Say that nothing could be measured: the dataset raised, gave no batch in time, or no process could start.
    """

    exit_code = 5


class TorchMissingError(AutoloaderError, ImportError):
    """
    Say that something needs torch, and torch cannot be imported here.
    """

    exit_code = 4


class AutoloaderWarning(UserWarning):
    """
    Be the class of every warning of autoloader's, so that one filter silences them.
    """
