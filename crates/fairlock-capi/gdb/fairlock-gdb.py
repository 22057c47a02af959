"""How gdb shows the objects of libfairlock, in C and in C++: held or free, and whether threads wait.

    (gdb) source PREFIX/share/fairlock/fairlock-gdb.py
    (gdb) print lock
    $1 = held by a writer, threads wait

The library itself is asked, while no other thread runs. So a core dump shows only whether the object is in use.
`print/r` shows the bytes.
"""

import gdb
import gdb.printing

# As in src/home.rs.
UNTOUCHED, READY, GONE = 0, 0x4641, 0x474F4E45
WAIT = ", threads wait"


def ask(function, address, result="_Bool"):
    return int(gdb.parse_and_eval(f"(({result} (*)(void const *)) {function})((void *) {address})"))


def rwlock(at):
    by = "a writer" if ask("fairlock_rwlock_is_write_locked", at) else "readers"
    held = f"held by {by}" if ask("fairlock_rwlock_is_locked", at) else "free"
    return held + WAIT * ask("fairlock_rwlock_has_waiters", at)


def mutex(at):
    held = "held" if ask("fairlock_mutex_is_locked", at) else "free"
    return held + WAIT * ask("fairlock_mutex_is_contended", at)


def sem(at):
    permits = ask("fairlock_sem_value", at, "unsigned int")
    return f"{permits} permits" + WAIT * ask("fairlock_sem_is_contended", at)


def range_lock(at):
    return "ranges are held" if ask("fairlock_range_lock_is_locked", at) else "free"


def cancel(at):
    return "cancelled" if ask("fairlock_is_cancelled", at) else "not cancelled"


class Printer:
    def __init__(self, value, of):
        self.value, self.of = value, of

    def to_string(self):
        mark, at = int(self.value["mark"]), self.value.address
        if mark == UNTOUCHED:
            return "not used yet"
        if mark == GONE:
            return "destroyed"
        if at is None or mark != READY << 16 | int(at) // 8 % 0x10000:
            return f"moved, overwritten or never initialised (mark {mark:#x})"
        before = gdb.parameter("scheduler-locking")
        try:
            gdb.execute("set scheduler-locking on", to_string=True)
        except gdb.error:
            return "in use; whether it is held is known only while the program runs"
        try:
            return self.of(int(at))
        except gdb.error as error:
            return f"in use ({error})"
        finally:
            gdb.execute(f"set scheduler-locking {before}", to_string=True)


printers = gdb.printing.RegexpCollectionPrettyPrinter("fairlock")
for of in rwlock, mutex, sem, range_lock, cancel:
    name = f"fairlock_{of.__name__}_t"
    printers.add_printer(name, f"^{name}$", lambda value, of=of: Printer(value, of))
gdb.printing.register_pretty_printer(None, printers, replace=True)
