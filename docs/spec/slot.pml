/* Locks and their slots: crates/fairlock/src/lock/slot.rs, raw.rs. Run by .ci/spec; read README.md first.
 *
 * PLACES places in memory have a lock or none; SLOTS slots are shared. Threads take any lock to write, again and again,
 * give names back, free locks, make new ones, and move those that nobody uses. One step here is one atomic
 * operation on a word, or what a thread does under a queue lock between two of those. The queue is the simplest: first
 * come, first next. lock.pml has the true one.
 */
#ifndef PLACES
#define PLACES 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef THREADS
#define THREADS 3
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif
/* Whether locks are moved. */
#ifndef MOVES
#define MOVES 0
#endif
/* The mistake on purpose that is made, of:
 *   1  a thread that has the queue lock does not look whether the lock has that slot still (R3)
 *   2  a name is dropped although somebody waits (R6)
 *   3  a thread that has left does not look whether the slot is that lock's, and somebody queued (R4)
 *   4  a thread that has left clears WAKE_NEXT before it has the queue lock
 *   5  a thread that has left looks only whether the slot is that lock's: it may have been moved
 *   6  a lock that was moved does not tell its slot
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define NONE THREADS

/* The memory of a lock, its word, and how many threads are inside a method of it that still may touch it. */
bool exists[PLACES], held[PLACES], waiters[PLACES], wake_next[PLACES];
byte name[PLACES];              /* a slot and one, or zero */
byte uses[PLACES];

/* Slots, by name; zero is none. */
bool in_pool[SLOTS + 1], locked[SLOTS + 1];
byte lock_of[SLOTS + 1];        /* a place and one, or zero */
typedef Queue { byte length; byte who[THREADS] };
Queue queue[SLOTS + 1];
bool token[THREADS];

#define next(s) (queue[s].length > 0 -> queue[s].who[0] : NONE)
/* Each look at a word, and each change. */
#define touch(l) assert(exists[l])

inline lock_slot(s) { atomic { !locked[s] -> locked[s] = true } }

inline leave_queue() {
    d_step {
        k = 0;
        do :: queue[n].who[k] != me -> k++ :: else -> break od;
        do
        :: k + 1 < queue[n].length -> queue[n].who[k] = queue[n].who[k + 1]; k++
        :: else -> break
        od;
        queue[n].length--; queue[n].who[queue[n].length] = 0; k = 0
    }
}

/* Takes the queue lock of the slot that the lock has, as `n`; zero: it has none (R3). */
inline lock_queue() {
    do
    :: d_step { touch(l); n = name[l] };
        if
        :: n == 0 -> break
        :: else ->
            lock_slot(n);
            if
            :: atomic { name[l] == n || MUTANT == 1 ->
                touch(l);
                assert(lock_of[n] == l + 1 || queue[n].length == 0);    /* two locks have one slot */
                if :: MUTANT != 6 -> lock_of[n] = l + 1 :: else fi };
                break
            :: else -> locked[n] = false
            fi
        fi
    od
}

/* A holder: the lock has no slot from here on, unless somebody waits (R6). */
inline drop_name() {
    lock_queue();
    if
    :: n != 0 ->
        d_step { touch(l);
            if
            :: name[l] == n && (!waiters[l] || MUTANT == 2) -> name[l] = 0; lock_of[n] = 0; call = true
            :: else
            fi };
        d_step { locked[n] = false; if :: call -> in_pool[n] = true :: else fi; call = false; n = 0 }
    :: else
    fi
}

/* Queues, or takes the lock; or finds it changed. */
inline arrive() {
    if
    :: atomic { !held[l] && !waiters[l] -> touch(l); held[l] = true; got = true }
    :: atomic { true -> touch(l);
        if
        :: name[l] == 0 || name[l] == n ->
            name[l] = n; waiters[l] = true;
            queue[n].who[queue[n].length] = me; queue[n].length++; token[me] = false; queued = true
        :: else
        fi }
    fi
}

inline wait() {
    do
    :: got || queued -> break
    :: else ->
        lock_queue();
        if
        :: n != 0 -> arrive(); locked[n] = false
        :: else ->  /* a fresh one, which goes back if it was not used */
            if
            :: atomic { in_pool[1] -> n = 1; in_pool[1] = false }
            :: atomic { SLOTS > 1 && !in_pool[1] && in_pool[SLOTS] -> n = SLOTS; in_pool[SLOTS] = false }
            :: atomic { !in_pool[1] && !in_pool[SLOTS] -> goto turned_away }     /* the code makes more */
            fi;
            lock_slot(n);
            lock_of[n] = l + 1;
            arrive();
            if
            :: name[l] == n -> locked[n] = false
            :: else -> lock_of[n] = 0; d_step { locked[n] = false; in_pool[n] = true }
            fi
        fi
    od;
    /* Queued: `n` stays the lock's slot. */
    do
    :: got || !queued -> break
    :: else ->
        if
        :: next(n) == me ->
            d_step { touch(l); wake_next[l] = true; seen = held[l] };
            if
            :: !seen
            :: seen -> if :: atomic { token[me] -> token[me] = false } :: GIVE_UP && me != 0 -> gives_up = true fi
            fi
        :: next(n) != me -> if :: atomic { token[me] -> token[me] = false } :: GIVE_UP && me != 0 -> gives_up = true fi
        fi;
        lock_slot(n);
        d_step {
            touch(l);
            assert(name[l] == n);
            if
            :: next(n) == me && !held[l] -> held[l] = true; got = true
            :: else
            fi;
            if
            :: got || gives_up ->
                first = (next(n) == me);
                leave_queue(); queued = false;
                if
                :: queue[n].length == 0 -> waiters[l] = false; wake_next[l] = false
                :: else -> if :: first -> wake_next[l] = false; token[next(n)] = true :: else fi
                fi
            :: else
            fi;
            seen = false; gives_up = false; first = false
        };
        locked[n] = false
    od
}

proctype thread(byte me) {
    byte l, n, k;
    bool got, queued, seen, gives_up, first, call;
idle:
end:
    if
    :: goto gone
    :: l = 0
    :: PLACES > 1 -> l = PLACES - 1
    fi;
    if
    :: atomic { !exists[l] -> exists[l] = true; goto idle }     /* makes one */
#if MOVES
    :: atomic { exists[l] && uses[l] == 0 && !exists[PLACES - 1 - l] ->
        k = PLACES - 1 - l;
        exists[k] = true; held[k] = held[l]; name[k] = name[l];
        exists[l] = false; held[l] = false; name[l] = 0; k = 0; goto idle }
#endif
    :: atomic { exists[l] -> uses[l]++ }
    fi;
    /* takes it */
    if
    :: atomic { !held[l] -> touch(l); held[l] = true; got = true; seen = !waiters[l] && name[l] != 0 };
        if
        :: seen -> drop_name()
        :: true
        fi;
        seen = false
    :: wait()
    fi;
    if
    :: got
    :: else ->
turned_away:
        skip;
        d_step { uses[l]--; n = 0; l = 0 }
        goto idle
    fi;
    assert(held[l]);
    n = 0;
    if
    :: atomic { uses[l] == 1 -> /* frees it */
        uses[l] = 0; exists[l] = false; held[l] = false; assert(!waiters[l] && !wake_next[l]);
        n = name[l]; name[l] = 0 };
        if
        :: n != 0 -> lock_slot(n); lock_of[n] = 0; d_step { locked[n] = false; in_pool[n] = true }
        :: else
        fi
    :: d_step { touch(l); assert(held[l]); held[l] = false; uses[l]--; n = name[l]; call = wake_next[l] };
        /* The lock may be gone from here on (R5). */
        if
        :: call && n != 0 ->
#if MUTANT == 4
            d_step { touch(l); call = wake_next[l]; wake_next[l] = false };
#endif
            lock_slot(n);
            if
            :: MUTANT == 3 || (lock_of[n] == l + 1 && (queue[n].length > 0 || MUTANT == 5)) ->
#if MUTANT != 4
                d_step { touch(l); call = wake_next[l]; wake_next[l] = false };
#endif
                if :: call && next(n) != NONE -> token[next(n)] = true :: else fi
            :: else
            fi;
            locked[n] = false
        :: else
        fi
    fi;
    d_step { got = false; call = false; n = 0; l = 0 }
    goto idle;
gone:
    skip
}

/* When nobody can move: each slot is in the pool, or one lock has it. */
proctype monitor() {
    byte s, l, names;
end:
    timeout ->
    d_step {
        s = 1;
        do
        :: s <= SLOTS ->
            names = in_pool[s]; l = 0;
            do :: l < PLACES -> if :: name[l] == s -> names++ :: else fi; l++ :: else -> break od;
            assert(names == 1 && !locked[s] && (!in_pool[s] || lock_of[s] == 0));
            s++
        :: else -> break
        od
    }
}

init {
    byte i;
    atomic {
        i = 1;
        do :: i <= SLOTS -> in_pool[i] = true; i++ :: else -> break od;
        i = 0;
        do :: i < THREADS -> run thread(i); i++ :: else -> break od;
        run monitor()
    }
}
