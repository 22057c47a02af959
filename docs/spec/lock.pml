/* The default lock: crates/fairlock/src/lock. Run by .ci/spec; read README.md first.
 *
 * One step here is one atomic operation on the lock's word, or all that a thread does under the queue
 * lock. Time is one bit: `over`, which the process `clock` sets at any moment
 * while somebody waits, and at some moment. The first WRITERS threads write, the others read; with READERS_FIRST the
 * first READERS threads read. Thread 0 never gives up; the others may, at any time, if GIVE_UP is 1. With HOLDERS_CLOSE
 * each holder closes the lock at the end of a tenure.
 *
 * With TRACE, the model does what a trace of the code says (trace.pml), if it can.
 */
/* A waiter's states. */
#define WAITING 0
#define NEXT 1
#define INVITED 2

#ifdef TRACE
#define WRITERS 0
#define READERS 8
#define OVERTAKES 255
#include "trace.pml"
bool is_late[8];        /* it was next, and did not run for a millisecond: only traces have that */
/* The next event may be that a thread passes the waiter that is next. */
#define passes(caller) (next != NONE && next != caller && count > 1 && \
    c_expr { events[now.at].kind == 'C' && events[now.at].flag == 'q' })
/* A step that sees nothing is made just before what the trace says next: fewer runs that mean the same. */
#define comes_now c_expr { events[now.at].kind == 'C' }
/* After a release that wakes nobody. */
#define FINISHES ; if :: !call -> finishing = me :: else fi
#define FINISHED ; finishing = 255
#define is_out (!queued[me])
#define writes(i) (errand[i] == '1')
#define gives_up may_give_up
#define may_turn_away comes_now  /* no event tells that a visit has ended: it is before the next one */
#else
#define is_out left     /* the thread's own: fewer states */
#define SEES(kind, flag)
#define FINISHES
#define FINISHED
#define gives_up (GIVE_UP && me != 0)
#define may_turn_away gives_up
#define free_to_move
#endif
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif
/* The mistake on purpose that is made, of:
 *   1  a writer comes in past the queue although the lock is taken
 *   2  a writer's release does not look at WAKE_NEXT
 *   3  a waiter sees the lock taken in one step and sets WAKE_NEXT in the next
 *   4  nobody is sure to close the lock at the end of a tenure
 *   5  a waiter that gives up does not wake the one that is next now (rules 8 and 14)
 *   6  CLOSED stays set on an empty queue (rule 6)
 *   7  a reader that takes its count back wakes nobody (rule 15)
 *   8  a writer that takes the lock appoints a waiter without WAKE_NEXT
 *   9  a closed lock may be taken past the queue any number of times
 *  10  another than the first of the side is next (rule 16)
 *  11  CLOSED does not keep writers out
 *  12  sides do not take turns
 *  13  a reader that may give up counts itself first
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define N (WRITERS + READERS)
#define NONE N
#ifdef READERS_FIRST
#define writes(i) (i >= READERS)
#elif !defined TRACE
#define writes(i) (i < WRITERS)
#endif
#ifdef HOLDERS_CLOSE
#define may_leave_open (!over || !waiters)
#else
#define may_leave_open true
#endif
/* A reader that may give up is not counted before it has the lock. */
#ifdef TRACE    /* the visit says so; and it may have looked earlier */
#define may_skip_count(i) comes_now
#else
#define may_skip_count(i) (writes(i) || !counts_itself || waiters || !is_open)
#define counts_itself (!gives_up || MUTANT == 13)
#endif
/* How often a thread that comes may take a lock that is closed and free (`await_next`), until the waiter
 * that is next has it. The code bounds this by time (WAKE_NS), not by number: see README.md. */
#ifndef OVERTAKES
#define OVERTAKES 1
#endif

/* The word. */
bool written, waiters, closed, readers_turn, wake_next;
byte readers;
#define free_ (!written && readers == 0)

/* What the queue lock guards. */
byte queue[N], count;
byte next = NONE;
bool unwoken;           /* next was appointed by a writer inside, and not woken */
bool readers_side;      /* whose tenure it is */
bool over;              /* the tenure has ended */

/* A waiter's record, and its parker. */
byte state[N];
bool token[N];

/* Only for the properties. */
byte in_writers, in_readers, overtaken;
bool queued[N];
#ifdef BOUND
byte turns[N], bound[N];   /* tenures that began while a thread waits, and at most so many */
#endif

#define may_take(i) (!written && (!writes(i) || readers == 0))
#define may_join (!written && !closed && (readers_turn || readers > 0))
/* Of two waiters, that of the side whose tenure it is not; of one side, the first in the queue. */
#if MUTANT == 10
#define goes_before(i, j) (writes(i) == readers_side || writes(j) != readers_side)
#elif MUTANT == 12
#define goes_before(i, j) (writes(i) != readers_side && writes(j) == readers_side)
#else
#define goes_before(i, j) (writes(i) == readers_side && writes(j) != readers_side)
#endif
#define is_open (!written && !closed)
#define may_enter(i) (writes(i) -> free_ && !waiters : is_read_stealable)
#define is_read_stealable (is_open && (!waiters || readers_turn || readers == 0))

/* At the end of what a thread does under the queue lock. */
inline check() {
    assert(count > 0 || !(waiters || closed || readers_turn || wake_next));    /* no trace */
    assert((count > 0) == (next != NONE))                                       /* somebody is next */
}

inline wake_listed() {
#ifdef TRACE
    do
    :: atomic { c_expr { events[now.at].kind == 'U' } ->
        c_code { Pthread->k = events[now.at].flag - '0'; };
        /* a release may list a thread twice */
        if
        :: (list | woken) & (1 << k)
        :: else -> if :: one_more -> one_more = false :: else -> failed = true fi
        fi;
        list = list & ~(1 << k); woken = woken | (1 << k); token[k] = true; k = 0 SEES('U', 0) }
    :: !list -> woken = 0; one_more = false; break
    od
#else
    if
    :: list == 0
    :: list != 0 ->
        d_step {
            k = 0;
            do
            :: k < N -> if :: (list & (1 << k)) && queued[k] -> token[k] = true :: else fi; k++
            :: else -> break
            od;
            list = 0; k = 0
        }
    fi
#endif
}

#ifdef TRACE
/* Late ones are next only if all are. */
#define skips(i) (is_late[i] && present)
inline count_present() {
    present = 0; k = 0;
    do
    :: k < count -> if :: !is_late[queue[k]] -> present++ :: else fi; k++
    :: else -> break
    od;
    k = 0
}
/* Under the queue lock: the waiter that is next has not run for a millisecond, and others wait. */
inline pass_over(caller) {
    is_late[next] = true; state[next] = WAITING; list = list | (1 << next); next = NONE;
    appoint(caller);
    if :: call -> wake_appointed() :: else fi;
    call = false
}
/* A waiter that was late runs: it may be next again. */
inline is_back() {
    is_late[me] = false; appoint(me);
    assert(!call)   /* it makes nobody next but itself */
}
/* A waiter that is not next sleeps with a timer, to look whether that comes: no wake-up needs it. */
inline nap() {
    atomic { true SEES('S', 1) };
    if
    :: atomic { token[me] -> token[me] = false SEES('P', 'w') }
    :: atomic { true SEES('P', 't') }
    :: atomic { true SEES('P', 's') }
    fi
}
#else
#define skips(i) false
#endif

/* The waiter that is next is told that it is; `call` says whether it is to be woken for that. */
inline appoint(caller) {
    call = false;
    if
    :: count > 0 && !(closed && next != NONE) ->
#ifdef TRACE
        count_present();
#endif
        k = 0; first = NONE;
        do  /* the first of the side whose tenure it is not, or else of the other */
        :: k < count && skips(queue[k]) -> k++
        :: k < count && !skips(queue[k]) ->
            if
            :: first == NONE || goes_before(queue[k], first) -> first = queue[k]
            :: else
            fi;
            k++
        :: else -> break
        od;
        if
        :: first != next ->
            if :: next != NONE -> state[next] = WAITING :: else fi;
#ifdef TRACE
            is_late[first] = false;
#endif
            next = first; state[next] = NEXT; call = (next != caller)
        :: else
        fi;
#ifdef TRACE
        present = 0;
#endif
        k = 0; first = 0
    :: else
    fi
}

inline wake_appointed() {
    unwoken = false;
    if :: next != NONE -> list = list | (1 << next) :: else fi
}

inline invite(most) {
    k = 0; first = 0;
    do
    :: k < count && first < most ->
        if
        :: !writes(queue[k]) && state[queue[k]] == WAITING ->
            state[queue[k]] = INVITED; list = list | (1 << queue[k]); first++
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0; first = 0
}

/* The bound: those of its side that are ahead, and a turn of the other side before each and before it. */
#ifdef BOUND
inline uncount(i) { turns[i] = 0; bound[i] = 0 }
inline count_turn() {
    k = 0;
    do
    :: k < count -> turns[queue[k]]++; assert(turns[queue[k]] <= bound[queue[k]]); k++
    :: else -> break
    od;
    k = 0
}
inline count_ahead() {
    bound[me] = 1; k = 0;
    do
    :: k + 1 < count -> if :: writes(queue[k]) == writes(me) -> bound[me] = bound[me] + 2 :: else fi; k++
    :: else -> break
    od;
    k = 0
}
#else
inline uncount(i) { skip }
inline count_turn() { skip }
inline count_ahead() { skip }
#endif

inline remove() {
    k = 0;
    do :: queue[k] != me -> k++ :: else -> break od;
    do
    :: k + 1 < count -> queue[k] = queue[k + 1]; k++
    :: else -> break
    od;
    count--; queue[count] = 0; k = 0; queued[me] = false; state[me] = WAITING; uncount(me)
#ifdef TRACE
    ; is_late[me] = false
#else   /* what means nothing any more is always the same: fewer states */
    ; token[me] = false; if :: count == 0 -> over = false; overtaken = 0; unwoken = false; readers_side = false :: else fi
#endif
}

inline inside() {
    if :: writes(me) -> written = true; in_writers++ :: else -> readers++; in_readers++ fi
}

/* Under the queue lock: a waiter that is next or invited takes the lock, if it can. */
inline take() {
    d_step {
        got = false;
        if
        :: (next == me && may_take(me)) || (next != me && may_join) ->
            got = true;
            inside();
            if
            :: count == 1 -> waiters = false; closed = false; readers_turn = false; wake_next = false
            :: count > 1 && next == me -> readers_turn = !writes(me); wake_next = false; closed = false
            :: else
            fi;
            remove();
            if
            :: next == me ->
                next = NONE; readers_side = !writes(me); over = false; overtaken = 0;
                count_turn();
                appoint(NONE);
                if
                :: call && writes(me) -> wake_next = (MUTANT != 8); unwoken = true
                :: call && !writes(me) -> wake_appointed()
                :: else
                fi;
                if :: !writes(me) -> invite(2) :: else fi
            :: else ->
                if
                :: !over -> invite(2)
                :: true     /* over, or all CPUs have a reader */
                fi
            fi
        :: else
        fi;
        call = false
    }
}

/* Whoever has left the lock free, and saw that the waiter that is next asked for it. Others may have come by then; the
 * flag stays until here. */
inline wake_next_waiter() {
    if
    :: call ->
        atomic {
            call = false;
            if
            :: count > 0 && wake_next ->
                wake_next = false; wake_appointed();
#ifdef TRACE    /* long after the end of a tenure another one is woken, too, to look */
                one_more = over;
#endif
                if :: over -> closed = true :: else fi
            :: else     /* another has done so, or nobody waits any more */
            fi;
            check() SEES('C', 'q')
        }
    :: else
    fi
}

/* One step, after which the lock may be gone. */
inline leave_lock() {
    if
    :: writes(me) -> d_step { written = false; in_writers--; call = (readers == 0 && wake_next && MUTANT != 2) SEES('C', 0) FINISHES }
    :: else -> d_step { readers--; in_readers--; call = (free_ && wake_next) SEES('C', 0) FINISHES }
    fi;
    wake_next_waiter();
    wake_listed()
}

inline queue_up() {
    atomic {
        if
        :: may_enter(me) -> inside(); got = true
        /* the lock may have become free after the look */
        :: true ->
#ifdef TRACE    /* a waiter that comes back stands where it stood, or would have: no event tells of an attempt that was over
                   before it queued; a late wake-up may stay. Readers stand before writers: how the sides mix does not matter. */
            k = count;
            do
            :: k > 0 && writes(queue[k - 1]) >= writes(me) -> k--; queue[k + 1] = queue[k]
            :: k == 0 || writes(queue[k - 1]) <= writes(me) -> break
            od;
            queue[k] = me; k = 0;
            if :: token[me] = false :: true fi;
#else
            token[me] = false; queue[count] = me;
#endif
            count++; queued[me] = true;
            count_ahead();
            if
            :: count == 1 ->
                waiters = true; readers_side = !(written || free_); over = false; overtaken = 0;
                if :: readers_side -> readers_turn = true :: else fi
            :: else
            fi;
            appoint(me);
            assert(!call);  /* it makes nobody next but itself */
            if
            :: unwoken ->
                unwoken = false; wake_next = false;
                if :: next != me -> wake_appointed() :: else fi
            :: true         /* nor at a lock that is taken rarely: the next release wakes it */
            fi
#ifdef TRACE
            ; if :: passes(me) -> pass_over(me) :: true fi
#endif
        fi;
        check() SEES('C', 'q')
    };
    wake_listed()
}

inline leave_queue() {
    d_step {
        assert(state[me] != INVITED || !may_join);  /* else it would have taken the lock */
        remove();
        if :: next == me -> next = NONE :: else fi;
        if
        :: count == 0 ->
            closed = closed && MUTANT == 6; waiters = false; readers_turn = false; wake_next = false
        :: else ->
            appoint(NONE);
            if :: call && MUTANT != 5 -> wake_appointed() :: else fi
        fi;
        call = false
    }
}

/* Sleeps until the token comes, or the timer is due, or it gives up. */
inline sleep() {
#ifdef TRACE
    atomic { true SEES('S', Pthread->timer) };
    if
    :: atomic { token[me] -> token[me] = false SEES('P', 'w') }
    :: atomic { timer SEES('P', 't') }      /* it looks at the clock before the tenure is over, too */
    :: atomic { true SEES('P', 's') }       /* its deadline, or no reason: that comes next */
    fi
#else
    if
    :: atomic { token[me] -> token[me] = false }
    :: timer && (over || !asks)
    :: gives_up -> quits = true
    fi
#endif
}

/* One turn of the waiter that is next: takes, or sleeps, or looks again. */
inline wait_as_next() {
    atomic { if :: may_join -> invite(1) :: true fi SEES('C', 'q') };     /* when it has slept */
    wake_listed();
    d_step {
#ifdef TRACE    /* the end of the tenure that it knows may be an earlier one's */
    if :: late = over :: late = false fi;
#else
    late = over;
#endif
    if :: late && waiters && MUTANT != 4 -> closed = true :: else fi SEES('C', 0) }
    if
    :: may_take(me) -> acts = true
    :: gives_up -> quits = true
    :: !may_take(me)            /* looks again, awake; it may be another's turn by then */
    :: !may_take(me) ->
        if  /* asks to be woken; or was woken in vain, and naps */
        :: asks = true
        :: !late && !closed -> asks = false
        fi;
        timer = !late;
        if
        :: asks ->
#if MUTANT == 3
            seen = may_take(me);
            d_step { wake_next = true; timer = timer && !written }
#else
            d_step { wake_next = true; timer = timer && !written; seen = may_take(me) SEES('C', 0) }
#endif
        :: else
        fi;
        if
        :: seen -> d_step { if :: next == me -> wake_next = false :: else fi SEES('C', 'q') }
        :: else -> sleep()
        fi;
        d_step { seen = false; asks = false; timer = false }
    fi;
    late = false
}

proctype thread(byte me) free_to_move {
    byte list, k, first;
#ifdef TRACE
    byte woken, present;
    bool one_more;
#endif
    bool got, call, late, asks, timer, seen, acts, quits, left;
idle:
end:
    if
#ifndef TRACE
    :: goto gone
#endif
    /* past the queue */
    :: atomic { writes(me) && (MUTANT == 1 || free_) && (MUTANT == 11 || !closed) ->
        inside(); got = true;
#if MUTANT == 11
        if :: closed -> overtaken++; assert(overtaken <= OVERTAKES) :: else fi
#endif
        SEES('C', 0) }
    :: d_step { !writes(me) && counts_itself -> got = is_read_stealable; seen = is_open; readers++ SEES('C', 0) }
        if  /* a thread that has written lately may stay in a writers' tenure, too */
        :: d_step { got || seen -> got = true; seen = false; in_readers++ }
        /* it may hold off, too: for a writer that is awake (whose flag is a hint), or as the next waiter is late */
        :: d_step { got = false; seen = false; readers--; call = (free_ && wake_next) SEES('C', 0) FINISHES }
            if :: MUTANT == 7 -> call = false :: else fi;
            wake_next_waiter();
            wake_listed() FINISHED;
            goto comes
        fi
    /* a reader counts itself only if it has seen the lock open, and nobody waiting */
    :: may_skip_count(me) -> goto comes
    fi;
    goto has;
comes:
    if
    :: atomic { !writes(me) && is_open -> inside(); got = true SEES('C', 0) }  /* past the queue, as above */
    :: queue_up();
        /* waits, until it has the lock or has given up */
        do
        :: got || is_out -> break
        :: !got && !is_out ->
            if
            :: gives_up -> quits = true
            :: state[me] == INVITED -> acts = true
#ifdef TRACE
            :: state[me] == WAITING -> nap()    /* late or not: the thread that passed it has woken it */
            :: atomic { state[me] == WAITING && is_late[me] -> is_back(); check() SEES('C', 'q') }; wake_listed()
            :: atomic { state[me] == WAITING && passes(me) -> pass_over(me); check() SEES('C', 'q') }; wake_listed()
#else
            :: state[me] == WAITING -> sleep()
#endif
            :: state[me] == NEXT -> wait_as_next()
            fi;
            if
            :: acts || quits ->
                atomic {
                    if :: state[me] != WAITING -> take() :: else fi;
                    if
                    :: !got && quits -> leave_queue();
#ifndef TRACE
                        left = true
#endif
                    :: !got && !quits -> state[me] = (next == me -> NEXT : WAITING)
                    :: else
                    fi;
                    acts = false; quits = false;
                    check() SEES('C', 'q')
                };
                wake_listed()
            :: else
            fi
        od
    :: may_turn_away    /* before it queues */
#ifdef TRACE    /* the lock is reserved, and its waiter late: another one is next, and it waits for that */
    :: atomic { free_ && closed && passes(NONE) -> pass_over(NONE); check() SEES('C', 'q') };
        wake_listed();
        goto comes
#endif
    /* the lock is reserved, and its waiter has not come for as long as a wake-up takes */
    :: atomic { free_ && closed && (overtaken < OVERTAKES || MUTANT == 9) ->
        inside(); got = true; if :: MUTANT != 9 -> overtaken++ :: else fi SEES('C', 'q') }
    fi;
#ifndef TRACE
    left = false;
#endif
    if :: !got -> goto idle :: else fi;
has:
    assert(in_writers == 0 || (in_writers == 1 && in_readers == 0));
    if
    :: may_leave_open
    :: atomic { over && waiters -> closed = true SEES('C', 0) }     /* a holder that finds the waiter late */
    fi;
    leave_lock();
    d_step { got = false; call = false FINISHED }
    goto idle;
gone:
    skip
}

proctype clock()
#ifdef TRACE
    provided (!failed)
#endif
{
end:
    do
    :: atomic { waiters && !over -> over = true }
    od
}

#ifdef TRACE
c_code {
/* The word; then thread and state (W waiting, N next, I invited) of each that waits, readers first. */
static void state_text(char *text)
{   int i, kind;
    int word[6] = { now.written, now.readers, now.waiters, now.closed, now.readers_turn, now.wake_next };
    for (i = 0; i < 6; i++) { *text++ = '0' + word[i]; *text++ = ' '; }
    if (!now.count) *text++ = '-';
    for (kind = 0; kind < 2; kind++)
        for (i = 0; i < now.count; i++)
            if ((now.errand[now.queue[i]] == '1') == kind)
            {   int t = now.queue[i];
                *text++ = '0' + t;
                *text++ = now.next == t ? 'N' : now.state[t] == INVITED ? 'I' : 'W';
            }
    *text = 0;
}
}
#endif

init {
    byte i;
    atomic {
#ifdef TRACE
        begin_trace();
#endif
        do :: i < N -> run thread(i); i++ :: else -> break od;
        run clock()
    }
}

#ifdef LIVE
ltl served { [] (queued[0] -> <> !queued[0]) }
#endif
#ifdef TAKEN
ltl taken { [] ((free_ && waiters) -> <> !(free_ && waiters)) }
#endif
