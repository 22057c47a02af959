/* The condition variable whose waiters go on to the mutex's queue: crates/fairlock/src/condvar, and the seats of lock/mutex.rs.
 * Run by .ci/spec; read README.md first.
 *
 * One step here is one atomic operation, or all that a thread does under the lock of a queue. Threads 0 to WAITERS - 1
 * wait for `data`; one thread more sets it and notifies, one or all, with the mutex or without. Thread 0 never gives
 * up; the others may at any time, if GIVE_UP is 1: by a timeout, a cancel or a signal, which are the same here.
 *
 * The mutex is what lock.pml shows: whoever is first in its queue takes it. For liveness (LIVE) that one is overtaken
 * once at most.
 *
 * With TRACE, the model does what a trace of the code says (trace.pml), if it can: each thread waits and notifies. Of the
 * mutex the trace has who has it and who is queued; there, each thread that notifies has a list of its own.
 */
#ifdef TRACE
#define WAITERS 8
#define THREADS N
#define N 8
#define LISTS 8
#define ALONE
#define own_list me
#include "trace.pml"
bool due;               /* the thread has told another, and is to wake it */
/* A step that the trace may have together with the next one. */
#define MAY_SEE ; if :: c_code { trace_step(Pthread->me, 'C', 'x'); } :: true fi
/* A thread that wakes itself makes no event. */
#define SEES_WAKE ; c_code { if (Pthread->told != Pthread->me) trace_step(Pthread->me, 'U', '0' + Pthread->told); }
#define gives_up may_give_up
/* How the mutex is held, and by whom, is not in the trace. */
#define can_queue true
#define can_seat true
#define is_at(place) (queued > place && mutex_queue[place] == me)
#define is_queued (is_at(0) || is_at(1) || is_at(2) || is_at(3) || is_at(4) || is_at(5) || is_at(6) || is_at(7))
#else
#define SEES(kind, flag)
#define MAY_SEE
#define SEES_WAKE
#define free_to_move
#define LISTS 1
#define at_once 1
#define own_list 0
#define gives_up (GIVE_UP && me > 0 && me < WAITERS)
#define can_queue (held || queued > 0)
#define can_seat held
#endif
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif
/* The mistake on purpose that is made, of:
 *   1  a waiter lets the mutex go before it queues
 *   2  a waiter that gives up does not look whether it was notified
 *   3  a woken waiter does not wake the next of those notified with it
 *   4  the first is woken before the others are on the list
 *   5  a thread that came last is notified first
 *   6  a thread that queues a seat sees the mutex held in one step and asks for a wake-up in the next
 *   7  a thread that queues a seat does not ask
 *   8  a waiter that was taken out is not marked as notified
 *   9  the wake-up comes before what it says (rule 1)
 *  10  a waiter with a seat takes the mutex as any thread, and leaves its frame
 *  11  a notified waiter whose wait ends leaves its frame, and stays on its notifier's list
 */
#ifndef MUTANT
#define MUTANT 0
#endif
/* Whether one is notified, or all. */
#ifndef ALL
#define ALL 0
#endif
#ifndef N
#define N (WAITERS + 1)
#endif

/* A waiter's states: `condvar/waiters.rs`. */
#define WAITING 0
#define NOTIFIED 1
#define WOKEN 2

/* The mutex. */
bool held, wake_next;
byte mutex_queue[N], queued;
#ifdef LIVE
bool overtaken;
#else
#define overtaken false
#endif

/* The condition variable: what its queue lock guards. */
byte queue[N], waiting;
/* Those that were notified together and are to be woken by each other: `Notified` of each thread that notifies. */
byte list[LISTS * N], listed[LISTS];

/* A waiter's frame, and its thread's parker. */
byte state[N];
bool seat[N], token[N];
byte whose[N];       /* one more than whose list to look at; zero if it was notified alone */

#ifdef TRACE
byte holder, after;     /* who has the mutex; and after what it was taken last: 1 a wait that was notified, 2 one that gave up */
#endif
bool data;              /* set by who notifies, as it takes the mutex */
/* Only for the properties. */
byte inside, gone;
bool given[N];          /* notified, and has not returned */
bool frame[N];          /* its wait has not returned */
bool waits[N];          /* from the wait's begin until it has the mutex again */

/* Takes the first one out. */
#define shift_from(array, first, length) \
    k = 0; do :: k + 1 < length -> array[first + k] = array[first + k + 1]; k++ :: else -> break od; \
    length--; array[first + length] = 0; k = 0
#define shift(array, length) shift_from(array, 0, length)

/* ---- the mutex ---- */

inline has() {
    held = true; inside++; assert(inside == 1); token[me] = false;
#ifdef TRACE
    holder = me; after = (waited -> 1 + gave_up : 0); waited = false;
    d_step { state[me] = WAITING; seat[me] = false; whose[me] = 0 }
#else
    if :: me == WAITERS -> data = true :: else fi
#endif
}

/* `RawMutex::try_lock`, and what `lock` does at first. */
inline take_past_queue() {
    atomic { !held && (queued == 0 || !overtaken) ->
        has();
#ifdef LIVE
        overtaken = (queued > 0)
#endif
        MAY_SEE }
}

/* Under the mutex's queue lock. */
inline push(who) { mutex_queue[queued] = who; queued++ }

/* `Turns::wait_queued`: the thread is queued, or another is about to queue it. */
inline wait_queued() {
    do
#ifdef TRACE    /* in two steps */
    :: atomic { is_queued -> k = 0;     /* those before it may not run */
            do :: mutex_queue[k] != me -> k++ :: else -> break od;
            do :: k + 1 < queued -> mutex_queue[k] = mutex_queue[k + 1]; k++ :: else -> break od;
            queued--; mutex_queue[queued] = 0; k = 0 MAY_SEE };
        atomic { !held -> has() MAY_SEE }; break
#else
    :: atomic { queued > 0 && mutex_queue[0] == me && !held ->
        has(); shift(mutex_queue, queued); wake_next = (queued > 0);
#ifdef LIVE
        overtaken = false
#endif
        }; break
    :: d_step { queued > 0 && mutex_queue[0] == me && held -> wake_next = true };
        d_step { token[me] -> token[me] = false }
    :: d_step { (queued == 0 || mutex_queue[0] != me) && token[me] -> token[me] = false }
#endif
    od
}

inline lock() {
    if
    :: take_past_queue()
    :: d_step { can_queue -> push(me) SEES('C', 'x') }; wait_queued()
    fi
}

/* One step; then the waiter that is next is woken, if it asked and nobody else has done so. */
inline unlock() {
    /* While another thread is at a queue, the trace does not see it. */
    d_step { held = false; inside--; call = wake_next MAY_SEE };
    if
    :: call ->
        d_step { call = wake_next && queued > 0; wake_next = false; whom = mutex_queue[0] };
        if :: call -> token[whom] = true :: else fi;
        call = false; whom = 0
    :: else
    fi
}

/* ---- who notifies ---- */

/* Under the condition variable's queue lock: `take_first`. */
inline take_first() {
    if
    :: MUTANT == 5 -> waiting--; whom = queue[waiting]; queue[waiting] = 0
    :: else -> whom = queue[0]; shift(queue, waiting)
    fi;
    if :: MUTANT == 8 :: else -> state[whom] = NOTIFIED fi;
    assert(frame[whom] && !given[whom]);        /* none is given to two, nor one to one that has returned */
    given[whom] = true
}

/* `Notice::wake` */
inline wake(who) {
#ifdef TRACE
    atomic { told = who; due = true };
#endif
    d_step { assert(frame[who]); if :: MUTANT == 9 -> token[who] = true :: else -> state[who] = WOKEN fi SEES('C', 'x') };
    d_step { if :: MUTANT == 9 -> state[who] = WOKEN :: else -> token[who] = true fi SEES_WAKE }
#ifdef TRACE
    ; due = false
#endif
}

/* `Waiter::wake`: to the mutex's queue, or awake. */
inline wake_or_seat() {
    atomic { assert(frame[whom]);
        if              /* `RawMutex::seat`: if it seems to be asleep */
        :: can_seat -> seats = true
        :: true
        fi };
    if
    :: seats ->
        d_step { assert(frame[whom]); seat[whom] = true; state[whom] = WOKEN SEES('C', 'x') };
        /* `queue_sleeping_writer`, and `ask_for` if it is next: sees the mutex held in the step that asks. */
        atomic { assert(frame[whom]); push(whom);
            if
            :: mutex_queue[0] != whom || MUTANT == 7 || MUTANT == 6
            :: else -> if :: held -> wake_next = true :: else -> call = true fi
            fi MAY_SEE };
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

inline notify_one() {
    if
    :: waiting == 0     /* `has_waiters` */
    :: waiting > 0 ->
        d_step { if :: waiting > 0 -> take_first(); call = true :: else fi SEES('C', 'x') };
        if :: call -> call = false; wake_or_seat() :: else fi
    fi
}

inline notify_all() {
    if
    :: waiting == 0     /* the same */
    :: waiting > 0 ->
        d_step { some = waiting;
            do :: waiting > 0 -> take_first(); whose[whom] = own_list + 1; all[count] = whom; count++ :: else -> break od;
            if :: some == 1 -> whom = all[0]; count = 0 :: else -> whom = 0 fi SEES('C', 'x') };
        if
        :: some == 1 -> wake_or_seat()
        :: some > 1 ->
            /* `Batch::wake`: leaves all but the first to those that are woken, before it wakes that one. */
            if :: MUTANT == 4 -> wake(all[0]) :: else fi;
#ifdef TRACE    /* two, in a build without mistakes */
            if :: at_once = 1 :: at_once = 2 fi;
#endif
            if
            :: count > at_once ->
                d_step { before = listed[own_list]; k = 0;
                    do :: k < before -> left[k] = list[own_list * N + k]; k++ :: else -> break od;
                    k = at_once; listed[own_list] = 0;
                    do :: k < count -> list[own_list * N + listed[own_list]] = all[k]; listed[own_list]++; k++ :: else -> break od;
                    k = 0 SEES('C', 'x') };
                do :: k < before -> whom = left[k]; wake(whom); left[k] = 0; k++ :: else -> break od;
                atomic { before = 0; k = 0; whom = 0 }
            :: else
            fi;
            if :: MUTANT != 4 -> wake(all[0]) :: else fi;
#ifdef TRACE
            if :: at_once == 2 -> wake(all[1]) :: else fi;
            if  /* the last one is to look whether the others are woken */
            :: count > at_once -> d_step { told = all[count - 1] SEES('U', '0' + Pthread->told) }
            :: else
            fi;
#endif
            d_step { do :: count > 0 -> count--; all[count] = 0 :: else -> break od; k = 0 }
        :: else
        fi;
        some = 0
    fi
}

#ifdef TRACE
inline notify() { if :: notify_one() :: notify_all() fi }
#elif ALL
inline notify() { notify_all() }
#else
inline notify() { notify_one() }
#endif

/* ---- who waits ---- */

/* `Notified::wake_next`; more than one where there is time is only quicker. */
inline wake_next_listed(from) {
    d_step {
        if
        :: listed[from] > 0 && MUTANT != 3 -> whom = list[from * N]; shift_from(list, from * N, listed[from]); call = true
        :: else
        fi SEES('C', 'x') };
    if :: call -> call = false; wake(whom); whom = 0 :: else fi
}

inline enqueue() {
    d_step {
#ifdef TRACE    /* it has the mutex, which the trace does not see it let go */
        held && holder == me -> held = false; inside--;
#endif
        queue[waiting] = me; waiting++; state[me] = WAITING; frame[me] = true; waits[me] = true SEES('C', 'x') }
}

/* `Notice::wake_up_to_this`: those that were to wake this thread may not run. */
inline wake_up_to_this() {
    do
    :: state[me] == NOTIFIED && MUTANT == 11 -> state[me] = WOKEN
    :: state[me] == NOTIFIED && MUTANT != 11 && listed[whose[me] - 1] > 0 -> wake_next_listed((whose[me] - 1))
    :: else -> break
    od
}

/* `wait_within`: `gave_up` says how it ended. */
inline wait() {
    gave_up = false; ended = false; late = false;
    if :: MUTANT != 1 -> enqueue() :: else fi;
#ifdef TRACE
    waited = true;
#else
    unlock();
#endif
    if :: MUTANT == 1 -> enqueue() :: else fi;
    do
    :: state[me] == WOKEN -> break
    :: ended ->         /* `give_up`: what ends the wait after a notification comes too late */
        d_step { ended = false; late = (state[me] == NOTIFIED && whose[me] > 0);
            if
            :: state[me] == WAITING || MUTANT == 2 ->
                assert(!given[me]);
                k = 0; do :: queue[k] != me -> k++ :: else -> break od;
                do :: k + 1 < waiting -> queue[k] = queue[k + 1]; k++ :: else -> break od;
                waiting--; queue[waiting] = 0; k = 0; gave_up = true
            :: else
            fi SEES('C', 'x') };
        if :: gave_up -> break :: !gave_up && late -> wake_up_to_this() :: else fi;
        late = false
#ifdef TRACE    /* the last on a list, a millisecond later: wakes one, or two */
    :: !ended && state[me] == NOTIFIED && whose[me] > 0 ->
        wake_next_listed((whose[me] - 1));
        if :: wake_next_listed((whose[me] - 1)) :: true fi
#endif
    :: !ended && state[me] != WOKEN ->
        may_end = (state[me] != WOKEN && gives_up);
endsleep:
        if      /* the monitor says who may sleep for ever */
#ifndef TRACE
        :: d_step { token[me] -> token[me] = false }
#endif
        :: may_end -> ended = true
        fi;
        may_end = false
    od;
    if
    :: gave_up -> lock()
    :: !gave_up && seat[me] && MUTANT != 10 ->
        wait_queued();
        seat[me] = false
    :: else ->          /* `lock_again` */
        wakes = whose[me] > 0;
#ifdef TRACE    /* one, or two */
        if :: wakes -> wake_next_listed((whose[me] - 1)); if :: wake_next_listed((whose[me] - 1)) :: true fi :: else fi;
        wakes = false;
        lock()
#else
        if :: wakes && !held -> wakes = false; wake_next_listed(0) :: else fi;
        if
        :: take_past_queue(); if :: wakes -> wakes = false; wake_next_listed(0) :: else fi
        :: if :: wakes -> wakes = false; wake_next_listed(0) :: else fi; lock()
        fi
#endif
    fi;
    atomic {
        assert(given[me] == !gave_up); given[me] = false; frame[me] = false; waits[me] = false;
        state[me] = WAITING; seat[me] = false; whose[me] = 0 }
}

#ifdef TRACE
proctype thread(byte me) free_to_move {
    byte k, whom, some, count, before, all[N], left[N], told, at_once;
    bool call, seats, ended, late, may_end, gave_up, waited, wakes;
    do
    :: lock();
        do
        :: me % 2 == 1 -> wait()
        :: me % 2 == 1 -> unlock(); break
        :: me % 2 == 0 -> notify(); unlock(); break
        :: me % 2 == 0 -> unlock(); notify(); break
        od;
        gave_up = false
    od
}

/* The thread wakes others for the mutex. */
proctype wakes_others() provided (!failed) {
end:
    do
    :: atomic { turn == one && !due && c_expr { events[now.at].kind == 'U' }; c_code { trace_next(); } }
    od
}

c_code {
/* Who has the mutex, and after what it was taken last; who is queued there, and at the condition variable. Then each thread that was notified: N, or K if it
 * was told, or S if it has a seat, too; and whose list it looks at. Then the lists. */
static void state_text(char *text)
{   int i, k;
    *text++ = now.held ? '0' + now.holder : '-'; *text++ = ".ng"[now.after]; *text++ = ' ';
    for (i = 0; i < now.queued; i++) *text++ = '0' + now.mutex_queue[i];
    *text++ = ' ';
    for (i = 0; i < now.waiting; i++) *text++ = '0' + now.queue[i];
    for (i = 0; i < N; i++)
    {   if (now.state[i] == WAITING) continue;
        *text++ = ' '; *text++ = '0' + i; *text++ = now.state[i] == NOTIFIED ? 'N' : now.seat[i] ? 'S' : 'K';
        *text++ = now.whose[i] ? '0' + now.whose[i] - 1 : '-';
    }
    for (i = 0; i < LISTS; i++)
    {   if (!now.listed[i]) continue;
        *text++ = ' '; *text++ = 'l'; *text++ = '0' + i; *text++ = ':';
        for (k = 0; k < now.listed[i]; k++) *text++ = '0' + now.list[i * N + k];
    }
    *text = 0;
}

static void set_state(const char *text)
{   int i;
    for (i = 0; i < N; i++)
        now.mutex_queue[i] = now.queue[i] = now.state[i] = now.seat[i] = now.whose[i] = now.listed[i] = 0;
    for (i = 0; i < LISTS * N; i++) now.list[i] = 0;
    now.queued = now.waiting = now.holder = 0;
    if ((now.held = *text != '-')) now.holder = text[0] - '0';
    now.after = text[1] == 'n' ? 1 : text[1] == 'g' ? 2 : 0;
    for (text += 3; *text != ' '; text++) now.mutex_queue[now.queued++] = *text - '0';
    for (text++; *text && *text != ' '; text++) now.queue[now.waiting++] = *text - '0';
    while (*text == ' ')
    {   if (text[1] == 'l')
        {   for (i = text[2] - '0', text += 4; *text && *text != ' '; text++) now.list[i * N + now.listed[i]++] = *text - '0';
            continue;
        }
        i = text[1] - '0';
        now.state[i] = text[2] == 'N' ? NOTIFIED : WOKEN; now.seat[i] = text[2] == 'S';
        now.whose[i] = text[3] == '-' ? 0 : text[3] - '0' + 1;
        text += 4;
    }
}
}

#else

proctype waiter(byte me) {
    byte k, whom;
    bool call, ended, late, may_end, gave_up, wakes;
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
    timeout -> assert(gone + waiting == N && !held && queued == 0 && listed[0] == 0 && (!data || waiting == 0))
}
#endif

#endif

init {
#ifdef TRACE
    atomic { begin_trace(); run thread(one); run wakes_others() }
#else
    byte i;
    atomic {
        do :: i < WAITERS -> run waiter(i); i++ :: else -> break od;
        run notifier(WAITERS)
    }
#endif
}

#ifdef LIVE
ltl served { [] (waits[0] -> <> !waits[0]) }
#endif
