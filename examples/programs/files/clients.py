"""Sixteen clients of a memcached at a port: half of them set and count, half get. Says how much
was counted, and how often a value came back that nobody had set."""

import socket
import sys
import threading
import time

CLIENTS, ROUNDS = 16, 800
address = ("127.0.0.1", int(sys.argv[1]))
wrong = []


def connect():
    for _ in range(100):
        try:
            connection = socket.create_connection(address, timeout=120)
            return connection, connection.makefile("rb")
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("nobody listens")


def ask(connection, answers, question, data=None):
    connection.sendall(question + b"\r\n" + (data + b"\r\n" if data is not None else b""))
    return answers.readline().strip()


def client(number):
    connection, answers = connect()
    for i in range(ROUNDS):
        key = b"key%d" % (i % 50)
        if number % 2:
            ask(connection, answers, b"incr counted 1")
            value = key + b":%d" % number
            if ask(connection, answers, b"set %s 0 0 %d" % (key, len(value)), value) != b"STORED":
                wrong.append(value)
        elif ask(connection, answers, b"get " + key) != b"END":
            value = answers.readline().strip()
            if answers.readline().strip() != b"END" or not value.startswith(key + b":"):
                wrong.append(value)


connection, answers = connect()
ask(connection, answers, b"set counted 0 0 1", b"0")
threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ask(connection, answers, b"get counted")
print("counted", int(answers.readline()), "of", CLIENTS // 2 * ROUNDS, "wrong", len(wrong))
