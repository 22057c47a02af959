/* What a model needs that does what a trace of the code says (trace.h), if it can. It includes this with TRACE, and has
 * threads `thread(me)`, numbered from zero and begun after `begin_trace`, and a C function `state_text` that writes its state
 * as the recorder does. SEES, at the end of a step, demands that the next event of the trace be this one.
 *
 * With ALONE, that state is all that threads know of each other. Then a trace is one of the model if it is that for each
 * thread by itself, to which the trace says what the others do: the model runs one thread, and has a C function
 * `set_state`, which reads what `state_text` writes.
 */
#define d_step atomic   /* some choices are the trace's, and each statement counts as reached by itself */
#define SEES(kind, flag) ; c_code { trace_step(Pthread->me, kind, flag); }
int which, at;          /* the trace, and its next event, */
byte turn;              /* the thread that makes it, */
bool may_give_up;       /* whether its visit, or the one before, may end without the lock, */
bool counts_itself;     /* whether it is sure to stay, */
byte errand[8];         /* and what each thread is about */
bool failed;            /* this is not what the trace says */
byte finishing = 255;   /* the thread that has only steps left that see nothing: it makes them before all others, or there are many more runs */
#ifdef ALONE
byte one;               /* the thread that runs */
#define free_to_move provided (!failed && turn == one)
#else
#define free_to_move provided (!failed && (finishing == 255 -> turn : finishing) == _pid - 2)
#endif
c_code {
static void state_text(char *text);
#ifdef ALONE
static void set_state(const char *text);
#endif
#include "trace.h"
}

/* A thread looked at the lock, and others go on. */
proctype looks() provided (!failed) {
end:
    do
#ifdef ALONE
    :: atomic { turn != one -> c_code { trace_follow(); } }
    :: atomic { turn == one && c_expr { events[now.at].kind == 'L' }; c_code { trace_next(); } }
#else
    :: atomic { finishing == 255 && c_expr { events[now.at].kind == 'L' }; c_code { trace_next(); } }
#endif
    od
}

inline begin_trace() {
    c_code { trace_read(); };
    do
    :: c_expr { now.which + 1 < traces } -> which++
    :: break
    od;
#ifdef ALONE
    do :: one < THREADS - 1 -> one++ :: break od;
#endif
    c_code { trace_begin(); };
    run looks()
}
