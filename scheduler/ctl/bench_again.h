/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_again: saturation once more under conditions that must not slow the
 * fleet, and retries that fall due. Everything here may block.
 */
#ifndef BENCH_AGAIN_H
#define BENCH_AGAIN_H

#include "scheduler/ctl/bench.h"

/* One load of plan.records at once: outcomes a second. */
int bench_saturate(struct bench *bench, enum bench_kind kind, double *rate,
    struct err *err) MUST_CHECK;
/* What the plan says of conditions, kind after kind. */
int bench_again(struct bench *bench, void (*say)(void *arg, const char *what),
    void *arg, struct err *err) MUST_CHECK;
/* Writes count echo actions that wait, numbered from 1 in their keys
 * run-mark-number; due is SQL, of the number g. */
int bench_fill_waiting(struct bench *bench, const char *mark, int64_t count,
    const char *due, struct err *err) MUST_CHECK;
/* Fills bench->retries. */
int bench_due(struct bench *bench, struct err *err) MUST_CHECK;

#endif
