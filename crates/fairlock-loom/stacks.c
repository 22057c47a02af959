/* Keeps the stacks of loom's threads for the next ones, in place of what the system has for that. A model starts its threads
   anew for each interleaving: to map and unmap their stacks was half of the time of most models. .ci/model-check preloads it. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the calling thread, which runs a whole model. Whatever has no place here is the system's. */
enum { PLACES = 64 };
static _Thread_local struct stack {
    char *begin;
    size_t size;
    bool is_used, is_guarded;
} stacks[PLACES];

static struct stack *find(const char *begin, size_t size, bool is_used) {
    for (struct stack *it = stacks; it < stacks + PLACES; it++)
        if (it->is_used == is_used && it->size == size && (!begin || it->begin == begin))
            return it;
    return NULL;
}

void *mmap(void *at, size_t size, int rights, int flags, int file, off_t offset) {
    bool is_stack = flags == (MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK) && !at;
    struct stack *kept = is_stack ? find(NULL, size, false) : NULL;
    if (!kept) {
        void *begin = (void *)syscall(SYS_mmap, at, size, rights, flags, file, offset);
        kept = is_stack && begin != MAP_FAILED ? find(NULL, 0, false) : NULL;
        if (!kept)
            return begin;
        *kept = (struct stack){.begin = begin, .size = size};
    }
    kept->is_used = true;
    return kept->begin;
}

/* The guard is the only part whose rights change. */
int mprotect(void *begin, size_t size, int rights) {
    for (struct stack *it = stacks; it < stacks + PLACES; it++)
        if (it->is_used && it->begin == begin) {
            if (it->is_guarded)
                return 0;
            it->is_guarded = true;
        }
    return (int)syscall(SYS_mprotect, begin, size, rights);
}

int munmap(void *begin, size_t size) {
    struct stack *kept = find(begin, size, true);
    if (!kept)
        return (int)syscall(SYS_munmap, begin, size);
    kept->is_used = false;
    return 0;
}
