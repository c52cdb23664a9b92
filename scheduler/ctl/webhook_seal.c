/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/ctl/webhook_seal.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/ctl/file.h"
#include "schema/webhook.h"

struct seal_keys *ctl_seal_keys(struct ctl *ctl, int *exit_code)
{
    struct err err = ERR_INIT;
    const char *path = conf_text(ctl->conf, "webhooks.master_key_file");
    if (path[0] == '\0') {
        *exit_code = ctl_fail(CTL_USAGE,
            "no master key: set webhooks.master_key_file to the producer's "
            "file, lines of NUMBER:BASE64 of 32 bytes");
        return NULL;
    }
    struct seal_keys *keys = seal_keys_load(path, &err);
    if (keys == NULL)
        *exit_code = ctl_fail(CTL_FAILED, "%s", err.msg);
    return keys;
}

static void wipe(struct buf *buf)
{
    if (buf->data != NULL)
        explicit_bzero(buf->data, buf->cap);
    buf_fini(buf);
}

/* Without the line feed that editors and echo put at the end. */
static int read_secret(const char *path, struct buf *out, struct err *err)
{
    if (strcmp(path, "-") != 0) {
        char *text = NULL;
        if (conf_read_secret(path, &text, err) != 0)
            return -1;
        buf_put_str(out, text);
        explicit_bzero(text, strlen(text));
        free(text);
        return 0;
    }
    if (file_read(path, out, err) != 0)
        return -1;
    if (out->len > 0 && out->data[out->len - 1] == '\n')
        out->len--;
    if (out->len > 0 && out->data[out->len - 1] == '\r')
        out->len--;
    return 0;
}

static int check_token(struct span token, struct err *err)
{
    for (size_t i = 0; i < token.len; i++)
        if (token.ptr[i] <= ' ' || token.ptr[i] > '~')
            return err_set(err, ERR_PERMANENT, "BAD_SECRET",
                "the verify token must be printable ASCII without spaces");
    if (token.len < 8 || token.len > 255)
        return err_set(err, ERR_PERMANENT, "BAD_SECRET",
            "the verify token must have 8 to 255 characters");
    return 0;
}

static int check(
    const struct signature_scheme *scheme, struct span text, struct err *err)
{
    struct buf key;
    if (scheme == NULL)
        return check_token(text, err);
    buf_init(&key, SIGNATURE_MAX_KEY);
    int rc = signature_key_parse(scheme, text, &key, err);
    wipe(&key);
    return rc;
}

int ctl_seal_secret(const struct seal_keys *keys,
    const struct ctl_secret *secret, const struct signature_scheme *scheme,
    struct buf *out)
{
    struct err err = ERR_INIT;
    struct buf text;
    struct buf context;
    int code = CTL_DONE;
    buf_init(&text, SIGNATURE_MAX_SECRET);
    buf_init(&context, 256);
    if (read_secret(secret->path, &text, &err) != 0)
        code = ctl_fail(CTL_FAILED, "%s", err.msg);
    else if (check(scheme, buf_span(&text), &err) != 0)
        code = ctl_fail(CTL_NEGATIVE, "%s: %s", secret->path, err.msg);
    if (code == CTL_DONE) {
        webhook_put_context(&context, secret->context, span_of(secret->tenant),
            span_of(secret->source));
        seal_put(keys, buf_span(&text), buf_span(&context), out);
    }
    wipe(&text);
    buf_fini(&context);
    return code;
}
