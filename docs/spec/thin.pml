/* Thin locks and their pool: crates/fairlock/src/thin (inflate.rs, word.rs, rwsem). Run by .ci/spec; read
 * README.md first.
 *
 * One step here is one atomic operation. LOCKS locks share SLOTS full ones; THREADS threads read, write and try any lock
 * again and again; with TRIM the last one only trims. A full lock is what tenure.pml shows: here it has a count of
 * readers, a writer, and the flag WAKE_NEXT that those who leave look at.
 */
#ifndef LOCKS
#define LOCKS 1
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef THREADS
#define THREADS 2
#endif
#ifndef TRIM
#define TRIM 0
#endif
/* Whether there are readers. */
#ifndef READS
#define READS 1
#endif
/* Whether locks become full with nobody inside, too. */
#ifndef LOOKS
#define LOOKS 0
#endif
/* How often a full lock becomes visible. */
#ifndef SHOWS
#define SHOWS 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

/* A lock's word: a count of readers; or a writer; or the name of a slot; or that and a name for readers, used once. */
#define FREE 0
#define WRITTEN 10
#define NAMES 20
byte word[LOCKS];
#define SHOWN 30
#define is_inflated(w) (w >= NAMES && w < SHOWN)
#define is_visible(w) (w >= SHOWN)
#define slot_of(w) ((w - SHOWN) % SLOTS)
/* The records: which name a thread shows, and whether its reader was moved into the count. */
byte shown[THREADS], shows;
bool moved[THREADS];
/* More than there are readers. */
#define HELD 8

/* A slot: its full lock, who has pinned it, and who is about to take it from its lock. */
bool sealed[SLOTS], writer[SLOTS], wake_next[SLOTS];
byte readers[SLOTS], waiters[SLOTS], pins[SLOTS], closed[SLOTS];
#define BY_NONE 1
#define BY_READER 2
#define BY_WRITER 3
bool pooled[SLOTS];
/* The seal is that of who has closed the slot in this way: a reader that leaves is counted, who trims is not. */
#define is_sealed_by(s, how) (sealed[s] && (how != BY_NONE || readers[s] == 0 || MUTANT == 10))
#define is_free(s) (!writer[s] && readers[s] == 0)

/* Only for the properties. */
byte in_readers[LOCKS], in_writers[LOCKS], gone;

inline come_in() {
    if :: writes -> in_writers[l]++ :: else -> in_readers[l]++ fi;
    assert(in_writers[l] == 0 || (in_writers[l] == 1 && in_readers[l] == 0))
}
inline go_out() { if :: writes -> in_writers[l]-- :: else -> in_readers[l]-- fi }

/* ---- the full lock ---- */

/* `unlock_write`, `unlock_read`: who leaves it free wakes who asked for that. */
inline release(s, as_writer) {
    atomic {
        if :: as_writer -> writer[s] = false :: else -> readers[s]-- fi;
        if :: is_free(s) -> wake_next[s] = false :: else fi }
}

/* `AtomicWord::unseal` */
inline unseal(s) {
    atomic {
        if
        :: sealed[s] -> sealed[s] = false; writer[s] = false    /* wakes nobody */
        :: else
        fi }
}

/* `take_asleep`: sees the lock taken in the step that asks for a wake-up; `wake_next` is its sleep. */
inline wait_full(s) {
    waiters[s]++;
    do
    :: atomic { is_free(s) || (!writes && !writer[s]) ->
        /* nobody waits at another lock; a reader may be in by now */
        assert(word[l] == NAMES + s || (!writes && is_visible(word[l]) && slot_of(word[l]) == s));
        if :: writes -> writer[s] = true :: else -> readers[s]++ fi;
        waiters[s]--; come_in(); got = true }; break
    :: atomic { !is_free(s) && (writes || writer[s]) -> wake_next[s] = true };
        !wake_next[s]
    od
}

/* ---- visible readers ---- */

/* `revoke`, of the lock, which had the word `w`. Marking is one step here: that it is, visible.rs and its models show. */
inline revoke() {
    v = slot_of(w);
    if
    :: atomic { word[l] == w -> word[l] = NAMES + v; left = true }
    :: atomic { word[l] != w -> left = false }
    fi;
    do
    :: left && n < THREADS ->
        atomic { if :: shown[n] == w && !moved[n] -> moved[n] = true; m++ :: else fi; n++ }
    :: left && n == THREADS ->
        atomic { readers[v] = readers[v] - (HELD - m); if :: is_free(v) -> wake_next[v] = false :: else fi };
        left = false
    :: !left -> break
    od;
    atomic { n = 0; m = 0; v = 0 }
}

/* `show_full`, by a reader inside, of the lock, which had the word `w`. */
inline show_full() {
    s = w - NAMES;
    if
    :: pins[s] == 0 && shows < SHOWS ->
        if :: MUTANT != 12 -> readers[s] = readers[s] + HELD :: else fi;
        if
        :: atomic { word[l] == w -> w = SHOWN + shows * SLOTS + s; word[l] = w; shows++ };
            if :: pins[s] != 0 && MUTANT != 11 -> revoke() :: else fi
        :: atomic { word[l] != w && MUTANT != 12 -> readers[s] = readers[s] - HELD }
        fi
    :: else
    fi
}

/* `enter_visible`. A slot in use that was moved is free. */
inline enter_visible() {
    if
    :: writes -> revoke()
    :: !writes ->
        atomic { if :: moved[me] -> moved[me] = false; shown[me] = 0 :: else fi };
        s = slot_of(w);
        if
        :: shown[me] == 0 -> shown[me] = w;
            if
            :: atomic { word[l] == w || MUTANT == 13 -> got = true; come_in() }
            :: atomic { word[l] != w && MUTANT != 13 -> shown[me] = 0;
                if :: moved[me] -> moved[me] = false; got = true; come_in() :: else fi }
            fi
        :: true -> readers[s]++;        /* `count_beside` */
            if
            :: atomic { word[l] == w -> got = true; come_in() }
            :: atomic { word[l] != w -> release(s, false) }
            fi
        fi
    fi
}

/* `hide`, or by the count of the full lock. */
inline leave_visible() {
    s = slot_of(w);
    if
    :: atomic { shown[me] == w -> shown[me] = 0; was_moved = moved[me]; moved[me] = false };
        if :: !was_moved -> kept = false :: else fi; was_moved = false
    :: shown[me] != w -> release(s, false); kept = false
    fi
}

/* ---- thin to full ---- */

/* `Slots::take_sealed`, `inflate`: on return the lock is inflated, or the thread found no slot. (The pool grows.) */
inline inflate() {
    if
    :: atomic { pooled[0] -> s = 0; pooled[0] = false; found = true }
#if SLOTS > 1
    :: atomic { pooled[1] -> s = 1; pooled[1] = false; found = true }
#endif
#if SLOTS > 2
    :: atomic { pooled[2] -> s = 2; pooled[2] = false; found = true }
#endif
    :: true
    fi;
    if
    :: found && pins[s] != 0 && MUTANT != 4 -> pooled[s] = true; found = false    /* not one that is pinned */
    :: else
    fi;
    do
    :: found && w < NAMES ->
        /* `adopt` */
        atomic { assert(sealed[s] && writer[s] && waiters[s] == 0);
            if :: w == WRITTEN -> sealed[s] = false :: else -> readers[s] = readers[s] + w fi };
        if
        :: atomic { word[l] == w -> word[l] = NAMES + s; w = NAMES + s; found = false }; break
        :: atomic { word[l] != w ->         /* `disown` */
            if :: w == WRITTEN -> sealed[s] = true :: else -> readers[s] = readers[s] - w fi; w = word[l] }
        fi
    :: found && w >= NAMES -> pooled[s] = true; found = false; break
    :: !found -> break
    od
}

/* ---- in ---- */

/* A slot of the lock, which had the word `w`, is closed: makes the lock thin in place of who closed it. */
inline finish() {
    if
    :: MUTANT == 5 || by == BY_WRITER || is_sealed_by(s, by) ->
        /* In this order: the seal may be another thread's, that came after the slot was opened again. */
        if :: by == BY_WRITER || MUTANT == 9 || closed[s] != 0 :: else -> w = FREE fi;
        atomic { if :: w != FREE && word[l] == w -> word[l] = (by == BY_NONE -> FREE : (by == BY_READER -> 1 : WRITTEN)) :: else fi }
    :: else
    fi
}

/* `on_full`, `open`: pins the slot that `w` names, and unseals it. Then waits, or not. */
inline on_full(waits) {
    s = w - NAMES;
    d_step { pins[s] = pins[s] + (MUTANT != 2); by = closed[s] };
    if
    :: by != 0 -> finish()
    :: by == 0 && (word[l] == w || MUTANT == 3) ->
        unseal(s);
        if :: waits -> wait_full(s) :: else fi
    :: else
    fi;
    atomic { pins[s] = pins[s] - (MUTANT != 2); by = 0 }
}

/* One attempt at the full lock: a writer by an exchange, a reader by adding itself. */
inline attempt_full() {
    s = w - NAMES;
    atomic { seen = sealed[s];
        if
        :: writes && is_free(s) -> writer[s] = true; got = true
        :: !writes -> got = !writer[s]; readers[s]++; left = !got
        :: else
        fi };
    if :: left -> release(s, false); left = false :: else fi;
    if
    :: got ->
        if      /* verifies */
        :: atomic { word[l] == w || MUTANT == 6 -> come_in() }
        :: atomic { word[l] != w && MUTANT != 6 -> got = false }; release(s, writes)
        fi
    :: else
    fi
}

inline enter() {
    do
    :: got || quits -> break
    :: !got && !quits ->
        w = word[l];
        if
        :: is_visible(w) -> enter_visible()
        :: w < NAMES && (w == FREE || (!writes && w != WRITTEN)) ->
            atomic { if :: word[l] == w -> word[l] = (writes -> WRITTEN : w + 1); got = true; come_in() :: else fi }
        :: w < NAMES && w != FREE && (writes || w == WRITTEN) ->
            if
            :: quits = true
            :: inflate(); if :: is_inflated(w) -> on_full(true) :: else fi
            fi
        :: is_inflated(w) ->
            attempt_full();
            if
            :: got
            :: !got && seen -> on_full(false)
            :: !got && !seen ->
                if
                :: word[l] != w
                :: word[l] == w -> if :: quits = true :: on_full(true) fi
                fi
            fi;
            seen = false
        fi
    od
}

/* ---- out ---- */

inline seal_free() {
    atomic { seen = is_free(s) && waiters[s] == 0;
        if :: seen -> sealed[s] = true; writer[s] = true :: else fi }
}

/* `deflate`, of the slot `s`, which `w` named and the caller holds in this way; `kept`: it still does. */
inline deflate(how) {
    kept = true;
    atomic { closes = (pins[s] == (how == BY_NONE -> 1 : 0) || MUTANT == 7) && closed[s] == 0;
        if :: closes -> closed[s] = how :: else fi };
    if
    :: !closes -> unseal(s)
    :: closes ->
        if
        :: how == BY_WRITER
        :: how == BY_NONE && MUTANT != 1 -> seal_free()     /* only now, as it is not counted */
        :: how == BY_READER || MUTANT == 1 -> seen = sealed[s]
        fi;
        if :: how != BY_WRITER && !seen -> closed[s] = 0; closes = false :: else fi
    fi;
    if
    :: closes ->
        if
        :: atomic { word[l] == w -> word[l] = FREE }
        :: atomic { word[l] != w ->     /* somebody has finished it: leaves the thin lock, or the next full one */
            if
            :: how == BY_NONE
            :: how != BY_NONE && word[l] < NAMES ->
                word[l] = (word[l] == WRITTEN -> FREE : word[l] - 1)
            :: how != BY_NONE && is_inflated(word[l]) -> v = word[l] - NAMES;
                if :: how == BY_WRITER -> writer[v] = false :: else -> readers[v]-- fi;
                if :: is_free(v) -> wake_next[v] = false :: else fi; v = 0
            fi }
        fi;
        if
        :: how == BY_WRITER && MUTANT != 8 -> sealed[s] = true
        :: how == BY_READER -> readers[s]--
        :: else
        fi;
        closed[s] = 0;
        atomic { assert(sealed[s] && writer[s] && !pooled[s] && waiters[s] == 0); pooled[s] = true };
        kept = false; closes = false
    :: else
    fi
}

inline leave() {
    go_out();
    kept = true;
    do
    :: !kept -> break
    :: kept ->
        w = word[l];
        if
        :: w < NAMES ->
            atomic { if :: word[l] == w -> word[l] = (writes -> FREE : w - 1); kept = false :: else fi }
        :: is_visible(w) -> leave_visible()
        :: is_inflated(w) && !writes && shows < SHOWS -> show_full()
        :: is_inflated(w) ->
            s = w - NAMES;
            if          /* `is_uncontended` says which */
            :: writes -> deflate(BY_WRITER)
            :: !writes && readers[s] == 1 ->
                atomic { seen = readers[s] == 1 && !writer[s] && waiters[s] == 0;   /* `seal_alone` */
                    if :: seen -> sealed[s] = true; writer[s] = true :: else fi };
                if :: seen -> deflate(BY_READER) :: else fi;
                seen = false
            :: true
            fi;
            if :: kept -> release(s, writes); kept = false :: else fi
        fi
    od
}

inline trim() {
    w = word[l];
    if
    :: is_inflated(w) ->
        s = w - NAMES;
        d_step { pins[s]++; by = closed[s] };
        if
        :: by == 0 && word[l] == w ->
            unseal(s);
            if :: MUTANT == 1 -> seal_free() :: else -> seen = true fi;
            if :: seen -> deflate(BY_NONE) :: else fi;
            seen = false; kept = false
        :: else
        fi;
        atomic { pins[s]--; by = 0 }
    :: else
    fi
}

proctype thread(byte me) {
    byte l, s, v, w, by, n, m;
    bool writes, got, quits, found, seen, left, closes, kept, was_moved;
    do
    :: break
    :: me < THREADS - TRIM ->
        if :: l = 0 :: LOCKS > 1 -> l = LOCKS - 1 fi;
        if :: writes = true :: READS -> writes = false fi;
        enter();
        if :: got -> leave() :: else fi;
        atomic { got = false; quits = false; writes = false; l = 0; s = 0; w = 0 }
    :: LOOKS -> /* `planned_wait_ns` and others: gives the lock a full one to look at */
        if :: l = 0 :: LOCKS > 1 -> l = LOCKS - 1 fi;
        w = word[l];
        if :: is_visible(w) -> revoke(); w = word[l] :: else fi;
        if :: w < NAMES -> inflate() :: else fi;
        if :: is_inflated(w) -> on_full(false) :: else fi;
        atomic { l = 0; s = 0; w = 0 }
    :: me >= THREADS - TRIM ->
        if :: l = 0 :: LOCKS > 1 -> l = LOCKS - 1 fi;
        trim();
        atomic { l = 0; s = 0; w = 0 }
    od;
    gone++
}

/* When all have gone, each slot is named by one lock, or in the pool: sealed, and with nobody inside. */
active proctype monitor() {
    byte s, named, visible;
    gone == THREADS;
    do
    :: s < SLOTS ->
        visible = (is_visible(word[0]) && slot_of(word[0]) == s);
        named = (word[0] == NAMES + s);
        if
        :: LOCKS > 1 ->
            visible = visible + (is_visible(word[LOCKS - 1]) && slot_of(word[LOCKS - 1]) == s);
            named = named + (word[LOCKS - 1] == NAMES + s)
        :: else
        fi;
        named = named + visible;
        assert(named + pooled[s] == 1 && readers[s] == visible * HELD && pins[s] == 0 && closed[s] == 0 && sealed[s] == writer[s]);
        assert(!pooled[s] || sealed[s]);
        s++
    :: else -> break
    od
}

init {
    byte i;
    atomic {
        do :: i < SLOTS -> sealed[i] = true; writer[i] = true; pooled[i] = true; i++ :: else -> break od;
        i = 0;
        do :: i < THREADS -> run thread(i); i++ :: else -> break od
    }
}
