/* Traces of the code for tenure.pml, included in the verifier that Spin makes of it (.ci/traces). A file has one
 * event a line, and `#` with a name before each trace:
 *
 *   THREAD KIND FLAG WRITES MAY_GIVE_UP WRITTEN READERS WAITERS HANDOFF READERS_TURN WAKE_NEXT QUEUE
 *
 * KIND: C the word or the queue changed, S goes to sleep, P the sleep ended, U wakes thread FLAG, L of a waiter: it
 * looked at the lock before the next event. FLAG of C: q under the queue lock, else -. Of S: t with a timer, - without, x does not matter. Of P: w woken, t timer or
 * deadline, s no reason. QUEUE: thread and state (W waiting, N next, I invited) of each that waits, readers first.
 */
typedef struct { short thread; char kind, flag, writes, may_give_up; short word[6]; char queue[20]; } Event;

static Event *events;
static int *starts, traces;             /* where each trace begins; the last entry is where all end */
static char (*names)[40], *accepted;
static int *furthest;
static char *covered;

extern long depth;
extern Trail *trail;    /* the search's stack */
static void trace_report(void);

static void trace_read(void)
{   FILE *file;
    char line[120];
    int n = 0;
    if (events) return;
    if (!(file = fopen("traces", "r"))) { perror("traces"); exit(2); }
    while (fgets(line, sizeof line, file)) { n++; traces += line[0] == '#'; }
    rewind(file);
    events = calloc(n + 1, sizeof *events); starts = calloc(traces + 1, sizeof *starts);
    names = calloc(traces, sizeof *names); accepted = calloc(traces, 1); furthest = calloc(traces, sizeof *furthest);
    covered = calloc(4096, 1);
    traces = n = 0;
    while (fgets(line, sizeof line, file))
    {   Event *e = &events[n];
        short *w = e->word;
        if (line[0] == '#') { sscanf(line, "# %39s", names[traces]); starts[traces++] = n; continue; }
        if (sscanf(line, "%hd %c %c %c %c %hd %hd %hd %hd %hd %hd %19s", &e->thread, &e->kind, &e->flag, &e->writes,
                &e->may_give_up, w, w + 1, w + 2, w + 3, w + 4, w + 5, e->queue) != 12)
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
    accepted[now.which] = 1;
    now.failed = 1;
    for (i = 1; i <= depth; i++) { Trail *t = &trail[i]; if (t->o_t) covered[t->o_t->forw] = 1; }
}

static void trace_turn(void)
{   int reached = now.at - starts[now.which];
    if (reached > furthest[now.which]) furthest[now.which] = reached;
    if (accepted[now.which]) { now.failed = 1; return; }
    if (now.at == starts[now.which + 1]) { trace_accept(); return; }
    now.turn = events[now.at].thread;
    now.writing[now.turn] = events[now.at].writes == '1';
    now.may_give_up = events[now.at].may_give_up == '1';
}

static void trace_begin(void) { now.at = starts[now.which]; trace_turn(); }
static void trace_next(void) { now.at++; trace_turn(); }

/* Whether the model's word and queue are as in the event; without one, as in the beginning. */
static int trace_same(const Event *e)
{   static const Event none = { .queue = "-" };
    char queue[20] = "-";
    int i, kind, n = 0;
    if (!e) e = &none;
    if (now.written != e->word[0] || now.readers != e->word[1] || now.waiters != e->word[2]
        || now.handoff != e->word[3] || now.readers_turn != e->word[4] || now.wake_next != e->word[5]) return 0;
    for (kind = 0; kind < 2; kind++)
        for (i = 0; i < now.count; i++)
            if (now.writing[now.queue[i]] == kind)
            {   int t = now.queue[i];
                queue[n++] = '0' + t;
                queue[n++] = now.next == t ? 'N' : now.state[t] == INVITED ? 'I' : 'W';
                queue[n] = 0;
            }
    return !strcmp(queue, e->queue);
}

static void trace_step(int me, int kind, int flag)
{   Event *e = &events[now.at];
    int fits;
    if (now.failed) return;
    /* What changes nothing is no event. */
    if (kind == 'C' && trace_same(now.at > starts[now.which] ? e - 1 : 0)) return;
    fits = e->thread == me && e->kind == kind && trace_same(e);
    if (kind == 'C') fits = fits && (e->flag == 'q') == (flag == 'q');
    if (kind == 'S') fits = fits && (e->flag == 'x' || (e->flag == 't') == flag);
    if (kind == 'P' && flag == 's') fits = fits && (e->flag == 's' || (e->flag == 't' && e->may_give_up == '1'));
    else if (kind == 'P') fits = fits && e->flag == flag;
    if (fits) trace_next(); else now.failed = 1;
}

static void trace_report(void)
{   int i, refused = 0;
    for (i = 0; i < traces; i++)
        if (!accepted[i])
        {   refused++;
            printf("refused: %s: event %d of %d\n", names[i], furthest[i] + 1, starts[i + 1] - starts[i]);
        }
    for (i = 0; i < 4096; i++) if (covered[i]) printf("covered: %d\n", i);
    printf("traces: %d, refused: %d\n", traces, refused);
}
