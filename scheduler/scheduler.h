/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler: what the parts of the program share. All of it belongs to the
 * loop's thread. The relay stands alone (relay.h); the rest looks at the
 * database six times a second (pulse) and moves rows (due, sweep, ending).
 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include "common/conf.h"
#include "common/kafka.h"
#include "common/loop.h"
#include "common/pg.h"

struct audit;
struct clock_moves;
struct dispatch;
struct door;
struct due;
struct ending;
struct held;
struct pulse;
struct relay;
struct replays;
struct sweep;
struct ticks;
struct upkeep;
struct windows;

struct scheduler {
    struct loop loop;
    struct conf *conf;
    struct pg *work; /* for everything that writes, but the relay */
    struct kafka_producer *producer;
    struct relay *relay;
    struct clock_moves *clock_moves;
    struct dispatch *dispatch;
    struct ending *ending;
    struct due *due;
    struct held *held;
    struct ticks *ticks;
    struct sweep *sweep;
    struct pulse *pulse;
    struct upkeep *upkeep;
    struct windows *windows;
    struct audit *audit;
    struct replays *replays;
    struct door *door;
    bool is_stopping;
};

#endif
