// Tells a process another time of day: the machine's and as many seconds more as the file in DISTURBED_CLOCK holds.
// Monotonic clocks are left alone. What waits until a time of day waits until the machine's clock shows it, as the
// kernel knows no other. (libfaketime makes Python's sleep fail in one version, and ends Ray's workers in another.)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *ahead;

__attribute__((constructor)) static void look(void) {
    const char *name = getenv("DISTURBED_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    ahead = mapped == MAP_FAILED ? 0 : mapped;
    if (file >= 0) close(file);
}

static long jumped(void) { return ahead ? *ahead : 0; }

int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += jumped();
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) { return clock_gettime(CLOCK_REALTIME, at) ? 0 : base; }

// A time of day is larger than any time since the machine started, which monotonic clocks tell.
static const struct timespec *machines(const struct timespec *at, struct timespec *own) {
    if (!at || at->tv_sec < 1000000000) return at;
    *own = *at;
    own->tv_sec -= jumped();
    return own;
}

// In its newer version, where there are two.
#define NEXT(name) \
    static __typeof__(&name) next; \
    struct timespec own; \
    if (!next) next = (__typeof__(&name))dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2"); \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict at) {
    NEXT(pthread_cond_timedwait);
    return next(c, m, machines(at, &own));
}

int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t id,
                           const struct timespec *restrict at) {
    NEXT(pthread_cond_clockwait);
    return next(c, m, id, machines(at, &own));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict at) {
    NEXT(pthread_mutex_timedlock);
    return next(m, machines(at, &own));
}

int sem_timedwait(sem_t *restrict s, const struct timespec *restrict at) {
    NEXT(sem_timedwait);
    return next(s, machines(at, &own));
}

int sem_clockwait(sem_t *restrict s, clockid_t id, const struct timespec *restrict at) {
    NEXT(sem_clockwait);
    return next(s, id, machines(at, &own));
}
