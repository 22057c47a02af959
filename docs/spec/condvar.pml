/* The condition variable whose waiters go on to the mutex's queue: crates/fairlock/src/condvar, and thin/mutex/seat.rs.
 * Run by .ci/spec; read README.md first.
 *
 * One step here is one atomic operation, or all that a thread does under the lock of a queue. Threads 0 to WAITERS - 1
 * wait for `data`; one thread more sets it and notifies, one or all, with the mutex or without. Thread 0 never gives
 * up; the others may at any time, if GIVE_UP is 1: by a timeout, a cancel or a signal, which are the same here.
 *
 * The mutex is what tenure.pml shows: whoever is first in its queue takes it. For liveness (LIVE) that one is overtaken
 * once at most.
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
/* Whether one is notified, or all. */
#ifndef ALL
#define ALL 0
#endif
#define N (WAITERS + 1)
#define gives_up (GIVE_UP && me > 0 && me < WAITERS)

/* A waiter's states: `condvar/waiters.rs`. */
#define WAITING 0
#define NOTIFIED 1
#define WOKEN 2

/* The mutex: `inflated` while it has a queue. */
bool held, wake_next, inflated;
byte mutex_queue[N], queued, pins;
#ifdef LIVE
bool overtaken;
#else
#define overtaken false
#endif

/* The condition variable: what its queue lock guards. */
byte queue[N], waiting;
/* Those that were notified together and are to be woken by each other: `Notified` of the thread that notifies. */
byte list[N], listed;

/* A waiter's frame, and its thread's parker. */
byte state[N];
bool seat[N], is_listed[N], token[N];

bool data;              /* set by who notifies, as it takes the mutex */
/* Only for the properties. */
byte inside, gone;
bool given[N];          /* notified, and has not returned */
bool frame[N];          /* its wait has not returned */
bool waits[N];          /* from the wait's begin until it has the mutex again */

/* Takes the first one out. */
#define shift(array, length) \
    k = 0; do :: k + 1 < length -> array[k] = array[k + 1]; k++ :: else -> break od; \
    length--; array[length] = 0; k = 0

/* ---- the mutex ---- */

inline has() {
    held = true; inside++; assert(inside == 1); token[me] = false;
    if :: me == WAITERS -> data = true :: else fi
}

/* `ThinMutex::try_lock`, and what `lock` does at first. */
inline take_past_queue() {
    atomic { !held && (queued == 0 || !overtaken) ->
        has();
#ifdef LIVE
        overtaken = (queued > 0)
#endif
    }
}

/* Under the mutex's queue lock. */
inline push(who) { mutex_queue[queued] = who; queued++ }

/* `Turns::wait_queued`: the thread is queued, or another is about to queue it. */
inline wait_queued() {
    do
    :: atomic { queued > 0 && mutex_queue[0] == me && !held ->
        has(); shift(mutex_queue, queued); wake_next = (queued > 0);
#ifdef LIVE
        overtaken = false
#endif
        }; break
    :: d_step { queued > 0 && mutex_queue[0] == me && held -> wake_next = true };
        d_step { token[me] -> token[me] = false }
    :: d_step { (queued == 0 || mutex_queue[0] != me) && token[me] -> token[me] = false }
    od
}

inline lock() {
    if
    :: take_past_queue()
    :: d_step { held || queued > 0 -> inflated = true; push(me) }; wait_queued()
    fi
}

inline unlock() {
    do
    :: atomic { !wake_next -> held = false; inside--;
        /* `Inflates::deflate`: nobody is queued, nor has pinned the slot. */
        if :: queued == 0 && pins == 0 -> inflated = false :: true fi }; break
    :: d_step { wake_next -> wake_next = false; call = queued > 0; whom = mutex_queue[0] }
    od;
    if :: call -> token[whom] = true :: else fi;
    call = false; whom = 0
}

/* ---- who notifies ---- */

/* Under the condition variable's queue lock: `take_first`. */
inline take_first() {
    if
    :: MUTANT == 11 -> waiting--; whom = queue[waiting]; queue[waiting] = 0
    :: else -> whom = queue[0]; shift(queue, waiting)
    fi;
    if :: MUTANT == 8 :: else -> state[whom] = NOTIFIED fi;
    assert(frame[whom] && !given[whom]);        /* none is given to two, nor one to one that has returned */
    given[whom] = true
}

/* `Notice::wake` */
inline wake(who) {
    d_step { assert(frame[who]); if :: MUTANT == 9 -> token[who] = true :: else -> state[who] = WOKEN fi };
    d_step { if :: MUTANT == 9 -> state[who] = WOKEN :: else -> token[who] = true fi }
}

/* `Waiter::wake`: to the mutex's queue, or awake. */
inline wake_or_seat() {
    atomic { assert(frame[whom]);
        if              /* `ThinMutex::seat`: if it seems to be asleep */
        :: inflated && held -> seats = true; if :: MUTANT != 5 -> pins++ :: else fi
        :: true
        fi };
    if
    :: seats ->
        d_step { assert(frame[whom]); seat[whom] = true; state[whom] = WOKEN };
        /* `queue_sleeping_writer`, and `ask_for` if it is next: sees the mutex held in the step that asks. */
        atomic { assert(frame[whom] && inflated); push(whom);
            if
            :: mutex_queue[0] != whom || MUTANT == 7 || MUTANT == 6
            :: else -> if :: held -> wake_next = true :: else -> call = true fi
            fi };
        if
        :: MUTANT == 6 && held -> if :: mutex_queue[0] == whom -> wake_next = true :: else fi
        :: MUTANT == 6 && !held -> call = true
        :: else
        fi;
        d_step { if :: call -> token[whom] = true :: else fi; call = false }
    :: else -> wake(whom)
    fi;
    d_step { seats = false; whom = 0 }
}

#if !ALL
inline notify() {       /* `notify_one` */
    if
    :: waiting == 0     /* `has_waiters` */
    :: waiting > 0 ->
        d_step { if :: waiting > 0 -> take_first(); call = true :: else fi };
        if :: call -> call = false; wake_or_seat() :: else fi
    fi
}

#else
inline notify() {       /* `notify_all` */
    if
    :: waiting == 0
    :: waiting > 0 ->
        d_step { some = waiting;
            do :: waiting > 0 -> take_first(); all[count] = whom; count++ :: else -> break od;
            if :: some == 1 -> whom = all[0]; count = 0 :: else -> whom = 0 fi };
        if
        :: some == 1 -> wake_or_seat()
        :: some > 1 ->
            /* `Batch::wake`: leaves all but the first to those that are woken, before it wakes that one. */
            if :: MUTANT == 4 -> wake(all[0]) :: else fi;
            d_step { before = listed; k = 0;
                do :: k < before -> left[k] = list[k]; k++ :: else -> break od;
                k = 1; listed = 0; is_listed[all[0]] = true;
                do :: k < count -> list[listed] = all[k]; is_listed[all[k]] = true; listed++; k++ :: else -> break od;
                k = 0 };
            do :: before > 0 -> before--; wake(left[before]); left[before] = 0 :: else -> break od;
            if :: MUTANT != 4 -> wake(all[0]) :: else fi;
            d_step { do :: count > 0 -> count--; all[count] = 0 :: else -> break od; k = 0 }
        :: else
        fi;
        some = 0
    fi
}
#endif

/* ---- who waits ---- */

/* `Notified::wake_next`; more than one where there is time is only quicker. */
inline wake_next_listed() {
    d_step { if :: listed > 0 && MUTANT != 3 -> whom = list[0]; shift(list, listed); call = true :: else fi };
    if :: call -> call = false; wake(whom); whom = 0 :: else fi
}

inline enqueue() {
    d_step { queue[waiting] = me; waiting++; state[me] = WAITING; frame[me] = true; waits[me] = true }
}

/* `wait_within`: `gave_up` says how it ended. */
inline wait() {
    gave_up = false; ended = false;
    if :: MUTANT != 1 -> enqueue() :: else fi;
    unlock();
    if :: MUTANT == 1 -> enqueue() :: else fi;
    do
    :: state[me] == WOKEN -> break
    :: ended ->         /* `give_up`: what ends the wait after a notification comes too late */
        d_step { ended = false;
            if
            :: state[me] == WAITING || MUTANT == 2 ->
                assert(!given[me]);
                k = 0; do :: queue[k] != me -> k++ :: else -> break od;
                do :: k + 1 < waiting -> queue[k] = queue[k + 1]; k++ :: else -> break od;
                waiting--; queue[waiting] = 0; k = 0; gave_up = true
            :: else
            fi };
        if :: gave_up -> break :: else fi
    :: !ended && state[me] != WOKEN ->
        may_end = (state[me] == WAITING && gives_up);
endsleep:
        if      /* the monitor says who may sleep for ever */
        :: d_step { token[me] -> token[me] = false }
        :: may_end -> ended = true
        fi;
        may_end = false
    od;
    if
    :: gave_up -> lock()
    :: !gave_up && seat[me] && MUTANT != 10 ->
        wait_queued();
        atomic { pins = pins - (MUTANT != 5); seat[me] = false }
    :: else ->          /* `lock_again` */
        if :: is_listed[me] && !held -> is_listed[me] = false; wake_next_listed() :: else fi;
        if
        :: take_past_queue(); if :: is_listed[me] -> is_listed[me] = false; wake_next_listed() :: else fi
        :: if :: is_listed[me] -> is_listed[me] = false; wake_next_listed() :: else fi; lock()
        fi
    fi;
    atomic { if :: MUTANT == 10 && seat[me] -> pins-- :: else fi;
        assert(given[me] == !gave_up); given[me] = false; frame[me] = false; waits[me] = false;
        state[me] = WAITING; seat[me] = false }
}

proctype waiter(byte me) {
    byte k, whom;
    bool call, ended, may_end, gave_up;
    do
    :: break
    :: lock();
        do
        :: atomic { data || gave_up -> data = false }; break
        :: !data && !gave_up -> wait()
        od;
        gave_up = false;
        unlock()
    od;
    gone++
}

proctype notifier(byte me) {
    byte k, whom, some, count, before, all[N], left[N];
    bool call, seats;
    do
#ifndef LIVE
    :: break
#endif
    :: lock();
        if
        :: notify(); unlock()
        :: unlock(); notify()
        fi
    od;
    gone++
}

/* If nobody can move: who sleeps was not notified, and has nothing to be notified of. */
#ifndef LIVE
active proctype monitor() {
    timeout -> assert(gone + waiting == N && !held && queued == 0 && pins == 0 && listed == 0 && (!data || waiting == 0))
}
#endif

init {
    byte i;
    atomic {
        do :: i < WAITERS -> run waiter(i); i++ :: else -> break od;
        run notifier(WAITERS)
    }
}

#ifdef LIVE
ltl served { [] (waits[0] -> <> !waits[0]) }
#endif
