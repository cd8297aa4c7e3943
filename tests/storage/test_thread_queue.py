"""Work that comes now and then is one thread's; no other thread is woken for it."""

import threading
from collections import Counter
from queue import SimpleQueue

from counterpoise.storage.files.thread_queue import ThreadQueue
from tests.waiting import WITHIN_S


def test_what_comes_alone_is_done_by_the_thread_that_did_the_last() -> None:
    queue: ThreadQueue[int | None] = ThreadQueue()
    taken: SimpleQueue[str] = SimpleQueue()
    by: Counter[str] = Counter()

    def work() -> None:
        take = queue.getter()
        while take() is not None:
            taken.put(threading.current_thread().name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(300):
        # None of them is still on its way to rest.
        # Private: that a thread rests changes nothing that others see.
        while len(queue._resting) < len(threads):
            assert all(thread.is_alive() for thread in threads)
        queue.put(number)
        by[taken.get(timeout=WITHIN_S)] += 1
    for _ in threads:
        queue.put(None)
    for thread in threads:
        thread.join(WITHIN_S)
        assert not thread.is_alive()
    assert list(by.values()) == [300], by
