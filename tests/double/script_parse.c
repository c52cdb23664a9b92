/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of scripts. Strict: an unknown member is an error, and every
 * error names the member and the rule. */
#include "script.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DAY_US ((int64_t)86400 * 1000 * 1000)
#define MAX_TEXT 2000

struct word {
    const char *text;
    int value;
};

static const struct word reset_words[] = {
    {"before_body", STEP_RESET_BEFORE_BODY},
    {"after_body", STEP_RESET_AFTER_BODY},
    {NULL, 0},
};
static const struct word date_words[] = {
    {"imf", DATE_FORMAT_IMF},
    {"rfc850", DATE_FORMAT_RFC850},
    {"asctime", DATE_FORMAT_ASCTIME},
    {NULL, 0},
};
static const struct word per_words[] = {
    {"path", SCRIPT_PER_PATH},
    {"key", SCRIPT_PER_KEY},
    {"all", SCRIPT_PER_ALL},
    {NULL, 0},
};
static const struct word repeat_words[] = {
    {"last", 0},
    {"cycle", 1},
    {NULL, 0},
};

static int read_word(const cJSON *item, const struct word *words, int *value,
    struct problem *problem)
{
    for (size_t i = 0; cJSON_IsString(item) && words[i].text != NULL; i++) {
        if (strcmp(words[i].text, item->valuestring) == 0) {
            *value = words[i].value;
            return 0;
        }
    }
    return problem_set(problem, "%s: must be one of %s, %s%s%s", item->string,
        words[0].text, words[1].text, words[2].text != NULL ? ", " : "",
        words[2].text != NULL ? words[2].text : "");
}

static int read_number(const cJSON *item, int64_t min, int64_t max,
    int64_t *value, struct problem *problem)
{
    if (cJSON_IsNumber(item) && item->valuedouble >= (double)min &&
        item->valuedouble <= (double)max) {
        *value = (int64_t)item->valuedouble;
        const double back = (double)*value;
        if (!(back < item->valuedouble) && !(back > item->valuedouble)) {
            return 0;
        }
    }
    return problem_set(problem, "%s: must be a whole number %lld to %lld",
        item->string, (long long)min, (long long)max);
}

static int read_bool(const cJSON *item, bool *value, struct problem *problem)
{
    *value = cJSON_IsTrue(item);
    return cJSON_IsBool(item) ? 0
                              : problem_set(problem,
                                    "%s: must be true or false", item->string);
}

/* Takes text, or base64 when the member's name ends so, into fresh memory. */
static int read_bytes(
    const cJSON *item, char **data, size_t *len, struct problem *problem)
{
    struct buf bytes;
    buf_init(&bytes, SCRIPT_MAX_BODY_BYTES);
    const bool is_base64 = strstr(item->string, "_base64") != NULL;
    if (!cJSON_IsString(item)) {
        return problem_set(problem, "%s: must be a string", item->string);
    }
    if (*data != NULL) {
        return problem_set(problem, "%s: given twice", item->string);
    }
    if (is_base64 && buf_unbase64(&bytes, item->valuestring) != 0) {
        buf_fini(&bytes);
        return problem_set(problem, "%s: must be base64", item->string);
    }
    if (!is_base64) {
        buf_text(&bytes, item->valuestring);
    }
    if (bytes.is_over) {
        buf_fini(&bytes);
        return problem_set(problem, "%s: must be at most %zu bytes",
            item->string, SCRIPT_MAX_BODY_BYTES);
    }
    *data = mem_copy(bytes.data, bytes.len);
    *len = bytes.len;
    buf_fini(&bytes);
    return 0;
}

static int read_text(const cJSON *item, char **text, struct problem *problem)
{
    if (!cJSON_IsString(item) || item->valuestring[0] == '\0' ||
        strlen(item->valuestring) > MAX_TEXT) {
        return problem_set(problem, "%s: must be a string of 1 to %d bytes",
            item->string, MAX_TEXT);
    }
    free(*text);
    *text = mem_copy(item->valuestring, strlen(item->valuestring));
    return 0;
}

static void note_header(struct step *step, const char *name, const char *value)
{
    step->has_content_type |= strcasecmp(name, "Content-Type") == 0;
    step->has_date |= strcasecmp(name, "Date") == 0;
    step->has_length |= strcasecmp(name, "Content-Length") == 0;
    const size_t digits = strspn(value, "0123456789");
    if (strcasecmp(name, "Retry-After") == 0 && digits > 0 && digits < 16 &&
        value[digits] == '\0') {
        step->retry_after_s = strtoll(value, NULL, 10);
    }
}

static int read_headers(
    const cJSON *item, struct step *step, struct problem *problem)
{
    struct buf lines;
    buf_init(&lines, HTTP_MAX_HEAD_BYTES);
    bool is_good = cJSON_IsArray(item) &&
                   cJSON_GetArraySize(item) <= SCRIPT_MAX_HEADERS &&
                   step->headers == NULL;
    const cJSON *pair = NULL;
    cJSON_ArrayForEach(pair, item)
    {
        const cJSON *name = cJSON_GetArrayItem(pair, 0);
        const cJSON *value = cJSON_GetArrayItem(pair, 1);
        if (!is_good || !cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 ||
            !cJSON_IsString(name) || !cJSON_IsString(value) ||
            strpbrk(name->valuestring, "\r\n:") != NULL ||
            strpbrk(value->valuestring, "\r\n") != NULL) {
            is_good = false;
            break;
        }
        note_header(step, name->valuestring, value->valuestring);
        buf_text(&lines, name->valuestring);
        buf_text(&lines, ": ");
        buf_text(&lines, value->valuestring);
        buf_text(&lines, "\r\n");
    }
    if (is_good && !lines.is_over) {
        step->headers = mem_copy(lines.data, lines.len);
    }
    buf_fini(&lines);
    return step->headers != NULL ? 0
                                 : problem_set(problem,
                                       "headers: must be at most %d pairs "
                                       "[name, value] without line breaks",
                                       SCRIPT_MAX_HEADERS);
}

static int read_ms(const cJSON *item, int64_t *us, struct problem *problem)
{
    int64_t ms = 0;
    if (read_number(item, 0, DAY_US / 1000, &ms, problem) != 0) {
        return -1;
    }
    *us = ms * 1000;
    return 0;
}

/* The members that are numbers. Returns 1 when the member is another one. */
static int read_step_number(
    const cJSON *item, struct step *step, struct problem *problem)
{
    const struct {
        const char *name;
        int64_t min;
        int64_t max;
        int64_t *value;
    } numbers[] = {
        {"body_bytes", 0, (int64_t)1 << 30, &step->fill_bytes},
        {"truncate_bytes", 0, (int64_t)1 << 30, &step->truncate_bytes},
        {"retry_after_date_s", 0, (int64_t)1 << 31, &step->retry_date_s},
        {"drip_bytes", 1, (int64_t)1 << 20, &step->drip_bytes},
        {"times", 1, (int64_t)1 << 40, &step->times},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(item->string, numbers[i].name) == 0) {
            return read_number(item, numbers[i].min, numbers[i].max,
                numbers[i].value, problem);
        }
    }
    if (strcmp(item->string, "delay_ms") == 0) {
        return read_ms(item, &step->delay_us, problem);
    }
    if (strcmp(item->string, "drip_every_ms") == 0) {
        return read_ms(item, &step->drip_every_us, problem);
    }
    return 1;
}

static int read_step_member(
    const cJSON *item, struct step *step, struct problem *problem)
{
    const char *name = item->string;
    int word = 0;
    int64_t number = 0;
    int result = read_step_number(item, step, problem);
    if (result <= 0) {
        return result;
    }
    if (strcmp(name, "status") == 0) {
        result = read_number(item, 100, 999, &number, problem);
        step->status = (int)number;
        return result;
    }
    if (strcmp(name, "headers") == 0) {
        return read_headers(item, step, problem);
    }
    if (strcmp(name, "body") == 0 || strcmp(name, "body_base64") == 0) {
        return read_bytes(item, &step->body, &step->body_len, problem);
    }
    if (strcmp(name, "raw") == 0 || strcmp(name, "raw_base64") == 0) {
        return read_bytes(item, &step->raw, &step->raw_len, problem);
    }
    if (strcmp(name, "reset") == 0) {
        result = read_word(item, reset_words, &word, problem);
        step->reset = (enum step_reset)word;
        return result;
    }
    if (strcmp(name, "date_format") == 0) {
        result = read_word(item, date_words, &word, problem);
        step->date_format = (enum date_format)word;
        return result;
    }
    if (strcmp(name, "never") == 0) {
        return read_bool(item, &step->is_never, problem);
    }
    if (strcmp(name, "close") == 0) {
        return read_bool(item, &step->is_close, problem);
    }
    if (strcmp(name, "chunked") == 0) {
        return read_bool(item, &step->is_chunked, problem);
    }
    if (strcmp(name, "effect") == 0) {
        return read_bool(item, &step->has_effect, problem);
    }
    return problem_set(problem, "%.64s: is not a member of a step", name);
}

static int check_step(
    const cJSON *item, const struct step *step, struct problem *problem)
{
    if (step->reset == STEP_RESET_BEFORE_BODY &&
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "effect"))) {
        return problem_set(problem,
            "effect: must be false with reset before_body, "
            "as the body is never read");
    }
    if (step->fill_bytes >= 0 && (step->body != NULL || step->is_chunked)) {
        return problem_set(problem, "body_bytes: must be alone, without body "
                                    "and chunked");
    }
    if (step->raw != NULL && (step->body != NULL || step->fill_bytes >= 0)) {
        return problem_set(problem, "raw: must be alone, without a body");
    }
    if ((step->drip_bytes > 0) != (step->drip_every_us > 0)) {
        return problem_set(problem,
            "drip_bytes: needs drip_every_ms above 0, and "
            "the other way round");
    }
    return 0;
}

static int read_step(
    const cJSON *item, struct step *step, struct problem *problem)
{
    *step = (struct step){.status = 200,
        .fill_bytes = -1,
        .truncate_bytes = -1,
        .retry_after_s = -1,
        .retry_date_s = -1,
        .times = 1};
    if (!cJSON_IsObject(item)) {
        return problem_set(problem, "must be an object");
    }
    const cJSON *member = NULL;
    cJSON_ArrayForEach(member, item)
    {
        if (read_step_member(member, step, problem) != 0) {
            return -1;
        }
    }
    if (cJSON_GetObjectItemCaseSensitive(item, "effect") == NULL) {
        step->has_effect = step->status >= 200 && step->status < 300 &&
                           step->reset != STEP_RESET_BEFORE_BODY;
    }
    step->is_template = step->body != NULL &&
                        memmem(step->body, step->body_len, "{{", 2) != NULL;
    return check_step(item, step, problem);
}

static int read_steps(
    const cJSON *item, struct script *script, struct problem *problem)
{
    const int count = cJSON_GetArraySize(item);
    if (!cJSON_IsArray(item) || count < 1 || count > SCRIPT_MAX_STEPS ||
        script->steps != NULL) {
        return problem_set(problem, "steps: must be an array of 1 to %d steps",
            SCRIPT_MAX_STEPS);
    }
    script->steps = mem_resize(NULL, (size_t)count * sizeof(struct step));
    const cJSON *step = NULL;
    cJSON_ArrayForEach(step, item)
    {
        struct problem inner = {""};
        const size_t i = script->step_count++;
        if (read_step(step, &script->steps[i], &inner) != 0) {
            return problem_set(problem, "steps[%zu].%.200s", i, inner.msg);
        }
        script->total_times += script->steps[i].times;
    }
    return 0;
}

static int read_script_member(
    const cJSON *item, struct script *script, struct problem *problem)
{
    const char *name = item->string;
    int word = 0;
    int result = 0;
    if (strcmp(name, "path") == 0) {
        return read_text(item, &script->path, problem);
    }
    if (strcmp(name, "method") == 0) {
        return read_text(item, &script->method, problem);
    }
    if (strcmp(name, "key_header") == 0) {
        return read_text(item, &script->key_header, problem);
    }
    if (strcmp(name, "dedup_header") == 0) {
        script->is_dedup = true;
        return read_text(item, &script->key_header, problem);
    }
    if (strcmp(name, "steps") == 0) {
        return read_steps(item, script, problem);
    }
    if (strcmp(name, "per") == 0) {
        result = read_word(item, per_words, &word, problem);
        script->per = (enum script_per)word;
        return result;
    }
    if (strcmp(name, "repeat") == 0) {
        result = read_word(item, repeat_words, &word, problem);
        script->is_cycle = word != 0;
        return result;
    }
    return problem_set(problem, "%.64s: is not a member of a script", name);
}

/* Cuts the `*` off and fills what the JSON left out. */
static int finish_script(struct script *script, struct problem *problem)
{
    if (script->path == NULL || script->path[0] != '/' ||
        strpbrk(script->path, "? \r\n") != NULL) {
        return problem_set(problem, "path: must be there, start with / and "
                                    "have no ? or space");
    }
    if (strncmp(script->path, "/_control", strlen("/_control")) == 0) {
        return problem_set(problem, "path: /_control is the double's own");
    }
    if (script->steps == NULL) {
        return problem_set(problem, "steps: must be there");
    }
    char *star = strchr(script->path, '*');
    if (star != NULL) {
        if (star[1] != '\0') {
            return problem_set(problem, "path: may have one * at its end");
        }
        *star = '\0';
        script->is_prefix = true;
    }
    if (script->method == NULL) {
        script->method = mem_copy("", 0);
    }
    if (script->key_header == NULL) {
        const char *name = "Idempotency-Key";
        script->key_header = mem_copy(name, strlen(name));
    }
    return 0;
}

static struct script *script_read(const cJSON *json, struct problem *problem)
{
    struct script *script = mem_resize(NULL, sizeof *script);
    *script = (struct script){.per = SCRIPT_PER_PATH};
    if (!cJSON_IsObject(json)) {
        (void)problem_set(problem, "a script must be an object");
        script_free(script);
        return NULL;
    }
    if (cJSON_HasObjectItem(json, "key_header") &&
        cJSON_HasObjectItem(json, "dedup_header")) {
        (void)problem_set(problem,
            "key_header: must not be there together with "
            "dedup_header, which names the key as well");
        script_free(script);
        return NULL;
    }
    const cJSON *member = NULL;
    cJSON_ArrayForEach(member, json)
    {
        if (read_script_member(member, script, problem) != 0) {
            script_free(script);
            return NULL;
        }
    }
    if (finish_script(script, problem) != 0) {
        script_free(script);
        return NULL;
    }
    return script;
}

static cJSON *parse_text(const char *text, size_t len, struct problem *problem)
{
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    while (json != NULL && end < text + len && isspace((unsigned char)*end)) {
        end++;
    }
    if (json == NULL || end != text + len) {
        cJSON_Delete(json);
        (void)problem_set(problem, "the script is not JSON (near byte %zu)",
            end != NULL ? (size_t)(end - text) : 0);
        return NULL;
    }
    return json;
}

/* Puts the scripts read into the set; `scripts` holds what is not put yet. */
static int put_all(struct script_set *set, struct script **scripts,
    size_t count, struct problem *problem)
{
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        if (result == 0) {
            result = script_set_put(set, scripts[i], problem);
        } else {
            script_free(scripts[i]);
        }
    }
    return result;
}

int script_set_load(struct script_set *set, const char *text, size_t len,
    struct problem *problem)
{
    cJSON *json = parse_text(text, len, problem);
    if (json == NULL) {
        return -1;
    }
    const bool is_array = cJSON_IsArray(json);
    const int count = is_array ? cJSON_GetArraySize(json) : 1;
    int result = 0;
    if (count > SCRIPT_MAX_COUNT) {
        cJSON_Delete(json);
        return problem_set(
            problem, "too many scripts: at most %d", SCRIPT_MAX_COUNT);
    }
    struct script **scripts =
        mem_resize(NULL, ((size_t)count + 1) * sizeof(struct script *));
    size_t read = 0;
    const cJSON *item = is_array ? json->child : json;
    while (item != NULL && result == 0) {
        scripts[read] = script_read(item, problem);
        result = scripts[read] != NULL ? 0 : -1;
        read += scripts[read] != NULL ? 1 : 0;
        item = is_array ? item->next : NULL;
    }
    if (result != 0) {
        for (size_t i = 0; i < read; i++) {
            script_free(scripts[i]);
        }
    } else {
        result = put_all(set, scripts, read, problem);
    }
    free(scripts);
    cJSON_Delete(json);
    return result == 0 ? count : -1;
}
