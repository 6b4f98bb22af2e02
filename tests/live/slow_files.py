"""
A file system in user space whose one file is read as late as a test wants: ``python slow_files.py POINT KIND``.

KIND is ``turning``, which reads one block after another, ``far``, which reads all that are asked for at once, or
``silent``, which answers nothing at all once it is mounted. Whoever waits for it waits in the kernel, as for a disk or
a server. It ends, and all that wait for it go on, when it is killed. Source: kernel, include/uapi/linux/fuse.h.
"""

import ctypes
import os
import signal
import struct
import sys
import threading
import time

SIZE = 1 << 30
READ_SECONDS = 0.02
FOLDER, FILE = 1, 2

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
NO_SUCH_CALL = 38

NAMES = {"turning": "fuse.mergerfs", "far": "fuse.mergerfs", "silent": "fuse.sshfs"}


def attributes(node: int) -> bytes:
    """
    Return a struct fuse_attr.
    """
    size, mode = (SIZE, 0o100644) if node == FILE else (0, 0o40755)
    return struct.pack("<6Q3I7I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def entry(node: int, offset: int, name: bytes, kind: int) -> bytes:
    """
    Return a struct fuse_dirent, filled up to eight bytes.
    """
    text = struct.pack("<QQII", node, offset, len(name), kind) + name
    return text + bytes(-len(text) % 8)


class Server:
    """
    Answers the kernel's requests.

    Args:
        device: An open /dev/fuse that was mounted.
        kind: How late reads are answered.
    """

    def __init__(self, device: int, kind: str) -> None:
        self._device, self._kind = device, kind

    def answer(self, unique: int, body: bytes = b"", error: int = 0) -> None:
        """
        Send a struct fuse_out_header and what follows.
        """
        os.write(self._device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def read(self, unique: int, offset: int, size: int) -> None:
        """
        Answer a read when its time has come.
        """
        time.sleep(READ_SECONDS)
        self.answer(unique, bytes(max(0, min(size, SIZE - offset))))

    def serve(self, operation: int, unique: int, node: int, body: bytes) -> None:
        """
        Answer one request.
        """
        if operation in {FORGET, BATCH_FORGET, INTERRUPT}:
            return
        if operation == INIT:
            made = (7, 31, 0, 0, 12, 10, 1 << 17, 1, 0, 0, 0, 0)
            self.answer(unique, struct.pack("<IIIIHHIIHHII", *made) + bytes(24))
        elif self._kind == "silent":
            return
        elif operation == GETATTR:
            self.answer(unique, struct.pack("<QII", 60, 0, 0) + attributes(node))
        elif operation == LOOKUP:
            self.answer(unique, struct.pack("<QQQQII", FILE, 0, 60, 60, 0, 0) + attributes(FILE))
        elif operation in {OPEN, OPENDIR}:
            self.answer(unique, struct.pack("<QII", 0, 0, 0))
        elif operation == READDIR:
            start = struct.unpack_from("<Q", body, 8)[0]
            self.answer(unique, b"" if start else entry(FILE, 1, b"data.bin", 8))
        elif operation == READ:
            request = (unique, *struct.unpack_from("<QI", body, 8))
            if self._kind == "far":
                threading.Thread(target=self.read, args=request, daemon=True).start()
            else:
                self.read(*request)
        else:
            self.answer(unique, error=0 if operation in {RELEASE, RELEASEDIR, FLUSH} else NO_SUCH_CALL)


def main(point: str, kind: str) -> None:
    """
    Mount the file system, say so, and serve it for ever.
    """
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with the test
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    texts = [text.encode() for text in ("server:/data", point, NAMES[kind])]
    if kernel.mount(*texts, 0, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    server = Server(device, kind)
    while True:
        request = os.read(device, 1 << 20)
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        server.serve(operation, unique, node, request[40:])


if __name__ == "__main__":
    main(*sys.argv[1:])
