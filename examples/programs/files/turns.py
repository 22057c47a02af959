"""What the scripts of this folder share. A round starts a program four times, each time on a folder of its own:
on glibc's locks ("glibc"), on ours ("ours"), and both once more watched by `fairlock run` ("observe", "run").
A load is then put on it, and its results are looked at; what the load says of its speed is compared within
the round."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
LIBRARY = os.environ.get("FAIRLOCK_LIBRARY", str(TARGET / "libfairlock_preload.so"))
FAIRLOCK = os.environ.get("FAIRLOCK", str(TARGET / "fairlock"))
ARMS = ("glibc", "ours", "observe", "run")
# A hang, not a slow machine.
LIMIT = 300
# From here on `fairlock run` keeps waits one by one, in milliseconds.
KEPT = 0.1


class Failed(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Failed(what)


def install(packages):
    """The Debian packages of those programs that are missing; `packages` says whose they are."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = sorted({package for program, package in packages.items() if not shutil.which(program)})
    if missing:
        root = [] if os.getuid() == 0 else ["sudo"]
        command = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends"]
        subprocess.run(command + missing, check=True, stdout=sys.stderr)


def run(*command, **options):
    """What it writes to stdout; fails if it does, or takes for ever."""
    try:
        done = subprocess.run(command, timeout=LIMIT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} hangs") from None
    expect(done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def together(*commands):
    """Runs them at once; what each writes."""
    running = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    try:
        said = [process.communicate(timeout=LIMIT)[0] for process in running]
    except subprocess.TimeoutExpired:
        raise Failed("a load hangs") from None
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
    for command, process, text in zip(commands, running, said):
        expect(process.returncode == 0, f"{' '.join(map(str, command))}: exit code {process.returncode}\n{text[-2000:]}")
    return said


def leave_nothing_running():
    """What has been started is ended where this script is, too."""
    for ends in signal.SIGTERM, signal.SIGHUP:
        signal.signal(ends, lambda ended_by, _: sys.exit(128 + ended_by))


class Start:
    """One start of the program."""

    def __init__(self, arm, folder, prepared, seconds):
        self.arm, self.folder, self.prepared, self.seconds = arm, pathlib.Path(folder), prepared, seconds
        self.profile = self.folder / "profile.json"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def command(self, *command):
        """With the locks of this start, and watched if it is to be."""
        if self.arm == "glibc":
            return [*map(str, command)]
        if self.arm == "ours":
            return ["env", f"LD_PRELOAD={LIBRARY}", *map(str, command)]
        watched = [FAIRLOCK, "run", "--library", LIBRARY, "--json", str(self.profile)]
        return watched + ["--observe"] * (self.arm == "observe") + ["--", *map(str, command)]

    @contextlib.contextmanager
    def server(self, *command, ready):
        """Runs it until the body is through: then it has to end, when asked to, as if nothing had been."""
        log = self.folder / "log"
        with open(log, "w") as file:
            server = subprocess.Popen(
                self.command(*command), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

        def said():
            return "\n".join(log.read_text(errors="replace").splitlines()[-30:])

        try:
            until = time.monotonic() + 60
            while not ready():
                expect(server.poll() is None, f"{command[0]} ended at once\n{said()}")
                expect(time.monotonic() < until, f"{command[0]} does not start\n{said()}")
                time.sleep(0.05)
            try:
                yield
            except Failed as failure:
                raise Failed(f"{failure}\nthe end of its log:\n{said()}") from None
            expect(server.poll() is None, f"{command[0]} ended: {server.returncode}\n{said()}")
            server.send_signal(signal.SIGTERM)
            try:
                code = server.wait(timeout=60)
            except subprocess.TimeoutExpired:
                raise Failed(f"{command[0]} does not end\n{said()}") from None
            expect(code == 0, f"{command[0]}: exit code {code}\n{said()}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def listens(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def waits(self):
        """Of all locks of all its processes: how often was taken and waited, and in milliseconds the longest wait,
        and the one that only a thousandth of them exceeds: None if that is not kept, or too much was lost."""
        processes = json.loads(self.profile.read_text())["processes"]
        locks = [lock for process in processes for lock in process["locks"]]
        expect(all(process["observed"] == (self.arm == "observe") for process in processes), "the wrong locks are watched")
        kept = sorted((wait["waited_ns"] / 1e6 for process in processes for wait in process["waits"]), reverse=True)
        waited = sum(lock["waits"] for lock in locks)
        rank = math.ceil(waited / 1000)
        return {
            "taken": sum(lock["reads"] + lock["writes"] for lock in locks),
            "waited": waited,
            "longest": max((lock["wait_longest_ns"] / 1e6 for lock in locks), default=0),
            "p999": kept[rank - 1] if 0 < rank <= len(kept) else KEPT,
        }


def in_turns(load, work, prepared, rounds, seconds):
    """What each round of it said: the rate of each arm, and the waits of those that were watched."""
    for nth in range(rounds):
        rates, waits = {}, {}
        # By turns, too: whoever comes first finds another machine.
        for arm in ARMS if nth % 2 == 0 else reversed(ARMS):
            with tempfile.TemporaryDirectory() as folder:
                start = Start(arm, folder, prepared, seconds)
                try:
                    rates[arm] = work(start, load)
                    if arm in ("observe", "run"):
                        waits[arm] = start.waits()
                except Failed as failure:
                    raise Failed(f"{load}, {arm}: {failure}") from None
        yield {"load": load, "rates": rates, "waits": waits}


def summary(rounds):
    """Medians over rounds of one load: of the ratios within each, and of the waits."""

    def ratios(of, to):
        return sorted(each["rates"][of] / each["rates"][to] for each in rounds)

    def wait(arm, what):
        return statistics.median(each["waits"][arm][what] for each in rounds)

    return {
        "ours": ratios("ours", "glibc"),
        "observe": ratios("observe", "glibc"),
        "run": ratios("run", "ours"),
        "rate": statistics.median(each["rates"]["glibc"] for each in rounds),
        **{
            f"{what} {name}": wait(arm, what)
            for what in ("longest", "p999", "taken", "waited")
            for name, arm in (("glibc", "observe"), ("ours", "run"))
        },
    }


def milliseconds(value):
    return f"< {KEPT:g}" if value <= KEPT else f"{value:.3g}"


def number(value):
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def compare(program, asked, loads, work, prepared, taken):
    for load in loads:
        rounds = []
        for each in in_turns(load, work, prepared, asked.rounds, asked.seconds):
            rounds.append(each)
            if asked.figures:
                with open(asked.figures, "a") as file:
                    print(json.dumps({"program": program, **each}), file=file)
        s = summary(rounds)
        middle = {of: statistics.median(s[of]) for of in ("ours", "observe", "run")}
        print(
            f"{load}: results as they should be; {number(s['rate'])} a second;"
            f" ours {middle['ours']:.2f} of it ({s['ours'][0]:.2f} to {s['ours'][-1]:.2f});"
            f" watched {middle['observe']:.2f}, ours watched {middle['run']:.2f} of what it is without;"
            f" longest wait {milliseconds(s['longest glibc'])} ms, ours {milliseconds(s['longest ours'])} ms;"
            f" p99.9 {milliseconds(s['p999 glibc'])} ms, ours {milliseconds(s['p999 ours'])} ms;"
            f" {s['taken ours']:,.0f} taken, {s['waited ours']:,.0f} waited",
            flush=True,
        )
        expect(s["taken ours"] >= taken, f"{load}: {s['taken ours']} acquisitions: ours were not there")
        expect(middle["ours"] >= asked.floor, f"{load}: with ours {middle['ours']:.2f} of what is done with glibc's")


def main(packages, loads, work, taken=10_000, prepare=None):
    """Runs `work(start, load)` for each load, which says how much was done in a second; `prepare(start)`, once
    before, may leave files for that in `start.folder`, afterwards `start.prepared`. Fails if they do, if ours
    were not there (fewer locks `taken` than that), or what is done became much less."""
    program = pathlib.Path(sys.argv[0]).name
    flags = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--seconds", type=float, default=3, help="of each load, where that can be said")
    flags.add_argument("--load", action="append", choices=loads, help="only this")
    flags.add_argument("--floor", type=float, default=0.8, help="the least share of what is done with glibc's locks")
    flags.add_argument("--figures", type=pathlib.Path, help="a line of JSON for each round is added to this file")
    asked = flags.parse_args()
    for needed in FAIRLOCK, LIBRARY:
        if not os.path.exists(needed):
            sys.exit(f"{program}: no {needed}: cargo build --release -p fairlock-cli -p fairlock-preload")
    install(packages)
    leave_nothing_running()
    with tempfile.TemporaryDirectory() as prepared:
        try:
            if prepare:
                prepare(Start("glibc", prepared, None, asked.seconds))
            compare(program, asked, asked.load or loads, work, pathlib.Path(prepared), taken)
        except Failed as failure:
            sys.exit(f"{program}: {failure}")
