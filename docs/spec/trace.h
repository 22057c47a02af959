/* Traces of the code for a model (trace.pml), included in the verifier that Spin makes of it (.ci/traces). A file has one
 * event a line, and `#` with a name and the state at the beginning before each trace:
 *
 *   THREAD KIND FLAG ERRAND MAY_GIVE_UP STATE
 *
 * KIND: C the state changed, S goes to sleep, P the sleep ended, U wakes thread FLAG, L of a thread: it
 * looked at the lock before the next event. FLAG of C: q under a queue lock, else -. Of S: t with a timer, - without, x does not matter. Of P: w woken, t timer or
 * deadline, s no reason. ERRAND: 1 to write, 0 to read, or a
 * letter of the model. STATE: what the model's `state_text` writes.
 */
typedef struct { short thread; char kind, flag, errand, may_give_up, state[160]; } Event;

static Event *events;
static int *starts, traces;             /* where each trace begins; the last entry is where all end */
static char (*names)[40], (*begins)[160];
/* Of each trace, and of each thread that runs alone. */
static char (*accepted)[8];
static int (*furthest)[8];
#ifdef ALONE
#define RUNS now.one
#define RUN_COUNT THREADS
#else
#define RUNS 0
#define RUN_COUNT 1
#endif
static char *covered;

extern long depth;
extern Trail *trail;    /* the search's stack */
static void trace_report(void);

static void trace_read(void)
{   FILE *file;
    char line[200];
    int n = 0;
    if (events) return;
    if (!(file = fopen("traces", "r"))) { perror("traces"); exit(2); }
    while (fgets(line, sizeof line, file)) { n++; traces += line[0] == '#'; }
    rewind(file);
    events = calloc(n + 1, sizeof *events); starts = calloc(traces + 1, sizeof *starts);
    names = calloc(traces, sizeof *names); begins = calloc(traces, sizeof *begins);
    accepted = calloc(traces, sizeof *accepted); furthest = calloc(traces, sizeof *furthest);
    covered = calloc(4096, 1);
    traces = n = 0;
    while (fgets(line, sizeof line, file))
    {   Event *e = &events[n];
        if (line[0] == '#')
        {   sscanf(line, "# %39s %159[^\n]", names[traces], begins[traces]);
            starts[traces++] = n;
            continue;
        }
        if (sscanf(line, "%hd %c %c %c %c %159[^\n]", &e->thread, &e->kind, &e->flag, &e->errand,
                &e->may_give_up, e->state) != 6)
        {   fprintf(stderr, "traces: not an event: %s", line); exit(2); }
        n++;
    }
    starts[traces] = n;
    fclose(file);
    atexit(trace_report);
}

/* The trace is one of the model: notes the transitions that led here. */
static void trace_accept(void)
{   long i;
    accepted[now.which][RUNS] = 1;
    now.failed = 1;
    for (i = 1; i <= depth; i++) { Trail *t = &trail[i]; if (t->o_t) covered[t->o_t->forw] = 1; }
}

/* The visit of the thread's last event may have ended without the lock, after a mere look. */
static int trace_gave_up(void)
{   int at = now.at;
    while (--at >= starts[now.which]) if (events[at].thread == now.turn) return events[at].may_give_up == '1';
    return 0;
}

static void trace_turn(void)
{   int reached = now.at - starts[now.which];
    if (reached > furthest[now.which][RUNS]) furthest[now.which][RUNS] = reached;
    if (accepted[now.which][RUNS]) { now.failed = 1; return; }
    if (now.at == starts[now.which + 1]) { trace_accept(); return; }
    now.turn = events[now.at].thread;
    now.errand[now.turn] = events[now.at].errand;
    now.counts_itself = events[now.at].may_give_up == '0';
    now.may_give_up = !now.counts_itself || trace_gave_up();
}

static void trace_begin(void) { now.at = starts[now.which]; trace_turn(); }
static void trace_next(void) { now.at++; trace_turn(); }

#ifdef ALONE
/* The others do what the trace says. */
static void trace_follow(void)
{   int end = starts[now.which + 1];
    for (; now.at < end && events[now.at].thread != now.one; now.at++) set_state(events[now.at].state);
    trace_turn();
}
#endif

/* Whether the model's state is this one. */
static int trace_same(const char *state)
{   static char text[400];
    state_text(text);
    return !strcmp(text, state);
}

static void trace_step(int me, int kind, int flag)
{   Event *e = &events[now.at];
    int fits;
    if (now.failed) return;
    /* What changes nothing is no event. */
    if (kind == 'C' && trace_same(now.at > starts[now.which] ? e[-1].state : begins[now.which])) return;
    fits = e->thread == me && e->kind == kind && trace_same(e->state);
    if (kind == 'C' && flag != 'x') fits = fits && (e->flag == 'q') == (flag == 'q');
    if (kind == 'U' && flag) fits = fits && e->flag == flag;
    if (kind == 'S') fits = fits && (e->flag == 'x' || (e->flag == 't') == flag);
    if (kind == 'P' && flag == 's') fits = fits && (e->flag == 's' || (e->flag == 't' && e->may_give_up == '1'));
    else if (kind == 'P') fits = fits && e->flag == flag;
    if (fits) trace_next(); else now.failed = 1;
}

static void trace_report(void)
{   int i, run, refused = 0;
    for (i = 0; i < traces; i++)
    {   int length = starts[i + 1] - starts[i], at = length;
        for (run = 0; run < RUN_COUNT; run++)
            if (!accepted[i][run] && furthest[i][run] < at) at = furthest[i][run];
        if (at < length)
        {   Event *e = &events[starts[i] + at];
            refused++;
            printf("refused: %s: event %d of %d: %d %c %c %c %c %s\n", names[i], at + 1, length, e->thread, e->kind, e->flag, e->errand,
                e->may_give_up, e->state);
        }
    }
    for (i = 0; i < 4096; i++) if (covered[i]) printf("covered: %d\n", i);
    printf("traces: %d, refused: %d\n", traces, refused);
}
