/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/doctor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctl/commands.h"

enum { DETAIL_SIZE = 512, MAX_SETTINGS = 65536, IDLE_S = 60 };

static const char *const COLUMNS[] = {
    "level", "check", "finding", "why", "fix"};

static const char *level_name(enum doctor_level level)
{
    return level == DOCTOR_ERROR ? "error" : "warning";
}

static const struct doctor_check *find_check(const char *name)
{
    for (size_t i = 0; i < DOCTOR_CHECKS_COUNT; i++)
        if (strcmp(DOCTOR_CHECKS[i].name, name) == 0)
            return &DOCTOR_CHECKS[i];
    abort(); /* our bug: no such check */
}

/* What others wrote must not act upon a terminal. */
static void hide_controls(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = ' ';
}

void doctor_find(struct doctor *doctor, const char *name, const char *fmt, ...)
{
    const struct doctor_check *check = find_check(name);
    char detail[DETAIL_SIZE];
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(detail, sizeof detail, fmt, args) < 0)
        detail[0] = '\0';
    va_end(args);
    hide_controls(detail);
    if (check->level == DOCTOR_ERROR)
        doctor->errors++;
    else
        doctor->warnings++;
    if (doctor->table != NULL) {
        ctl_table_add(
            doctor->table, (const char *[]){level_name(check->level),
                               check->name, detail, check->why, check->fix});
        return;
    }
    printf("%s: %s (%s)\n    %s\n    fix: %s\n", level_name(check->level),
        detail, check->name, check->why, check->fix);
}

const char *doctor_setting(
    const struct doctor *doctor, enum doctor_program program, const char *name)
{
    const struct buf *text = &doctor->settings[program];
    const size_t len = strlen(name);
    for (size_t at = 0; at < text->len;) {
        const char *line = text->data + at;
        if (strncmp(line, name, len) == 0 && strncmp(line + len, " = ", 3) == 0)
            return line + len + 3;
        at += strlen(line) + 1;
    }
    return NULL;
}

const char *doctor_program_name(enum doctor_program program)
{
    static const char *const names[] = {[DOCTOR_PRODUCER] = "producer",
        [DOCTOR_WORKER] = "worker",
        [DOCTOR_SCHEDULER] = "scheduler"};
    return names[program];
}

static int list_checks(struct ctl *ctl)
{
    static const char *const columns[] = {"check", "level", "why", "fix"};
    struct ctl_table *table = ctl_table_new(ctl, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < DOCTOR_CHECKS_COUNT; i++)
        ctl_table_add(table, (const char *[]){DOCTOR_CHECKS[i].name,
                                 level_name(DOCTOR_CHECKS[i].level),
                                 DOCTOR_CHECKS[i].why, DOCTOR_CHECKS[i].fix});
    ctl_table_end(table);
    return CTL_DONE;
}

static int examine(struct doctor *doctor)
{
    for (size_t i = 0; i < DOCTOR_PROGRAM_COUNT; i++)
        buf_init(&doctor->settings[i], MAX_SETTINGS);
    if (doctor->ctl->is_json)
        doctor->table = ctl_table_new(doctor->ctl, COLUMNS, ARRAY_LEN(COLUMNS));
    doctor_settings(doctor);
    doctor_machine(doctor);
    doctor_postgres(doctor);
    doctor_kafka(doctor);
    if (doctor->table != NULL)
        ctl_table_end(doctor->table);
    else
        printf("%zu checks: %zu errors, %zu warnings\n", DOCTOR_CHECKS_COUNT,
            doctor->errors, doctor->warnings);
    for (size_t i = 0; i < DOCTOR_PROGRAM_COUNT; i++)
        buf_fini(&doctor->settings[i]);
    return doctor->errors == 0 ? CTL_DONE : CTL_NEGATIVE;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
    struct doctor doctor = {.ctl = ctl, .idle_s = IDLE_S};
    const char *idle = NULL;
    bool is_list = false;
    int64_t idle_s = IDLE_S;
    const struct ctl_option options[] = {
        {"producer", "F", "settings file of a producer",
            &doctor.files[DOCTOR_PRODUCER], NULL},
        {"worker", "F", "... of a worker", &doctor.files[DOCTOR_WORKER], NULL},
        {"scheduler", "F", "... of a scheduler",
            &doctor.files[DOCTOR_SCHEDULER], NULL},
        {"idle-s", "N", "a transaction may do nothing for so long; 60", &idle,
            NULL},
        {"list", NULL, "only list the checks", NULL, &is_list},
    };
    int code = CTL_DONE;
    if (ctl_options(ctl, &COMMAND_DOCTOR, options, ARRAY_LEN(options), argc,
            argv, NULL, 0, &code) < 0)
        return code;
    if (idle != NULL &&
        (!span_to_int(span_of(idle), &idle_s) || idle_s < 0 || idle_s > 86400))
        return ctl_fail(CTL_USAGE, "--idle-s takes a number from 0 to 86400");
    doctor.idle_s = (int32_t)idle_s;
    return is_list ? list_checks(ctl) : examine(&doctor);
}

const struct command COMMAND_DOCTOR = {
    .name = "doctor",
    .arguments = "",
    .summary = "Find what is set up wrongly, and say what to do",
    .details =
        "Looks at the settings of the programs (from the files given here, and "
        "the\nenvironment), at this machine, Postgres and Kafka. Changes "
        "nothing. Exit code 4\nif there is an error; warnings are left to "
        "you. Run it on each kind of machine.",
    .run = run,
};
