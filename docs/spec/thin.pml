/* Thin locks and their pool: crates/fairlock/src/thin (inflate.rs, word.rs, rwsem). Run by .ci/spec; read
 * README.md first.
 *
 * One step here is one atomic operation. LOCKS locks share SLOTS full ones; THREADS threads read, write and try any lock
 * again and again; with TRIM the last one only trims. A full lock is what tenure.pml shows: here it has a count of
 * readers, a writer, and the flag WAKE_NEXT that those who leave look at.
 *
 * With TRACE, the model does what a trace of the code says (trace.pml), if it can: threads trim, and visit the first
 * lock as the trace says, and the second one to write.
 */
#ifdef TRACE
#define LOCKS 2
#define SLOTS 10
#define THREADS 8
#define TRIM 8
#define LOOKS 1
#define ALONE
#include "trace.pml"
#define is_about(what) (errand[me] == what)
#define gives_up (may_give_up && l == 0)
#else
#define SEES(kind, flag)
#define free_to_move
#define gives_up true
#endif
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
        if :: is_free(s) -> wake_next[s] = false :: else fi SEES('C', 'x') }
}

/* `AtomicWord::unseal` */
inline unseal(s) {
    atomic {
        if
        :: sealed[s] -> sealed[s] = false; writer[s] = false    /* wakes nobody */
        :: else
        fi SEES('C', 'x') }
}

/* `take_asleep`: comes in, or queues, and then sees the lock taken in the step that asks for a wake-up; `wake_next` is its
 * sleep. */
inline wait_full(s) {
    do
    :: atomic { is_free(s) || (!writes && !writer[s]) ->
        /* nobody waits at another lock; a reader may be in by now */
        assert(word[l] == NAMES + s || (!writes && is_visible(word[l]) && slot_of(word[l]) == s));
        if :: writes -> writer[s] = true :: else -> readers[s]++ fi;
        waiters[s] = waiters[s] - queued; queued = false; come_in(); got = true SEES('C', 'x') }; break
    :: atomic { !queued -> queued = true; waiters[s]++ SEES('C', 'x') }
#ifndef TRACE   /* which is no event */
    :: atomic { queued && !is_free(s) && (writes || writer[s]) -> wake_next[s] = true }; !wake_next[s]
#endif
    :: atomic { gives_up && queued -> queued = false; waiters[s]-- SEES('C', 'x') }     /* and may look again */
    :: gives_up && !queued -> quits = true; break
    od
}

/* ---- visible readers ---- */
#if SHOWS

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
        :: true -> readers[s]++;        /* in the full lock */
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
#endif

/* ---- thin to full ---- */

/* `Slots::take_sealed`, `inflate`: on return the lock is inflated; or the thread was late, and
 * `w` says nothing; or it found no slot. (The pool grows.) */
inline inflate() {
    do
    :: atomic { s = 0;
            do
            :: s < SLOTS && pooled[s] -> pooled[s] = false; found = true; break
            :: s < SLOTS -> s++
#ifndef TRACE   /* where the pool grows */
            :: s == SLOTS -> s = 0; break
#endif
            od SEES('C', 'x') };
        if
        :: !found || pins[s] == 0 || MUTANT == 4 -> break
        :: found && pins[s] != 0 && MUTANT != 4 -> aside = 16 * aside + s + 1; found = false    /* not one that is pinned */
        fi
    od;
    do
    :: atomic { aside != 0 -> m = aside % 16 - 1; aside = aside / 16; pooled[m] = true; m = 0 SEES('C', 'x') }
    :: aside == 0 -> break
    od;
    do
    :: found && w < NAMES ->
        /* `adopt` */
        atomic { assert(sealed[s] && writer[s] && waiters[s] == 0);
            if :: w == WRITTEN -> sealed[s] = false :: else -> readers[s] = readers[s] + w fi SEES('C', 'x') };
        if
        :: atomic { word[l] == w -> word[l] = NAMES + s; w = NAMES + s; found = false SEES('C', 'x') }; break
        :: atomic { word[l] != w -> v = word[l] };
            atomic {    /* `disown` */
                if :: w == WRITTEN -> sealed[s] = true :: else -> readers[s] = readers[s] - w fi; w = v; v = 0 SEES('C', 'x') }
        fi
    :: found && w >= NAMES -> atomic { pooled[s] = true; found = false; w = FREE SEES('C', 'x') }; break
#ifndef TRACE
    :: !found -> break
#endif
    od
}

/* ---- in ---- */

/* A slot of the lock, which had the word `w`, is closed: makes the lock thin in place of who closed it. */
inline finish() {
    if
    :: MUTANT == 5 || by == BY_WRITER || is_sealed_by(s, by) ->
        /* In this order: the seal may be another thread's, that came after the slot was opened again. */
        if :: by == BY_WRITER || MUTANT == 9 || closed[s] != 0 :: else -> w = FREE fi;
        atomic { if :: w != FREE && word[l] == w -> word[l] = (by == BY_NONE -> FREE : (by == BY_READER -> 1 : WRITTEN)) :: else fi SEES('C', 'x') }
    :: else
    fi
}

/* `on_full`, `open`: pins the slot that `w` names, and unseals it, which is `seen`. Then waits, or not. */
inline on_full(waits) {
    s = w - NAMES; seen = false;
    d_step { pins[s] = pins[s] + (MUTANT != 2); by = closed[s] SEES('C', 'x') };
    if
    :: by != 0 -> finish()
    :: by == 0 && (word[l] == w || MUTANT == 3) ->
        seen = true; unseal(s);
        if :: waits -> wait_full(s) :: else fi
    :: else
    fi;
    atomic { pins[s] = pins[s] - (MUTANT != 2); by = 0 SEES('C', 'x') }
}

/* Attempts at the full lock: a writer by an exchange, a reader by adding itself. */
inline attempt_full() {
    s = w - NAMES;
    do
    :: atomic { seen = sealed[s];
            if
            :: writes && is_free(s) -> writer[s] = true; got = true
            :: !writes -> readers[s]++; got = !writer[s]; left = !got
            :: !writes -> readers[s]++; left = true         /* it may not be its turn */
            :: true                                         /* only looks */
            fi SEES('C', 'x') };
        if :: left -> release(s, false); left = false :: else fi;
        if :: true -> break :: !got fi         /* looks again, awake */
    od;
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
#if SHOWS
        :: is_visible(w) -> enter_visible()
#endif
        :: w < NAMES && (w == FREE || (!writes && w != WRITTEN)) ->
            if
            :: atomic { if :: word[l] == w -> word[l] = (writes -> WRITTEN : w + 1); got = true; come_in() :: else fi SEES('C', 'x') }
            :: LOOKS -> inflate()       /* too many come at once */
            fi
        :: w < NAMES && w != FREE && (writes || w == WRITTEN) ->
            if
            :: gives_up -> quits = true
            :: true     /* looks again, awake */
            :: inflate(); if :: is_inflated(w) -> on_full(true) :: else fi
            fi
        :: is_inflated(w) && LOOKS -> on_full(true)
        :: is_inflated(w) ->
            attempt_full();
            if
            :: got
            :: !got && seen -> on_full(false)
            :: !got ->
                if
                :: word[l] != w
                :: word[l] == w -> if :: gives_up && !seen -> quits = true :: on_full(true) fi
                fi
            fi
        fi;
        seen = false
    od
}

/* ---- out ---- */

/* Not either while the lock says that a writer waits awake, which is a hint. */
inline seal_free() {
    atomic { seen = is_free(s) && waiters[s] == 0;
        if :: seen -> sealed[s] = true; writer[s] = true :: seen = false fi SEES('C', 'x') }
}

/* `deflate`, of the slot `s`, which `w` named and the caller holds as `how` says; `kept`: it still does. */
inline deflate() {
    kept = true;
    atomic { closes = (pins[s] == (how == BY_NONE -> 1 : 0) || MUTANT == 7) && closed[s] == 0;
        if :: closes -> closed[s] = how :: else fi SEES('C', 'x') };
    if
    :: !closes -> unseal(s)
    :: closes ->
        if
        :: how == BY_WRITER
        :: how == BY_NONE && MUTANT != 1 -> seal_free()     /* only now, as it is not counted */
        :: how == BY_READER || MUTANT == 1 -> seen = sealed[s]
        fi;
        if :: how != BY_WRITER && !seen -> atomic { closed[s] = 0; closes = false SEES('C', 'x') } :: else fi
    fi;
    if
    :: closes ->
        atomic {
            if
            :: word[l] == w -> word[l] = FREE; kept = false
            :: word[l] != w -> kept = (how != BY_NONE); left = kept     /* somebody has finished it: leaves what the lock is now */
            fi SEES('C', 'x') };
        left_slots = 16 * left_slots + s + 1; closes = false
    :: else
    fi
}

/* The slots that the thread has closed, and that no word names now: the last one first. */
inline give_back() {
    do
    :: left_slots != 0 ->
        s = left_slots % 16 - 1; left_slots = left_slots / 16;
        if
        :: atomic { how == BY_WRITER && MUTANT != 8 -> sealed[s] = true SEES('C', 'x') }
        :: atomic { how == BY_READER -> readers[s]-- SEES('C', 'x') }
        :: how == BY_NONE || (how == BY_WRITER && MUTANT == 8)
        fi;
        atomic { closed[s] = 0 SEES('C', 'x') };
        atomic { assert(sealed[s] && writer[s] && !pooled[s] && waiters[s] == 0); pooled[s] = true SEES('C', 'x') }
    :: left_slots == 0 -> break
    od
}

inline leave() {
    atomic { go_out(); kept = true; how = (writes -> BY_WRITER : BY_READER) };
    do
    :: !kept -> break
    :: kept ->
        w = word[l];
        if
        :: w < NAMES ->
            atomic { if :: word[l] == w -> word[l] = (writes -> FREE : w - 1); kept = false :: else fi SEES('C', 'x') }
#if SHOWS
        :: is_visible(w) -> leave_visible()
        :: is_inflated(w) && !writes && shows < SHOWS -> show_full()
#endif
        :: is_inflated(w) ->
            s = w - NAMES;
            if          /* `is_uncontended` says which */
            :: writes -> deflate()
            :: !writes && readers[s] == 1 ->
                atomic { seen = readers[s] == 1 && !writer[s] && waiters[s] == 0;   /* `seal_alone` */
                    if :: seen -> sealed[s] = true; writer[s] = true :: seen = false fi SEES('C', 'x') };
                if :: seen -> deflate() :: else fi;
                seen = false
            :: true
            fi;
            if :: kept && !left -> release(s, writes); kept = false :: else fi;
            left = false
        fi
    od;
    give_back()
}

inline trim() {
    w = word[l];
    if
    :: is_inflated(w) ->
        s = w - NAMES;
        d_step { pins[s]++; by = closed[s] SEES('C', 'x') };
        if
        :: by == 0 && word[l] == w ->
            unseal(s); how = BY_NONE;
            if :: MUTANT == 1 -> seal_free() :: else -> seen = true fi;
            if :: seen -> deflate(); give_back() :: else fi;
            seen = false; kept = false
        :: else
        fi;
        atomic { pins[s]--; by = 0 SEES('C', 'x') }
    :: else
    fi
}

/* `planned_wait_ns` and others: gives the lock a full one to look at */
inline look() {
    do
    :: seen -> break
    :: !seen ->
        w = word[l];
        if
#if SHOWS
        :: is_visible(w) -> revoke()
#endif
        :: w < NAMES -> inflate(); if :: is_inflated(w) -> on_full(false) :: else fi
        :: is_inflated(w) -> on_full(false)
        fi
    od
}

inline visit() {
    enter();
    if :: got -> leave() :: else fi
}

inline forget() {
    atomic { got = false; quits = false; writes = false; seen = false; left = false; kept = false; how = 0; l = 0; s = 0; w = 0 }
}

proctype thread(byte me) free_to_move {
    byte l, s, v, w, by, how, n, m;
    int aside;
    bool writes, got, quits, found, seen, left, closes, kept, queued, was_moved;
    int left_slots;
#ifdef TRACE
    bool ready;
#endif
    do
#ifdef TRACE
    /* before each visit it writes the other lock */
    :: is_about('o') -> l = 1; writes = true; visit(); forget(); ready = true
    :: atomic { ready && is_about('0') -> ready = false }; visit(); forget()
    :: atomic { ready && is_about('1') -> ready = false; writes = true }; visit(); forget()
    :: is_about('t') -> trim(); forget()
    :: is_about('u') -> l = 1; trim(); forget()
    :: is_about('p') -> look(); forget()
    :: is_about('q') -> l = 1; look(); forget()
#else
    :: break
    :: me < THREADS - TRIM ->
        if :: l = 0 :: LOCKS > 1 -> l = LOCKS - 1 fi;
        if :: writes = true :: READS -> writes = false fi;
        visit(); forget()
    :: LOOKS ->
        if :: l = 0 :: LOCKS > 1 -> l = LOCKS - 1 fi;
        look(); forget()
    :: me >= THREADS - TRIM ->
        if :: l = 0 :: LOCKS > 1 -> l = LOCKS - 1 fi;
        trim(); forget()
#endif
    od
#ifndef TRACE
    ; gone++
#endif
}

#ifdef TRACE
c_code {
/* Of each lock: r and how many readers are inside, w, or f or v and the slot of a full or visible one. Then the slots that are not as
 * new ones: s or w if it is sealed or written, its readers, q and how many wait, its pins, and who closes it. */
static void state_text(char *text)
{   int i;
    for (i = 0; i < LOCKS; i++)
    {   int w = now.word[i];
        *text++ = w == WRITTEN ? 'w' : w < NAMES ? 'r' : w < SHOWN ? 'f' : 'v';
        *text++ = '0' + (w == WRITTEN ? 0 : w < NAMES ? w : w < SHOWN ? w - NAMES : (w - SHOWN) % SLOTS);
        if (!i) *text++ = ' ';
    }
    for (i = 0; i < SLOTS; i++)
    {   if (now.pooled[i] && now.sealed[i] && !now.readers[i] && !now.waiters[i] && !now.pins[i] && !now.closed[i]) continue;
        *text++ = ' '; *text++ = '0' + i;
        if (now.pooled[i]) *text++ = 'p';
        if (now.writer[i]) *text++ = now.sealed[i] ? 's' : 'w';
        *text++ = '0' + now.readers[i];
        if (now.waiters[i]) { *text++ = 'q'; *text++ = '0' + now.waiters[i]; }
        *text++ = '.'; *text++ = '0' + now.pins[i];
        if (now.closed[i]) *text++ = " nrw"[now.closed[i]];
    }
    *text = 0;
}

static void set_state(const char *text)
{   int i, kind, value;
    for (i = 0; i < LOCKS; i++, text += 2)
    {   kind = *text; value = text[1] - '0';
        now.word[i] = kind == 'w' ? WRITTEN : kind == 'r' ? value : kind == 'f' ? NAMES + value : SHOWN + value;
        if (!i) text++;
    }
    for (i = 0; i < SLOTS; i++)
    {   now.pooled[i] = now.sealed[i] = now.writer[i] = 1;
        now.readers[i] = now.waiters[i] = now.pins[i] = now.closed[i] = 0;
    }
    while (*text == ' ')
    {   i = text[1] - '0'; text += 2;
        if ((now.pooled[i] = *text == 'p')) text++;
        now.sealed[i] = *text == 's';
        if ((now.writer[i] = *text == 's' || *text == 'w')) text++;
        now.readers[i] = *text++ - '0';
        if (*text == 'q') { now.waiters[i] = text[1] - '0'; text += 2; }
        now.pins[i] = text[1] - '0'; text += 2;
        switch (*text) { case 'n': now.closed[i] = 1; text++; break; case 'r': now.closed[i] = 2; text++; break;
            case 'w': now.closed[i] = 3; text++; }
    }
}
}
#endif

#ifndef TRACE
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
#endif

init {
    byte i;
    atomic {
#ifdef TRACE
        begin_trace();
#endif
        do :: i < SLOTS -> sealed[i] = true; writer[i] = true; pooled[i] = true; i++ :: else -> break od;
        i = 0;
#ifdef TRACE
        run thread(one)
#else
        do :: i < THREADS -> run thread(i); i++ :: else -> break od
#endif
    }
}
