/* The range lock's queue: crates/fairlock/src/range (slots, hull, tree, and waiters that may be overtaken). Run by
 * .ci/spec; read README.md first.
 *
 * One step here is one atomic operation, or what a thread does under the tree lock between two looks at what others
 * change without it. There are two positions, so ranges are 1, 2 and 3, sets of bits; THREADS threads ask for any range,
 * to read or to write, again and again, and any but thread 0 may give up, if GIVE_UP is 1. Time is not counted: a wait may
 * be over at any moment, or, with FOREVER, never is; with FIFO nobody may be overtaken.
 */
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
#ifndef FIFO
#define FIFO 0
#endif
#ifndef FOREVER
#define FOREVER 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define N THREADS
#define NONE 255
#define own (N + SLOTS + me)        /* the name of a thread's entry that it did not wait for */
#define ALL 3           /* every position */
#define gives_up (GIVE_UP && me != 0)

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
    k = 0;
    do
    :: k < N -> if :: wakes & (1 << k) -> token[k] = true :: else fi; k++
    :: else -> break
    od;
    wakes = 0; k = 0; w = 0; way = 0; rivals = 0
}

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

/* `Ranges::remove` */
inline remove(who) {
    k = 0;
    do :: line[k] != who -> k++ :: else -> break od;
    do :: k + 1 < entries -> line[k] = line[k + 1]; k++ :: else -> break od;
    entries--; line[entries] = 0;
    if :: listed > 0 -> left = left | span[who] :: else fi;
    found = (who < N && state[who] == QUEUED);
    if
    :: found -> no_longer_queued(who); state[who] = OUT
    :: else
    fi;
    if
    :: found && MUTANT == 1         /* a waiter that leaves lets nobody in */
    :: else ->
        k = 0;
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
        od
    fi;
    k = 0; found = false
}

inline remove_slot(i) { moved[i] = false; remove(N + i); span[N + i] = 0; writes[N + i] = false }

inline grant(who) {
    no_longer_queued(who);
    state[who] = GRANTED; wakes = wakes | (MUTANT == 2 -> 0 : 1 << who)
}

/* Extends the hull, changes the word, and sees the slots that were taken before. */
inline publish(who, waits) {
    if
    :: MUTANT == 3 -> atomic { tree = true; queued = queued || waits; rivals = rivals_of(who) }; hull = hull | span[who]
    :: else -> hull = hull | span[who]; atomic { tree = true; queued = queued || waits; rivals = rivals_of(who) }
    fi
}

/* `enqueue`, `migrate_rivals`: enters `who`, and before it those in slots that it waits for. */
inline enqueue(who) {
    publish(who, true);
    k = 0;
    do
    :: k < SLOTS && (rivals & (1 << k)) && !moved[k] && MUTANT != 4 ->
        d_step {
            span[N + k] = (packed[k] == 0 -> (MUTANT == 5 -> 0 : ALL) : packed[k]);
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
            watched = watched | (1 << (way - SLOT));
            if :: MUTANT == 6 -> sleeps_for[who] = way; break :: else fi
        :: else -> sleeps_for[who] = way; break
        fi
    od;
    skip
}

#define LOOK_ALL 1
#define LOOK_AT 2       /* those that wait for a part of `what` */
#define LOOK_FOR 3      /* those that sleep for `what` */

/* `wake_free`: wakes those that can go on, and do not wait for each other; the first that cannot is `vain`. */
inline wake_free() {
    d_step { blocked = NONE; vain = NONE; woken = false };
    do
    :: p < listed ->
        w = patient[p];
        d_step {
            j = 0; found = awake(w);
            if
            :: awake(w) -> awakes = awakes | (1 << w)
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
inline settle_and_unlock() {
    d_step {
        k = 0; waiting = false;
        do :: k < N -> waiting = waiting || state[k] == QUEUED; k++ :: else -> break od;
        k = 0; p = 0;
        do      /* `forget_moved`: who leaves a slot does not tell any more */
        :: p < SLOTS -> if :: moved[p] && !waiting -> remove_slot(p) :: else fi; p++
        :: else -> break
        od;
        p = 0; k = 0; hull = 0;
        do :: k < entries -> hull = hull | span[line[k]]; k++ :: else -> break od;
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
        unlock()
    }
}

/* ---- in ---- */

/* Looks at the slots in `rivals`, which were taken before. `has_tree`: under the tree lock. */
inline look_at_rivals(has_tree) {
    looked = (rivals != 0);
    do
    :: rivals == 0 || missed || unknown -> break
    :: rivals != 0 && !missed && !unknown ->
        d_step { k = 0; do :: !(rivals & (1 << k)) -> k++ :: else -> break od };
        if
        :: packed[k] & span[me] -> missed = (MUTANT != 10);
            if :: MUTANT == 10 -> rivals = rivals & ~(1 << k) :: else fi
        :: packed[k] != 0 && !(packed[k] & span[me]) -> rivals = rivals & ~(1 << k)
        :: packed[k] == 0 ->
            if
            :: atomic { used & (1 << k) -> missed = true }      /* it has looked often enough */
            :: atomic { !(used & (1 << k)) -> rivals = rivals_of(me) & ~(has_slot -> mine : 0); with_tree = tree;
                unknown = !has_tree && queued };
                unknown = unknown || (!has_tree && with_tree && (hull & span[me]))
            fi
        fi
    od;
    if
    :: looked && !has_tree && !missed && !unknown ->
        d_step { with_tree = tree; unknown = queued };
        unknown = unknown || (with_tree && (hull & span[me]))
    :: else
    fi;
    d_step { rivals = 0; looked = false; with_tree = false; k = 0 }
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
        if :: !unknown -> take_slot(!(used & mine)); unknown = !has_slot :: else fi
    };
    if
    :: has_slot ->
        packed[s] = span[me];
        /* Once more: the hull may have grown since. */
        if :: with_tree && MUTANT != 12 -> unknown = ((hull & span[me]) != 0) :: else fi;
        look_at_rivals(false);
        hold = (!missed && !unknown)
    :: else
    fi;
    d_step { with_tree = false; rivals = 0 }
}

/* `try_beside_tree`: asks the tree, and takes a slot, or an entry that is held. */
inline ask_tree() {
    d_step { k = entries; look_ahead(me); missed = found; found = false; k = 0 };
    if
    :: missed
    :: !missed -> d_step { take_slot(!(used & mine) && !moved[s]) };
        if
        :: has_slot -> packed[s] = span[me]; look_at_rivals(true);
            /* Nobody can have counted this slot. */
            if :: missed -> packed[s] = 0; d_step { leave_slot(); s = 0 } :: else -> hold = true fi
        :: else
        fi
    :: !missed -> publish(me, false); look_at_rivals(true);
        if
        :: !missed ->
            d_step { line[entries] = own; entries++; span[own] = span[me]; writes[own] = writes[me]; node = own; hold = true }
        :: else
        fi
    fi
}

/* ---- waits ---- */

/* A waiter that is listed is not any more. */
inline unlist(who) {
    k = 0;
    do :: patient[k] != who -> k++ :: else -> break od;
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
        :: listed > 0 -> d_step { w = patient[0]; unlist(w) }; enqueue(w);
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

/* What a thread does under the tree lock. */
#define ASK 1           /* `try_beside_tree` */
#define TELL 2          /* `tell_that_slot_was_left` */
#define UNWATCH 3       /* `tell_patient`, if nobody is listed any more */
#define WAKE 4          /* or if all sleep */
#define LIST 5          /* `list` */
#define QUEUE 6         /* `enqueue` */
#define TAKE_OUT 7      /* `take_out`: `granted` if it came too late */
#define REMOVE 8        /* `release_node` */
#define REST 9

proctype thread(byte me) {
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
        if :: VISITS > 0 && visits == VISITS -> goto goes :: else fi;
        visits = visits + (VISITS > 0);
        if
#ifndef LIVE
        :: goto goes
#endif
        :: RANGES == 1 || me != 0 -> span[me] = 1
        :: RANGES > 1 && (me != 0 || RANGES > 2) -> span[me] = 2
        :: RANGES > 1 && (me == 0 || RANGES > 2) -> span[me] = ALL
        fi;
        if :: writes[me] = true :: READS fi;
        wants[me] = true
    };
attempt:
    atomic { k = 0; first[me] = 0;
        do
        :: k < N -> if :: state[k] == QUEUED && k != me -> first[me] = first[me] | (1 << k) :: else fi; k++
        :: else -> break
        od;
        k = 0;
        with_tree = ((hull & span[me]) != 0)        /* of `try_slot` */
    };
    try_slot();
    if
    :: hold -> goto tried
    :: !hold && has_slot -> goto releases
    :: !hold && !has_slot -> op = ASK; goto section
    fi;

tried:
    atomic { missed = false; unknown = false };
    if
    :: hold && !waits -> goto has
    :: !hold && !waits ->
        if
        :: gives_up -> goto comes
        :: d_step { waits = true; early = !FIFO; op = QUEUE }; goto section  /* `queue_awake`: for a moment */
        fi
    :: hold && waits -> op = TAKE_OUT; goto section
    :: !hold && waits -> if :: quits -> op = TAKE_OUT :: else -> op = REST fi; goto section
    fi;

looks:
    if
    :: state[me] == GRANTED -> d_step { node = me; hold = true; first[me] = 0 }; goto has
    :: state[me] == AWAKE -> goto attempt
    :: (state[me] == QUEUED && early) || (state[me] != GRANTED && state[me] != AWAKE && quits) -> op = TAKE_OUT; goto section
    :: state[me] == QUEUED && !early && !quits
    :: state[me] == ASLEEP && !quits -> op = REST; goto section
    fi;
sleeps:
    if
    :: d_step { token[me] -> token[me] = false }
    :: timer            /* its patience may end */
    :: gives_up -> quits = true
    fi;
    timer = false;
    goto looks;

releases:               /* `release_slot` */
    packed[s] = 0;
    d_step { tells = queued; leave_slot() };
    if :: tells && MUTANT != 11 -> tells = false; op = TELL; goto section :: else fi;
told:
    tells = false;
    if
    :: (watched & mine) && shown == NOBODY -> op = UNWATCH; goto section
    :: (watched & mine) && shown == SLEEP && MUTANT != 9 -> op = WAKE; goto section
    :: else             /* if one is awake, that one looks */
    fi;
released:
    s = 0;
    if
    :: leaves -> goto comes
    :: !leaves && unknown -> op = ASK; goto section
    :: !leaves && !unknown -> goto tried
    fi;

section:
    atomic {
#ifdef LIVE
        turn = ticket; ticket = (ticket + 1) % N };
    atomic { serving == turn ->
#else
        !locked -> locked = true;
#endif
        if
        :: op == TELL -> if :: moved[s] && !(used & mine) -> remove_slot(s) :: else fi
        :: op == UNWATCH -> if :: listed == 0 -> watched = watched & ~mine :: else fi
        :: op == TAKE_OUT ->
            if
            :: state[me] == GRANTED -> granted = true
            :: state[me] == QUEUED -> remove(me)
            :: else -> unlist(me)
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
    :: else
    fi;
    settle_and_unlock();
    if
    :: op == ASK -> goto tried
    :: op == TELL -> goto told
    :: op == UNWATCH || op == WAKE -> goto released
    :: op == LIST || op == QUEUE -> goto looks
    :: op == REST ->
        if
        :: naps || over -> d_step { naps = false; over = false }; goto looks
        :: else -> timer = !FOREVER; goto sleeps
        fi
    :: op == REMOVE -> if :: leaves -> goto comes :: else -> goto has fi
    :: op == TAKE_OUT ->
        if
        :: hold && granted -> d_step { granted = false; first[me] = 0; op = REMOVE }
        :: hold && !granted -> goto has
        :: !hold && granted -> d_step { granted = false; node = me; hold = true; first[me] = 0 }; goto has
        :: !hold && !granted && early -> d_step { early = false; op = LIST }
        :: !hold && !granted && !early -> goto comes
        fi;
        goto section
    fi;

has:
    atomic {
        do :: j < N -> assert(j == me || !holds[j] || !conflict(me, j)); j++ :: else -> break od;
        j = 0;
        do :: j < N -> assert(!(first[me] & (1 << j)) || !conflict(me, j)); j++ :: else -> break od;
        j = 0; holds[me] = true; wants[me] = false; first[me] = 0; waits = false; early = false; quits = false; rested = false
    };
    d_step { holds[me] = false; leaves = true; op = REMOVE };
    if :: has_slot -> goto releases :: else -> goto section fi;

goes:
    gone++
}

/* When all have gone, nothing is left of them. */
active proctype monitor() {
    gone == N;
    assert(!used && !writers && !tree && !queued && !hull && !shown && !watched && !entries && !listed);
    assert(!packed[0] && !packed[SLOTS - 1] && !moved[0] && !moved[SLOTS - 1])
}

init {
    byte i;
    atomic { do :: i < N -> run thread(i); i++ :: else -> break od }
}

#ifdef LIVE
ltl served { [] (wants[0] -> <> !wants[0]) }
#endif
