"""Queues, conditions, barriers, a pool and a fork: says "done", and how many seconds it took, if all
of it came out right."""

import concurrent.futures
import os
import queue
import threading
import time

began = time.monotonic()


def together(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


items, taken, lock = queue.Queue(8), [], threading.Lock()


def produce():
    for item in range(2000):
        items.put(item)


def consume():
    for _ in range(2000):
        item = items.get()
        with lock:
            taken.append(item)


together(*[produce, consume] * 4)
assert sorted(taken) == sorted(list(range(2000)) * 4)

condition, turn = threading.Condition(), 0


def take_turns(me):
    global turn
    for _ in range(500):
        with condition:
            assert condition.wait_for(lambda: turn % 3 == me, timeout=60)
            turn += 1
            condition.notify_all()


together(*[lambda me=me: take_turns(me) for me in range(3)])
assert turn == 1500

barrier = threading.Barrier(6)
together(*[lambda: [barrier.wait(60) for _ in range(100)]] * 6)

assert lock.acquire(timeout=1) and not lock.acquire(timeout=0.01)

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(lambda n: n * n, range(2000))) == sum(n * n for n in range(2000))

child = os.fork()
if child == 0:
    together(taken.clear)
    os._exit(len(taken))
assert os.waitpid(child, 0)[1] == 0
print("done", time.monotonic() - began)
