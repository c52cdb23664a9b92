/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/run/names.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/time.h"

enum { THREADS = 4, CACHE_SLOTS = 64 };
#define KEPT_US (30 * US_PER_S)

/* Somebody who waits for a name. */
struct waiter {
    struct waiter *next;
    names_fn done;
    void *owner;
};

/* One name on its way. The threads touch host, answer and next alone. */
struct question {
    struct question *next; /* in todo, then in ready */
    struct question *next_open;
    struct waiter *waiters;
    struct names_answer answer;
    char host[EGRESS_MAX_HOST + 1];
};

struct kept {
    int64_t until_us; /* 0: slot not used */
    struct names_answer answer;
    char host[EGRESS_MAX_HOST + 1];
};

struct names {
    int event;
    struct question *open; /* all that are on their way; loop's thread */
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct question *todo;  /* under lock */
    struct question *ready; /* under lock */
    struct kept cache[CACHE_SLOTS];
};

/* -- in the threads ----------------------------------------------------------- */

static void look_up(struct question *question)
{
    struct names_answer *answer = &question->answer;
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_ADDRCONFIG,
    };
    struct addrinfo *list = NULL;
    answer->error = getaddrinfo(question->host, NULL, &hints, &list);
    if (answer->error != 0) {
        return;
    }
    for (const struct addrinfo *item = list; item != NULL;
         item = item->ai_next) {
        /* A name with more addresses than can be checked is refused. */
        if (answer->count == NAMES_MAX_ADDRESSES ||
            !egress_address_of(
                item->ai_addr, &answer->addresses[answer->count])) {
            answer->error = EAI_FAMILY;
            break;
        }
        answer->count++;
    }
    freeaddrinfo(list);
}

static void *serve(void *arg)
{
    struct names *names = arg;
    (void)pthread_mutex_lock(&names->lock);
    for (;;) {
        while (names->todo == NULL) {
            (void)pthread_cond_wait(&names->has_work, &names->lock);
        }
        struct question *question = names->todo;
        names->todo = question->next;
        (void)pthread_mutex_unlock(&names->lock);
        look_up(question);
        (void)pthread_mutex_lock(&names->lock);
        question->next = names->ready;
        names->ready = question;
        /* Fails only when the counter is full: then it is readable anyway. */
        (void)eventfd_write(names->event, 1);
    }
    return NULL;
}

/* -- in the loop -------------------------------------------------------------- */

struct names *names_new(void)
{
    struct names *names = mem_zalloc(1, sizeof(*names));
    names->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (names->event < 0 || pthread_mutex_init(&names->lock, NULL) != 0 ||
        pthread_cond_init(&names->has_work, NULL) != 0) {
        abort();
    }
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0 ||
        pthread_attr_setstacksize(&attr, (size_t)256 << 10) != 0) {
        abort();
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attr, serve, names) != 0) {
            abort();
        }
        (void)pthread_detach(thread);
    }
    (void)pthread_attr_destroy(&attr);
    return names;
}

int names_fd(const struct names *names)
{
    return names->event;
}

static void keep(struct names *names, const struct question *question)
{
    if (question->answer.error != 0) {
        return;
    }
    struct kept *slot = &names->cache[0];
    for (size_t i = 0; i < CACHE_SLOTS; i++) {
        struct kept *other = &names->cache[i];
        if (strcmp(other->host, question->host) == 0) {
            slot = other;
            break;
        }
        if (other->until_us < slot->until_us) {
            slot = other;
        }
    }
    slot->until_us = now_mono_us() + KEPT_US;
    slot->answer = question->answer;
    memcpy(slot->host, question->host, sizeof(slot->host));
}

static void close_question(struct names *names, struct question *question)
{
    struct question **at = &names->open;
    while (*at != question) {
        at = &(*at)->next_open;
    }
    *at = question->next_open;
    keep(names, question);
    while (question->waiters != NULL) {
        struct waiter *waiter = question->waiters;
        question->waiters = waiter->next;
        waiter->done(waiter->owner, &question->answer);
        free(waiter);
    }
    free(question);
}

void names_run(struct names *names)
{
    eventfd_t count = 0;
    (void)eventfd_read(names->event, &count);
    (void)pthread_mutex_lock(&names->lock);
    struct question *ready = names->ready;
    names->ready = NULL;
    (void)pthread_mutex_unlock(&names->lock);
    while (ready != NULL) {
        struct question *question = ready;
        ready = question->next;
        close_question(names, question);
    }
}

const struct names_answer *names_find(struct names *names, const char *host)
{
    for (size_t i = 0; i < CACHE_SLOTS; i++) {
        const struct kept *kept = &names->cache[i];
        if (kept->until_us != 0 && strcmp(kept->host, host) == 0) {
            return kept->until_us > now_mono_us() ? &kept->answer : NULL;
        }
    }
    return NULL;
}

static struct question *find_open(const struct names *names, const char *host)
{
    struct question *question = names->open;
    while (question != NULL && strcmp(question->host, host) != 0) {
        question = question->next_open;
    }
    return question;
}

static struct question *ask(struct names *names, const char *host)
{
    struct question *question = mem_zalloc(1, sizeof(*question));
    (void)snprintf(question->host, sizeof(question->host), "%s", host);
    question->next_open = names->open;
    names->open = question;
    (void)pthread_mutex_lock(&names->lock);
    struct question **last = &names->todo;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = question;
    (void)pthread_cond_signal(&names->has_work);
    (void)pthread_mutex_unlock(&names->lock);
    return question;
}

void names_start(
    struct names *names, const char *host, names_fn done, void *owner)
{
    struct question *question = find_open(names, host);
    if (question == NULL) {
        question = ask(names, host);
    }
    struct waiter *waiter = mem_alloc(sizeof(*waiter));
    *waiter = (struct waiter){
        .next = question->waiters, .done = done, .owner = owner};
    question->waiters = waiter;
}

void names_cancel(struct names *names, const void *owner)
{
    for (struct question *question = names->open; question != NULL;
         question = question->next_open) {
        struct waiter **at = &question->waiters;
        while (*at != NULL) {
            struct waiter *waiter = *at;
            if (waiter->owner != owner) {
                at = &waiter->next;
                continue;
            }
            *at = waiter->next;
            free(waiter);
        }
    }
}
