/* The range lock's queue: crates/fairlock/src/range (slots, hull, tree, and waiters that may be overtaken). Run by
 * .ci/spec; read README.md first.
 *
 * One step here is one atomic operation, or what a thread does under the tree lock between two looks at what others
 * change without it. There are two positions, so ranges are 1, 2 and 3, sets of bits; THREADS threads ask for any range,
 * to read or to write, again and again, and any but thread 0 may give up, if GIVE_UP is 1. Time is not counted: a wait may
 * be over at any moment, or, with FOREVER, never is; with FIFO nobody may be overtaken.
 *
 * With TRACE, a thread does what a trace of the code says (trace.pml), if it can, beside what the trace says of the
 * others. There are four positions then.
 */
#ifdef TRACE
#define ALONE
#define THREADS 8
#define SLOTS 8
#include "trace.pml"
#define SPANS 15        /* every position */
bool FIFO;
/* What the thread is about: its range, above that whether it writes, and above that whether it has it. */
#define about (errand[me] - '0')
#define has_range ((about & 32) != 0)
#define gives_up may_give_up
/* Of a range, the positions from its start on; and up to its end. */
#define from_start(set) (-((set) & -(set)) & SPANS)
#define to_end(set) (((set) | (((set) & -(set)) - 1)) & SPANS)
#define convex(set) (from_start(set) & ((set) | ((set) >> 1) | ((set) >> 2) | ((set) >> 3)))
#define fails_at_will true
#else
#define SEES(kind, flag)
#define free_to_move
#define SPANS 3
#define gives_up (GIVE_UP && me != 0)
#define convex(set) (set)
#define fails_at_will false
#endif
#ifndef THREADS
#define THREADS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif
/* Whether there are readers. */
#ifndef READS
#define READS 1
#endif
/* 1: all ask for one range; 2: thread 0 for all, others for a part; 3: any. */
#ifndef RANGES
#define RANGES 3
#endif
/* How often each thread comes; 0: again and again. */
#ifndef VISITS
#define VISITS 0
#endif
#ifndef TRACE
#ifndef FIFO
#define FIFO 0
#endif
#endif
#ifndef FOREVER
#define FOREVER 0
#endif
/* The mistake on purpose that is made, of:
 *   1  a waiter that gives up lets in nobody of those behind it
 *   2  a range is granted, and its waiter is not woken
 *   3  a thread that enters the tree changes the word first, and extends the hull then
 *   4  a waiter does not enter the slots that it waits for into the tree
 *   5  a slot whose range cannot be read yet is taken for one that is in nobody's way
 *   6  a thread that sleeps for a slot does not look again after it has said so
 *   7  the last that is awake looks for others, and shows that all sleep then
 *   8  a range leaves the tree, and those that sleep for it are not looked for
 *   9  a thread that leaves a watched slot wakes nobody although all sleep
 *  10  a thread that takes a slot does not look at those taken before
 *  11  a thread that leaves a slot does not tell the tree although somebody is queued
 *  12  a thread that has taken a slot does not look at the hull again
 *  13  ranges that wait are in nobody's way
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define N THREADS
#define NONE 255
#define own (N + SLOTS + me)        /* the name of a thread's entry that it did not wait for */

/* The word: which slots are taken, and which of them by writers; and its flags. */
byte used, writers;
bool tree, queued;
/* The range in each slot, or zero: it is just being taken or left. The extent of what is in the tree. */
byte packed[SLOTS], hull;
/* What the lock shows of those that may be overtaken. */
#define NOBODY 0
#define SLEEP 1
#define WAKEFUL 2
byte shown, watched;

/* What the tree lock guards: the entries, in the order in which they came: threads, and from N on slots, then `own`. */
bool locked;
byte line[2 * N + SLOTS], entries, span[2 * N + SLOTS];
bool writes[2 * N + SLOTS], moved[SLOTS];
byte patient[N], listed;        /* those that may be overtaken */
byte left;                      /* of what has left since they were looked at */
#ifdef LIVE
byte ticket, serving;           /* the tree lock's: first come, first served */
#endif

/* A waiter's record, and its parker. */
#define OUT 0
#define ASLEEP 1
#define AWAKE 2
#define QUEUED 3
#define GRANTED 4
byte state[N];
bool token[N];
byte sleeps_for[N];             /* who was in its way: */
#define UNKNOWN 1
#define TREE 2
#define SLOT 3                  /* this slot's holder, or the next one's, and so on */

/* Only for the properties. */
byte gone;
bool holds[N];
byte first[N];                  /* those that were queued before its attempt began, and still are */
bool wants[N];

#define conflict(i, j) ((span[i] & span[j]) && (writes[i] || writes[j]))
#define mine (1 << s)
#define rivals_of(i) (writes[i] -> used : writers)

/* ---- the tree: all under its lock ---- */

/* Its wake-ups come with the end of what it does under the lock. */
inline unlock() {
#ifdef LIVE
    serving = (serving + 1) % N; turn = 0;
#else
    locked = false;
#endif
#ifdef TRACE
    wakes = wakes & ~(1 << me);
#else
    k = 0;
    do
    :: k < N -> if :: wakes & (1 << k) -> token[k] = true :: else fi; k++
    :: else -> break
    od;
    wakes = 0;
#endif
    k = 0; w = 0; way = 0; rivals = 0
}

#ifdef TRACE
inline wake_all() {
    do
    :: atomic { wakes && c_expr { events[now.at].kind == 'U' } ->
        c_code { Pthread->k = events[now.at].flag - '0'; };
        if :: wakes & (1 << k) :: else -> failed = true fi;
        wakes = wakes & ~(1 << k); k = 0 SEES('U', 0) }
    :: !wakes -> break
    od
}
#endif

#define passes(i) (MUTANT == 13 && i < N && state[i] == QUEUED)
/* `found`: whether an entry before place `k` conflicts with `who`. */
inline look_ahead(who) {
    j = 0;
    do
    :: j < k && (!conflict(line[j], who) || passes(line[j])) -> j++
    :: else -> break
    od;
    found = (j < k); j = 0
}

inline no_longer_queued(who) {
    j = 0;
    do :: j < N -> first[j] = first[j] & ~(1 << who); j++ :: else -> break od;
    j = 0
}

inline leave_line(who) {
    k = 0;
    do :: line[k] != who -> k++ :: else -> break od;
    do :: k + 1 < entries -> line[k] = line[k + 1]; k++ :: else -> break od;
    entries--; line[entries] = 0; k = 0;
    if :: listed > 0 -> left = convex(left | span[who]) :: else fi
}

/* `Ranges::remove` */
inline remove(who) {
    leave_line(who);
    do
    :: k < entries ->
        if
        :: line[k] < N && state[line[k]] == QUEUED && conflict(line[k], who) ->      /* had counted it */
            look_ahead(line[k]);
            if :: !found -> grant(line[k]) :: else fi
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0; found = false
}

inline forget_slot(i) { moved[i] = false; span[N + i] = 0; writes[N + i] = false }

inline grant(who) {
    no_longer_queued(who);
    state[who] = GRANTED; wakes = wakes | (MUTANT == 2 -> 0 : 1 << who)
}

/* Extends the hull, changes the word, and sees the slots that were taken before. */
inline publish(who, waits) {
#if MUTANT != 3
    hull = convex(hull | span[who]);
#endif
    atomic { tree = true; queued = queued || waits; rivals = rivals_of(who) }
#if MUTANT == 3
    ; hull = convex(hull | span[who])
#endif
}

/* `enqueue`, `migrate_rivals`: enters `who`, and before it those in slots that it waits for. */
inline enqueue(who) {
    publish(who, true);
    k = 0;
    do
    :: k < SLOTS && (rivals & (1 << k)) && !moved[k] && MUTANT != 4 ->
        d_step {
            span[N + k] = (packed[k] == 0 -> (MUTANT == 5 -> 0 : SPANS) : packed[k]);
            if
            :: span[N + k] & span[who] ->
                writes[N + k] = ((writers & (1 << k)) != 0); moved[k] = true; line[entries] = N + k; entries++
            :: else -> span[N + k] = 0
            fi;
            k++
        }
    :: k < SLOTS && (!(rivals & (1 << k)) || moved[k] || MUTANT == 4) -> k++
    :: k == SLOTS -> break
    od;
    skip;
    d_step {
        k = entries; look_ahead(who); line[entries] = who; entries++; k = 0; rivals = 0;
        if :: found -> state[who] = QUEUED :: else -> grant(who) fi; found = false
    }
}

/* ---- those that may be overtaken ---- */

#define awake(i) (state[i] == AWAKE)

/* Who is in the way of `who`. */
inline in_way(who) {
    k = entries; look_ahead(who); k = 0;
    way = (found -> TREE : 0); found = false;
    do
    :: k < SLOTS && way != TREE && way < SLOT ->
        if
        :: !(rivals_of(who) & (1 << k))
        :: (rivals_of(who) & (1 << k)) && packed[k] == 0 -> way = UNKNOWN
        :: (rivals_of(who) & (1 << k)) && (packed[k] & span[who]) -> way = SLOT + k
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* `watch`: from now on the holder that is in the way tells when it leaves. */
inline watch(who) {
    do
    :: d_step { in_way(who) };
        if
        :: way >= SLOT && !(watched & (1 << (way - SLOT))) ->
            watched = watched | (1 << (way - SLOT))
#if MUTANT == 6
            ; sleeps_for[who] = way; break
#endif
        :: else -> sleeps_for[who] = way; break
        fi
    od;
    skip
}

#define LOOK_ALL 1
#define LOOK_AT 2       /* those that wait for a part of `what` */
#define LOOK_FOR 3      /* those that sleep for `what` */
#define LOOK_LATE 4     /* all, even those that wait for others that are awake */

/* `wake_free`: wakes those that can go on, and do not wait for each other; the first that cannot is `vain`. */
inline wake_free() {
    d_step { blocked = NONE; vain = NONE; woken = false };
    do
    :: p < listed ->
        w = patient[p];
        d_step {
            j = 0; found = awake(w);
            if
            :: awake(w) -> awakes = (look == LOOK_LATE -> awakes : awakes | (1 << w))
            :: else ->
                do
                :: j < N -> if :: (awakes & (1 << j)) && conflict(j, w) -> found = true :: else fi; j++
                :: else -> break
                od;
                if
                :: look == LOOK_AT && !(span[w] & what) -> found = true
                :: look == LOOK_FOR && sleeps_for[w] != what -> found = true
                :: else
                fi
            fi;
            j = 0
        };
        if
        :: found
        /* it asks for more than one that cannot go on */
        :: !found && blocked != NONE && (span[w] & span[blocked]) == span[blocked] && (writes[w] || !writes[blocked]) ->
            way = sleeps_for[blocked]; sleeps_for[w] = way
        :: else -> watch(w)
        fi;
        d_step {
            if
            :: !found && way >= SLOT -> marks = marks | (1 << (way - SLOT))
            :: else
            fi;
            if
            :: !found && way >= TREE -> blocked = w; if :: vain == NONE -> vain = w :: else fi
            :: !found && way < TREE ->
                state[w] = AWAKE; wakes = wakes | (1 << w); awakes = awakes | (1 << w); woken = true
            :: else
            fi;
            found = false; way = 0; p++
        }
    :: else -> break
    od;
    skip;
    d_step {
        if :: look == LOOK_ALL -> watched = marks :: else fi;
        p = 0; awakes = 0; marks = 0; w = 0; blocked = 0
    }
}

inline count_awake() {
    k = 0; alert = 0;
    do :: k < listed -> alert = alert + awake(patient[k]); k++ :: else -> break od;
    k = 0
}

/* `Queue::settle`, before the lock is left: the hull, the word and what is shown follow what is in the tree. */
inline settle() {
    d_step {
        k = 0; waiting = false;
        do :: k < N -> waiting = waiting || state[k] == QUEUED; k++ :: else -> break od;
        k = 0; p = 0;
        do      /* `forget_moved`: who leaves a slot does not tell any more */
        :: p < SLOTS -> if :: moved[p] && !waiting -> leave_line(N + p); forget_slot(p) :: else fi; p++
        :: else -> break
        od;
        p = 0; k = 0; hull = 0;
        do :: k < entries -> hull = convex(hull | span[line[k]]); k++ :: else -> break od;
        k = 0; tree = tree && entries > 0; queued = queued && waiting; waiting = false;
        count_awake();
        look = 0; what = left; left = 0;
        if
        :: listed == 0
        :: listed > 0 && alert == 0 && shown != SLEEP -> look = LOOK_ALL
        :: listed > 0 && (alert != 0 || shown == SLEEP) && what != 0 && MUTANT != 8 -> look = LOOK_AT
        :: else
        fi
    };
    if
    :: look == LOOK_ALL && MUTANT != 7 -> shown = SLEEP
    :: else
    fi;
    if :: look != 0 -> wake_free() :: else fi;
    d_step {
        count_awake();
        if
        :: listed == 0 -> shown = NOBODY; watched = 0
        :: alert > 0 -> shown = WAKEFUL
        :: else -> shown = SLEEP
        fi;
        alert = 0; vain = 0; woken = false; look = 0; what = 0;
        unlock() SEES('C', 'q')
    }
}

/* ---- in ---- */

/* Its bounds hold each by itself. */
inline look_at_hull() {
#ifdef TRACE
    above = from_start(hull); with_tree = (above & span[me]) && (to_end(hull) & span[me]); above = 0
#else
    with_tree = ((hull & span[me]) != 0)
#endif
}

/* Looks at the slots in `rivals`, which were taken before. */
inline look_at_rivals() {
    looked = (rivals != 0);
    do
    :: rivals == 0 || missed || unknown -> break
    :: rivals != 0 && !missed && !unknown ->
        d_step { k = 0; do :: !(rivals & (1 << k)) -> k++ :: else -> break od };
        if
#if MUTANT == 10
        :: packed[k] & span[me] -> rivals = rivals & ~(1 << k)
#else
        :: packed[k] & span[me] -> missed = true
#endif
        :: packed[k] != 0 && !(packed[k] & span[me]) -> rivals = rivals & ~(1 << k)
        :: packed[k] == 0 ->
            if
            :: atomic { used & (1 << k) -> missed = true }      /* it has looked often enough */
            :: atomic { !(used & (1 << k)) -> rivals = rivals_of(me) & ~(has_slot -> mine : 0) }
            fi
        fi
    od;
    atomic { rivals = 0; with_tree = false; k = 0 }
}

inline take_slot(is_free) {
    s = 0;
    do :: s < SLOTS && !(is_free) -> s++ :: else -> break od;
    has_slot = (s < SLOTS);
    if
    :: has_slot -> rivals = rivals_of(me); with_tree = tree; used = used | mine;
        if :: writes[me] -> writers = writers | mine :: else fi
    :: else -> s = 0
    fi
}

inline leave_slot() { used = used & ~mine; writers = writers & ~mine; has_slot = false }

/* `try_slot`: neither slots nor hull are in the way. `unknown`: the tree has to be asked. `with_tree`: what the hull said. */
inline try_slot() {
    d_step {
        unknown = queued || (tree && with_tree); with_tree = false;
        if :: !unknown -> take_slot(!(used & mine)); unknown = !has_slot :: else fi SEES('C', 0)
    };
    if
    :: has_slot ->
        atomic { packed[s] = span[me] SEES('C', 0) };
        /* Once more: the hull may have grown since. */
        if :: with_tree && MUTANT != 12 -> look_at_hull(); unknown = with_tree :: else fi;
        look_at_rivals();
        if
        :: looked && !missed && !unknown ->
            d_step { with_tree = tree; unknown = queued };
            if :: with_tree && !unknown -> look_at_hull(); unknown = with_tree :: else fi
        :: else
        fi;
        hold = (!missed && !unknown)
    :: else
    fi;
    d_step { with_tree = false; looked = false; rivals = 0 }
}

/* `try_beside_tree`: asks the tree, and takes a slot, or an entry that is held. */
inline ask_tree() {
    d_step { k = entries; look_ahead(me); missed = found; found = false; k = 0 };
    if
    :: missed
    :: !missed -> d_step { take_slot(!(used & mine) && !moved[s]) };
        if
        :: has_slot -> packed[s] = span[me]; look_at_rivals();
            /* Nobody can have counted this slot. */
            if :: missed -> packed[s] = 0; d_step { leave_slot(); s = 0 } :: else -> hold = true fi
        :: else
        fi
    :: !missed -> publish(me, false); look_at_rivals();
        if
        :: !missed ->
            d_step { line[entries] = own; entries++; span[own] = span[me]; writes[own] = writes[me]; node = own; hold = true }
        :: else
        fi
    fi
}

/* ---- waits ---- */

/* A waiter that is listed, at place `k`, is not any more. */
inline unlist(who) {
    do :: k + 1 < listed -> patient[k] = patient[k + 1]; k++ :: else -> break od;
    listed--; patient[listed] = 0; k = 0; state[who] = OUT; sleeps_for[who] = 0
}

/* `rest`: it did not get its range. */
inline rest() {
    d_step { count_awake() };
    if
    :: !FOREVER -> over = true
    :: FOREVER || !rested ->
#ifdef LIVE
        rested = true
#endif
    fi;
    if
    :: over ->          /* `enqueue_up_to`: it, and those that came before it */
        do
        :: listed == 0 -> break
        :: listed > 0 -> d_step { k = 0; w = patient[0]; unlist(w) }; enqueue(w);
            if :: w == me -> break :: else fi
        od
    :: !over && !awake(me)
    :: !over && awake(me) ->
        if
        :: alert == 1 -> look = LOOK_ALL; wake_free(); naps = !woken    /* ranges are in use */
        :: alert == 1 -> d_step { in_way(me) }; naps = (way == UNKNOWN)
        :: alert != 1
        fi;
        if :: naps -> watch(me) :: else -> state[me] = ASLEEP fi
    fi
}

/* `wake_patient`: a slot was left, and all sleep. */
inline wake_patient() {
    watched = watched & ~mine;
    d_step { look = LOOK_FOR; what = SLOT + s };
    wake_free();
    d_step { count_awake() };
    if      /* ranges may seem to be in use: then one is awake, and looks again */
    :: alert == 0 && vain != NONE -> d_step { state[vain] = AWAKE; wakes = wakes | (1 << vain); alert++ }
    :: true
    fi;
    if :: alert > 0 -> watched = watched | mine :: else fi
}

/* `wake_if_late`: who is awake does not look. Some of the others have waited for too long. */
inline wake_if_late() {
    do
    :: break
    :: listed > 0 && !FOREVER -> d_step { k = 0; w = patient[0]; unlist(w) }; enqueue(w)
    od;
    look = LOOK_LATE; wake_free()
}

/* What a thread does under the tree lock. */
#define ASK 1           /* `try_beside_tree` */
#define TELL 2          /* `tell_that_slot_was_left` */
#define WAKE 3          /* `tell_patient`, if all sleep */
#define LIST 4          /* `list` */
#define QUEUE 5         /* `enqueue` */
#define TAKE_OUT 6      /* `take_out`: `granted` if it came too late */
#define REMOVE 7        /* `release_node` */
#define REST 8
#define LATE 9          /* `wake_if_late` */

proctype thread(byte me) free_to_move {
#ifdef TRACE
    byte above;
#endif
    byte op, k, j, s, w, p, way, rivals, wakes, alert, awakes, marks, blocked, vain, node, look, what, visits;
    bool found, waiting, woken, looked, missed, unknown, with_tree, has_slot, tells, hold, over, rested, naps, early,
        granted, quits, waits, leaves, timer;
#ifdef LIVE
    byte turn;
#endif
comes:
    atomic {
        hold = false; leaves = false; waits = false; quits = false; rested = false; node = 0; op = 0; wants[me] = false;
        first[me] = 0; span[me] = 0; span[own] = 0; writes[me] = false; writes[own] = false; token[me] = false;
#ifdef TRACE
        !has_range -> span[me] = about & SPANS; writes[me] = ((about & 16) != 0)
    };
#else
        if :: VISITS > 0 && visits == VISITS -> goto goes :: else fi;
        visits = visits + (VISITS > 0);
        if
#ifndef LIVE
        :: goto goes
#endif
        :: RANGES == 1 || me != 0 -> span[me] = 1
        :: RANGES > 1 && (me != 0 || RANGES > 2) -> span[me] = 2
        :: RANGES > 1 && (me == 0 || RANGES > 2) -> span[me] = SPANS
        fi;
        if :: writes[me] = true :: READS fi;
        wants[me] = true
    };
#endif
attempt:
#ifdef TRACE
    look_at_hull();
#else
    atomic { k = 0; first[me] = 0;
        do
        :: k < N -> if :: state[k] == QUEUED && k != me -> first[me] = first[me] | (1 << k) :: else fi; k++
        :: else -> break
        od;
        k = 0;
        look_at_hull()          /* of `try_slot` */
    };
#endif
    try_slot();
    if
    :: hold -> goto tried
    :: !hold && has_slot -> goto releases
    :: !hold && !has_slot -> op = ASK; goto section
    fi;

tried:
    atomic { missed = false; unknown = false; looked = false };
    if
    :: hold && !waits -> goto has
    :: !hold && !waits ->
        if
        :: gives_up -> goto comes
        :: fails_at_will -> goto attempt        /* it spins */
        :: d_step { waits = true; early = !FIFO; op = QUEUE }; goto section  /* `queue_awake`: for a moment */
        :: fails_at_will && !FIFO -> d_step { waits = true; op = LIST }; goto section   /* too many wait */
        fi
    :: hold && waits -> op = TAKE_OUT; goto section
    :: !hold && waits -> if :: quits -> op = TAKE_OUT :: else -> op = REST fi; goto section
    fi;

again:
    if
    :: state[me] == GRANTED -> d_step { node = me; hold = true; first[me] = 0 }; goto has
    :: state[me] == AWAKE -> goto attempt
    :: (state[me] == QUEUED && early) || (state[me] != GRANTED && state[me] != AWAKE && quits) -> op = TAKE_OUT; goto section
    :: fails_at_will && gives_up && !quits -> quits = true; goto again
    :: state[me] == QUEUED && !early && !quits
    :: state[me] == ASLEEP && !quits -> op = REST; goto section
    fi;
sleeps:
#ifndef TRACE           /* a sleep is no event */
    if
    :: d_step { token[me] -> token[me] = false }
    :: timer            /* its patience may end */
    :: gives_up -> quits = true
    fi;
#endif
    timer = false;
    goto again;

releases:               /* `release_slot` */
#ifdef TRACE
    leaves == has_range ->
#endif
    atomic { packed[s] = 0 SEES('C', 0) };
    d_step { tells = queued; leave_slot() SEES('C', 0) };
    if :: tells && MUTANT != 11 -> tells = false; op = TELL; goto section :: else fi;
told:
    tells = false;
    if
    :: !(watched & mine)
    :: watched & mine ->
        if
        :: shown == SLEEP && MUTANT != 9 -> op = WAKE; goto section
        /* If one is awake, that one looks. If nobody is listed any more, nor is a slot watched (asserted in `section`). */
        :: shown != SLEEP || MUTANT == 9
        :: shown == WAKEFUL -> op = LATE; goto section  /* unless it is late */
        fi
    fi;
released:
    s = 0;
    if
    :: leaves -> goto comes
    :: !leaves && unknown -> op = ASK; goto section
    :: !leaves && !unknown -> goto tried
    fi;

section:
#ifdef TRACE
    atomic {            /* the schedules do not interrupt it */
    op != REMOVE || leaves == has_range;
#endif
    atomic {
#ifdef LIVE
        turn = ticket; ticket = (ticket + 1) % N };
    atomic { serving == turn ->
#else
        !locked -> locked = true;
#endif
        assert(listed > 0 || !watched);
        if
        :: op == TELL -> if :: moved[s] && !(used & mine) -> remove(N + s); forget_slot(s) :: else fi
        :: op == TAKE_OUT ->
            if
            :: state[me] == GRANTED -> granted = true
            :: state[me] == QUEUED -> no_longer_queued(me); state[me] = OUT;
#if MUTANT == 1     /* it lets nobody in */
                leave_line(me)
#else
                remove(me)
#endif
            :: else ->
                k = 0;
                do :: patient[k] != me -> k++ :: else -> break od;
                unlist(me)
            fi
        :: op == REMOVE ->
            k = (leaves -> node : me);          /* it leaves, or has two, and gives one back */
            if :: k == me -> state[me] = OUT :: else fi;
            what = k; remove(what); what = 0
        :: else
        fi
    };
    if
    :: op == ASK -> unknown = false; ask_tree()
    :: op == WAKE -> wake_patient()
    :: op == LIST ->
        d_step { token[me] = false; patient[listed] = me; listed++; state[me] = ASLEEP };
        watch(me);
        if :: way < TREE -> state[me] = AWAKE :: else fi
    :: op == QUEUE -> token[me] = false; enqueue(me)
    :: op == REST -> rest()
    :: op == LATE -> wake_if_late()
    :: else
    fi;
    settle();
#ifdef TRACE
    };
    wake_all();
#endif
    if
    :: op == ASK -> goto tried
    :: op == TELL -> goto told
    :: op == WAKE || op == LATE -> goto released
    :: op == LIST || op == QUEUE -> goto again
    :: op == REST ->
        if
        :: naps || over -> d_step { naps = false; over = false }; goto again
        :: else -> timer = !FOREVER; goto sleeps
        fi
    :: op == REMOVE -> if :: leaves -> goto comes :: else -> goto has fi
    :: op == TAKE_OUT ->
        if
        :: hold && granted -> d_step { granted = false; first[me] = 0; op = REMOVE }
        :: hold && !granted -> goto has
        :: !hold && granted -> d_step { granted = false; node = me; hold = true; first[me] = 0 }; goto has
        :: !hold && !granted && early && gives_up -> goto comes
        :: !hold && !granted && early -> d_step { early = false; op = LIST }
        :: !hold && !granted && !early -> goto comes
        fi;
        goto section
    fi;

has:
    atomic {
#ifndef TRACE
        do :: j < N -> assert(j == me || !holds[j] || !conflict(me, j)); j++ :: else -> break od;
        j = 0;
        do :: j < N -> assert(!(first[me] & (1 << j)) || !conflict(me, j)); j++ :: else -> break od;
        j = 0; holds[me] = true; wants[me] = false;
#endif
        first[me] = 0; waits = false; early = false; quits = false; rested = false
    };
    d_step { holds[me] = false; leaves = true; op = REMOVE };
    if :: has_slot -> goto releases :: else -> goto section fi;

#ifndef TRACE
goes:
    gone++
#endif
}

#ifdef TRACE
c_code {
/* Slots that are taken, and by writers; 1 TREE and 2 QUEUED; the range in each slot; the hull; what is shown, and what is watched. Then what
 * is in the tree, and those that may be overtaken: state, whose, range, kind, and what it sleeps for. */
static void state_text(char *text)
{   int i, name, way;
    text += sprintf(text, "%02x %02x %d ", now.used, now.writers, now.tree + 2 * now.queued);
    for (i = 0; i < SLOTS; i++) text += sprintf(text, "%x", now.packed[i]);
    text += sprintf(text, " %x %d%02x", now.hull, now.shown, now.watched);
    for (i = 0; i < now.entries; i++)
    {   name = now.line[i];
        text += sprintf(text, " %c%d%x%c-", name >= N + SLOTS ? 'o' : name >= N ? 's' : now.state[name] == QUEUED ? 'q' : 'g',
            name % N, now.span[name], "rw"[now.writes[name]]);
    }
    for (i = 0; i < now.listed; i++)
    {   name = now.patient[i]; way = now.sleeps_for[name];
        text += sprintf(text, " %c%d%x%c%c", now.state[name] == AWAKE ? 'A' : 'Z', name, now.span[name], "rw"[now.writes[name]],
            way >= SLOT ? '0' + way - SLOT : "-?t"[way]);
    }
}

static void set_state(const char *text)
{   unsigned used, writers, flags, hull, watched, i, name, span;
    unsigned shown;
    char slots[SLOTS + 1], state, kind, way;
    sscanf(text, "%x %x %u %8s %x %1u%2x", &used, &writers, &flags, slots, &hull, &shown, &watched);
    now.used = used; now.writers = writers; now.tree = flags & 1; now.queued = flags >> 1; now.hull = hull;
    now.shown = shown; now.watched = watched;
    for (i = 0; i < SLOTS; i++) now.packed[i] = slots[i] <= '9' ? slots[i] - '0' : slots[i] - 'a' + 10;
    for (i = 0; i < 2 * N + SLOTS; i++)
    {   now.line[i] = 0;
        if (i != now.one) now.span[i] = now.writes[i] = 0;
    }
    for (i = 0; i < SLOTS; i++) now.moved[i] = 0;
    for (i = 0; i < N; i++) now.state[i] = now.patient[i] = now.sleeps_for[i] = 0;
    now.entries = now.listed = 0;
    for (i = 0; i < 5; i++) text = strchr(text, ' ') + 1;
    while ((text = strchr(text, ' ')))
    {   sscanf(++text, "%c%1u%1x%c%c", &state, &name, &span, &kind, &way);
        if (state == 'A' || state == 'Z')
        {   now.patient[now.listed++] = name;
            now.sleeps_for[name] = way == '-' ? 0 : way == '?' ? UNKNOWN : way == 't' ? TREE : SLOT + way - '0';
            now.state[name] = state == 'A' ? AWAKE : ASLEEP;
        } else
        {   if (state == 's') now.moved[name] = 1;
            else if (state != 'o') now.state[name] = state == 'q' ? QUEUED : GRANTED;
            name += state == 's' ? N : state == 'o' ? N + SLOTS : 0;
            now.line[now.entries++] = name;
        }
        now.span[name] = span; now.writes[name] = kind == 'w';
    }
}
}
#else
/* When all have gone, nothing is left of them. */
active proctype monitor() {
    gone == N;
    assert(!used && !writers && !tree && !queued && !hull && !shown && !watched && !entries && !listed);
    assert(!packed[0] && !packed[SLOTS - 1] && !moved[0] && !moved[SLOTS - 1])
}
#endif

init {
#ifdef TRACE
    atomic { begin_trace(); c_code { now.FIFO = !strncmp(names[now.which], "range:fifo", 10); }; run thread(one) }
#else
    byte i;
    atomic { do :: i < N -> run thread(i); i++ :: else -> break od }
#endif
}

#ifdef LIVE
ltl served { [] (wants[0] -> <> !wants[0]) }
#endif
