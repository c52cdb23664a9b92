/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor: looks for what is set up wrongly, and says what to do. Changes
 * nothing. doctor_checks.c names every check; each part finds by name.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "scheduler/ctl/ctl.h"

enum doctor_level { DOCTOR_ERROR, DOCTOR_WARNING };

struct doctor_check {
    const char *name; /* "pg-durable" */
    enum doctor_level level;
    const char *why; /* what goes wrong with it */
    const char *fix;
};
extern const struct doctor_check DOCTOR_CHECKS[];
extern const size_t DOCTOR_CHECKS_COUNT;

enum doctor_program {
    DOCTOR_PRODUCER,
    DOCTOR_WORKER,
    DOCTOR_SCHEDULER,
    DOCTOR_PROGRAM_COUNT
};

struct doctor {
    struct ctl *ctl;
    struct ctl_table *table;
    size_t errors;
    size_t warnings;
    const char *files[DOCTOR_PROGRAM_COUNT]; /* settings; NULL: none given */
    /* What each program says its settings are, lines of "name = value" parted
     * by zeros; empty if it could not tell. */
    struct buf settings[DOCTOR_PROGRAM_COUNT];
    int32_t idle_s;
};

/* A finding of a check, which has to be in DOCTOR_CHECKS. */
void doctor_find(struct doctor *doctor, const char *name, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* A program's effective setting; NULL if not known. */
const char *doctor_setting(
    const struct doctor *doctor, enum doctor_program program, const char *name);
const char *doctor_program_name(enum doctor_program program);

/* The parts; each may block for some seconds. */
void doctor_settings(struct doctor *doctor); /* first: others look at them */
void doctor_postgres(struct doctor *doctor);
void doctor_kafka(struct doctor *doctor);
void doctor_machine(struct doctor *doctor);
/* Of http.cert and http.key, both given. */
void doctor_certificate(struct doctor *doctor, const char *program,
    const char *cert, const char *key);

#endif
