/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/resolve.h"

#include <string.h>

enum { MAX_RENDERED = 4 << 20 };

static void refuse(struct job *job, enum code code, const char *pointer)
{
    struct fault fault = FAULT_INIT;
    (void)fault_set(&fault, code, pointer, NULL);
    job_set_fault(job, &fault);
}

/* Renders once to see that it can be rendered; the call renders again. */
static int check_templates(struct job *job, struct fault *fault)
{
    struct buf storage;
    struct call call;
    buf_init(&storage, MAX_RENDERED);
    const int result =
        action_render(job->action, &job->record, &storage, &call, fault);
    buf_fini(&storage);
    return result;
}

static void judge(struct job *job, struct manifest *manifest)
{
    struct fault fault = FAULT_INIT;

    job->action = manifest_find(manifest, job->record.action);
    if (job->action == NULL) {
        refuse(job, CODE_UNKNOWN_ACTION, "/action");
        return;
    }
    if (action_check_payload(job->action, job->record.payload, &fault) != 0 ||
        check_templates(job, &fault) != 0) {
        job->action = NULL;
        job_set_fault(job, &fault);
        return;
    }
    job->manifest = manifest;
    job->effect = action_effect(job->action);
}

bool resolve_new(struct connectors *connectors, struct job *job)
{
    struct manifest *manifest = NULL;

    if (job->fault != NULL) {
        return true;
    }
    switch (connectors_find(
        connectors, job->record.connector, job->asked_us, &manifest)) {
    case LOOKUP_WAIT:
        return false;
    case LOOKUP_NONE:
        refuse(job, CODE_UNKNOWN_CONNECTOR, "/connector");
        return true;
    case LOOKUP_FOUND:
    default:
        judge(job, manifest);
        return true;
    }
}

/* It was refused once, and stays so whatever was declared since. */
static bool resolve_refused(struct connectors *connectors, struct job *job)
{
    if (!resolve_new(connectors, job)) {
        return false;
    }
    if (job->fault == NULL) {
        job->manifest = NULL;
        job->action = NULL;
        refuse(job, CODE_UNKNOWN_CONNECTOR, "/connector");
    }
    return true;
}

bool resolve_claimed(
    struct connectors *connectors, struct job *job, const uint8_t *digest)
{
    struct manifest *manifest = NULL;

    if (digest == NULL || job->fault != NULL) {
        return resolve_refused(connectors, job);
    }
    switch (
        connectors_find_digest(connectors, digest, job->asked_us, &manifest)) {
    case LOOKUP_WAIT:
        return false;
    case LOOKUP_NONE:
        refuse(job, CODE_UNKNOWN_CONNECTOR, "/connector");
        return true;
    case LOOKUP_FOUND:
    default:
        if (job->record.is_replay) {
            judge(job, manifest); /* a newer version may ask for more */
            return true;
        }
        job->action = manifest_find(manifest, job->record.action);
        if (job->action == NULL) {
            refuse(job, CODE_UNKNOWN_ACTION, "/action");
        } else {
            job->manifest = manifest;
        }
        return true;
    }
}
