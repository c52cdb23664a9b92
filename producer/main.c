/* SPDX-License-Identifier: Apache-2.0 */
/* actionist-producer: the front door. Exit codes: 0 stopped in order, 1 could
 * not start, 2 wrong usage, 130 stopped at once by a second signal. */
#include <stdio.h>

#include "common/log.h"
#include "producer/producer.h"

static int run(const struct conf *conf, struct err *err)
{
    struct loop loop;
    struct producer producer = {0};
    loop_init(&loop, producer_drain, &producer);
    const int rc = producer_open(&producer, &loop, conf, err);
    if (rc == 0) {
        loop_run(&loop);
    }
    producer_close(&producer);
    loop_fini(&loop);
    return rc;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    struct err err = ERR_INIT;
    const struct conf_setting *settings = producer_settings(&count);
    log_init("actionist-producer");
    struct conf *conf = conf_new("actionist-producer", settings, count);
    int rc = conf_load(conf, argc, argv, &err);
    if (rc == 0) {
        rc = log_set_level(conf_text(conf, "log.level"), &err);
    }
    if (rc == 0) {
        rc = run(conf, &err);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "actionist-producer: %s\n", err.msg);
    }
    conf_free(conf);
    return rc == 0 ? 0 : conf_exit_code(&err);
}
