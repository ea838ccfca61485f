"""Become another program whose life is tied to the process that started it.

Run as a script, `tied_exec.py PARENT_PID PROGRAM ARGUMENT…`, this asks the kernel to send SIGKILL when the parent
dies (PR_SET_PDEATHSIG survives exec) and then turns into PROGRAM, keeping the process id. So a launcher killed with
`kill -9` leaves nothing behind. A script and not a `preexec_fn`, because running Python between fork and exec is
unsafe in a launcher that has gRPC's threads. Where the system has no such call (macOS), it only does the exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent and replace it by the program named on the command line."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            error_number = ctypes.get_errno()
            sys.exit(f"cannot tie this process to its launcher: {os.strerror(error_number)}")
        if os.getppid() != parent_pid:
            sys.exit("the launcher has gone")  # it died before the kernel knew of the tie
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
