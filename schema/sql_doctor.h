/* SPDX-License-Identifier: Apache-2.0 */
/* sql_doctor: what `actionist doctor` asks Postgres. Each statement is named
 * after its check, and each row it returns is a finding: one text. They run
 * in a session as the programs have it, save for what they set themselves. */
#ifndef SQL_DOCTOR_H
#define SQL_DOCTOR_H

#include "common/pg.h"

extern const struct pg_statement SQL_DOCTOR[]; /* ask nothing of the schema */
extern const size_t SQL_DOCTOR_COUNT;
extern const struct pg_statement SQL_DOCTOR_SCHEMA[]; /* need it */
extern const size_t SQL_DOCTOR_SCHEMA_COUNT;
/* seconds that a transaction may do nothing */
extern const struct pg_statement SQL_DOCTOR_IDLE;
extern const struct pg_statement SQL_DOCTOR_VERSION;
extern const struct pg_statement SQL_DOCTOR_CLOCK;   /* seconds since 1970 */
extern const struct pg_statement SQL_DOCTOR_SOURCES; /* of webhooks: a count */

#endif
