/* SPDX-License-Identifier: MIT - see param.h */
#include "param.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void pb_params_init(pb_params *p, const pb_param *described, int count)
{
    assert(count <= PB_PARAMS_MAX);
    if (count == 1 && described[0].name == NULL) /* PB_NO_PARAMS */
        count = 0;
    *p = (pb_params){.described = described, .count = count};
    for (int i = 0; i < count; i++) {
        p->value[i] = described[i].initial;
        if (described[i].kind == PB_TEXT_KIND)
            (void)snprintf(p->text[i], PB_TEXT_BYTES, "%s", described[i].choices);
    }
}

static int find(const pb_params *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->described[i].name, name) == 0)
            return i;
    return -1;
}

static pb_status unknown(const pb_params *p, const char *name, pb_error *error)
{
    int used =
        snprintf(error->text, sizeof error->text, "unknown parameter '%s'; choose from", name);
    for (int i = 0; i < p->count && used > 0 && (size_t)used < sizeof error->text; i++)
        used += snprintf(error->text + used, sizeof error->text - (size_t)used, "%s %s",
                         i ? "," : "", p->described[i].name);
    return PB_BAD_VALUE;
}

/* Index of `text` in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text)
{
    const size_t length = strlen(text);
    int index = 0;
    for (const char *at = choices; *at; index++) {
        const size_t width = strcspn(at, "|");
        if (width == length && memcmp(at, text, length) == 0)
            return index;
        at += width + (at[width] == '|');
    }
    return -1;
}

pb_status pb_params_set(pb_params *p, const char *name, int64_t value, pb_error *error)
{
    const int i = find(p, name);
    if (i < 0)
        return unknown(p, name, error);
    const pb_param *d = &p->described[i];
    if (d->kind == PB_TEXT_KIND) {
        (void)snprintf(error->text, sizeof error->text, "%s=%" PRId64 ": not a text", name, value);
        return PB_BAD_VALUE;
    }
    if (d->kind == PB_CHOICE_KIND) {
        (void)snprintf(error->text, sizeof error->text, "%s=%" PRId64 ": choose from %s", name,
                       value, d->choices);
        return PB_BAD_VALUE;
    }
    if (value < d->low || value > d->high) {
        (void)snprintf(error->text, sizeof error->text,
                       "%s=%" PRId64 " is out of range %" PRId64 " ... %" PRId64, name, value,
                       d->low, d->high);
        return PB_BAD_VALUE;
    }
    p->value[i] = value;
    return PB_OK;
}

pb_status pb_params_set_text(pb_params *p, const char *name, const char *text, pb_error *error)
{
    const int i = find(p, name);
    if (i < 0)
        return unknown(p, name, error);
    const pb_param *d = &p->described[i];
    if (d->kind == PB_TEXT_KIND) {
        if (strlen(text) < PB_TEXT_BYTES) {
            memcpy(p->text[i], text, strlen(text) + 1);
            return PB_OK;
        }
        (void)snprintf(error->text, sizeof error->text, "%s=%.100s...: longer than %d bytes", name,
                       text, PB_TEXT_BYTES - 1);
        return PB_BAD_VALUE;
    }
    const int chosen = d->kind == PB_CHOICE_KIND ? choice_index(d->choices, text) : -1;
    if (chosen < 0) {
        (void)snprintf(error->text, sizeof error->text, "%s=%s: %s%s", name, text,
                       d->choices ? "choose from " : "not a number", d->choices ? d->choices : "");
        return PB_BAD_VALUE;
    }
    p->value[i] = chosen;
    return PB_OK;
}

bool pb_params_recur(const pb_params *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->described[i].kind == PB_PERIOD_KIND && p->value[i] > 0)
            return true;
    return false;
}

int64_t pb_params_get(const pb_params *p, const char *name)
{
    const int i = find(p, name);
    assert(i >= 0);
    return p->value[i];
}

const char *pb_params_text(const pb_params *p, const char *name)
{
    const int i = find(p, name);
    assert(i >= 0);
    return p->text[i];
}
