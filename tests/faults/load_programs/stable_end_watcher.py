"""Asks the leaders again and again where the committed records end, and notes it, until SIGTERM."""

import argparse
import random
import signal
import sys
import threading
import time
from operator import methodcaller
from pathlib import Path

from tests.faults.access.client_access import add_access
from tests.faults.history import line
from tests.faults.transactions.stable_ends import STABLE_END
from tests.support.clients.routed_transactions import RoutedTransactions, Unanswered

PAUSE_S = 0.05


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    add_access(parser)
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    cluster = RoutedTransactions(options.bootstrap, random.Random(0), options.access.connect)
    places = [(topic, index) for topic in options.topics for index in range(options.partitions)]
    with options.notes.open("w") as notes:
        while not ending.is_set():
            for topic, partition in places:
                try:
                    ask = methodcaller("end_offset", topic, committed=True, partition=partition)
                    error, offset = cluster.leader(topic, partition, ask)
                except Unanswered:
                    error, offset = "unanswered", -1
                if error == "none":
                    notes.write(line(STABLE_END, topic, partition, offset, time.monotonic_ns()))
                else:
                    cluster.forget(topic, partition)
            notes.flush()
            ending.wait(PAUSE_S)
    cluster.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
