/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev_fleet: one local fleet in one folder D: where its programs are, which
 * ports they have, and the files that D holds besides the cluster's own:
 *
 *   actionist.conf            settings for `actionist ... --config`
 *   producer.conf, ...        settings of each daemon
 *   fleet.json                ports, so that a program comes back where it was
 *   keys.json                 API keys of the tenants (mode 0600)
 *   NAME.pid, log/NAME.log    each program
 *
 * Everything here may block.
 */
#ifndef DEV_FLEET_H
#define DEV_FLEET_H

#include <stdint.h>

#include "common/buf.h"
#include "common/conf.h"

enum dev_part {
    DEV_DOUBLE,
    DEV_SCHEDULER,
    DEV_WORKER,
    DEV_PRODUCER,
    DEV_PART_COUNT
};

struct dev_fleet {
    char *dir;                      /* absolute; all strings are owned */
    char *bin;                      /* the folder of this program */
    char *cluster;                  /* deploy/dev/cluster */
    uint16_t ports[DEV_PART_COUNT]; /* 0: not chosen yet */
};

/* "provider-double", "scheduler", ... Static. */
const char *dev_part_name(enum dev_part part);

/* Finds the programs. dir is made absolute; it need not exist. */
int dev_fleet_init(
    struct dev_fleet *fleet, const char *dir, struct err *err) MUST_CHECK;
void dev_fleet_fini(struct dev_fleet *fleet); /* may be called twice */

/* D/name, and D/<program><suffix>; freed by the caller. */
char *dev_file(const struct dev_fleet *fleet, const char *name);
char *dev_part_file(const struct dev_fleet *fleet, enum dev_part part,
    const char *before, const char *after);
/* Where the program answers 200 once it is ready; freed by the caller. */
char *dev_ready_url(const struct dev_fleet *fleet, enum dev_part part);
/* http://127.0.0.1:PORT; freed by the caller. */
char *dev_url(const struct dev_fleet *fleet, enum dev_part part);

/* Reads the ports of fleet.json; 0 also when there is no such file. */
int dev_load_ports(struct dev_fleet *fleet, struct err *err) MUST_CHECK;
/* Picks free ports where there are none yet, and writes fleet.json. */
int dev_pick_ports(struct dev_fleet *fleet, struct err *err) MUST_CHECK;

/* Writes the settings files from what conf says about the cluster. */
int dev_write_settings(const struct dev_fleet *fleet, const struct conf *conf,
    struct err *err) MUST_CHECK;

/* Starts one program with its settings; does not wait. */
int dev_start_part(const struct dev_fleet *fleet, enum dev_part part,
    struct err *err) MUST_CHECK;
/* Waits until it is ready, 60 s at most. */
int dev_wait_part(const struct dev_fleet *fleet, enum dev_part part,
    struct err *err) MUST_CHECK;

#endif
