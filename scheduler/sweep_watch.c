/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/sweep_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

void watch_init(struct watch *watch)
{
    *watch = (struct watch){.count = 0};
}

void watch_fini(struct watch *watch)
{
    free(watch->workers);
    watch_init(watch);
}

void watch_restart(struct watch *watch, int64_t now_us)
{
    watch_fini(watch);
    watch->quiet_until_us = now_us + WATCH_QUIET_US;
}

static int compare_sights(const void *a, const void *b)
{
    const struct watch_sight *left = a;
    const struct watch_sight *right = b;
    return memcmp(left->boot_id, right->boot_id, UUID_SIZE);
}

static int compare_worker(const void *key, const void *element)
{
    const struct watch_worker *worker = element;
    return memcmp(key, worker->boot_id, UUID_SIZE);
}

/* What is remembered of a worker, with this look added. */
static struct watch_worker remember(
    const struct watch *watch, int64_t now_us, const struct watch_sight *sight)
{
    struct watch_worker worker = {
        .free_since_us = WATCH_NOT_YET, .expired_since_us = WATCH_NOT_YET};
    const struct watch_worker *before =
        watch->count == 0 ? NULL
                          : bsearch(sight->boot_id, watch->workers,
                                watch->count, sizeof(worker), compare_worker);
    if (before != NULL) {
        worker = *before;
    }
    memcpy(worker.boot_id, sight->boot_id, UUID_SIZE);
    worker.was_held |= sight->is_held;
    if (sight->is_held || !worker.was_held) {
        worker.free_since_us = WATCH_NOT_YET;
    } else if (worker.free_since_us == WATCH_NOT_YET) {
        worker.free_since_us = now_us;
    }
    if (!sight->is_expired) {
        worker.expired_since_us = WATCH_NOT_YET;
    } else if (worker.expired_since_us == WATCH_NOT_YET) {
        worker.expired_since_us = now_us;
    }
    return worker;
}

static bool is_past(int64_t since_us, int64_t length_us, int64_t now_us)
{
    return since_us != WATCH_NOT_YET && now_us - since_us >= length_us;
}

/* Many at once look like a restart of the server, not like deaths. */
static bool is_believable(size_t vanished, size_t all)
{
    return vanished * 2 < all || (vanished == 1 && all <= 2);
}

void watch_look(struct watch *watch, int64_t now_us, struct watch_sight *sights,
    size_t count)
{
    qsort(sights, count, sizeof(*sights), compare_sights);
    struct watch_worker *workers = mem_zalloc(count + 1, sizeof(*workers));
    size_t vanished = 0;
    for (size_t i = 0; i < count; i++) {
        workers[i] = remember(watch, now_us, &sights[i]);
        vanished += workers[i].free_since_us == WATCH_NOT_YET ? 0 : 1;
    }
    free(watch->workers);
    watch->workers = workers;
    watch->count = count;
    for (size_t i = 0; i < count; i++) {
        const bool is_gone =
            is_past(workers[i].free_since_us, WATCH_GONE_US, now_us) &&
            is_believable(vanished, count);
        const bool is_lapsed =
            is_past(workers[i].expired_since_us, WATCH_LAPSED_US, now_us) &&
            now_us >= watch->quiet_until_us;
        sights[i].verdict = is_gone     ? WATCH_GONE
                            : is_lapsed ? WATCH_LAPSED
                                        : WATCH_LEAVE;
    }
}
