/* SPDX-License-Identifier: MIT
 *
 * choices.h - the cells that a pool is tried with: every combination of telling values of its
 * parameters, or, when those are too many, each value and a random rest.
 *
 *   choices c = choices_of("locked order=fifo", threads);       what the text sets is not varied
 *   for (int i = 0; i < choices_count(&c, 40); i++) {
 *       pb_cell cell = choices_pick(&c, i, 40, &rng);
 *
 * Telling values are both ends of a switch, all of a choice, and small numbers: room for 2 or 4,
 * periods of one tick. A parameter whose small values are a mistake is listed in choices_known.
 */
#ifndef PB_TEST_CHOICES_H
#define PB_TEST_CHOICES_H

#include "cell.h"
#include "rng.h"

enum { CHOICES_VALUES = 16, CHOICES_SMALL = 2, CHOICES_LARGER = 4, CHOICES_BYTES = 1024 };

typedef struct choices_values {
    int64_t value[CHOICES_VALUES];
    int count;
} choices_values;

typedef struct choices {
    pb_cell cell;
    choices_values of[PB_PARAMS_MAX];
    int64_t combinations;
} choices;

/* Values that the rules below would not find; count 0: only the default. */
static const struct {
    const char *name;
    choices_values values;
} choices_known[] = {
    {"backoff", {{0, 16}, 2}},
    {"trim_ops", {{0, 7}, 2}},
    {"invalid_per_million", {{0, 200000}, 2}},
    {"shards", {{1, 2, 3}, 3}},
    {"inbox", {{0, 2}, 2}},
    {"hints", {{0, 2}, 2}},
    {"depot", {{0, 2}, 2}},
    {"tag_bits", {{0}, 0}}, /* few are the ABA problem itself */
};

static inline int choices_in(const char *text)
{
    int count = 1;
    for (; *text; text++)
        count += text[0] == '|' && text[1] != '\0';
    return count;
}

static inline void choices_add(choices_values *v, const pb_param *d, int64_t value)
{
    value = value < d->low ? d->low : value;
    value = value > d->high ? d->high : value;
    for (int i = 0; i < v->count; i++)
        if (v->value[i] == value)
            return;
    if (v->count == CHOICES_VALUES)
        cell_mistake("too many values of one parameter");
    v->value[v->count++] = value;
}

static inline void choices_add_counts(choices_values *v, const pb_param *d)
{
    if (d->high - d->low < CHOICES_LARGER) {
        for (int64_t value = d->low; value <= d->high; value++)
            choices_add(v, d, value);
    } else if (d->initial > CHOICES_LARGER) {
        choices_add(v, d, CHOICES_SMALL);
        choices_add(v, d, CHOICES_LARGER);
    } else {
        choices_add(v, d, d->initial);
        choices_add(v, d, d->initial + (d->initial == 0 ? CHOICES_SMALL : 1));
    }
}

static inline bool choices_are_known(choices_values *v, const pb_param *d)
{
    for (size_t i = 0; i < sizeof choices_known / sizeof choices_known[0]; i++)
        if (strcmp(choices_known[i].name, d->name) == 0) {
            for (int j = 0; j < choices_known[i].values.count; j++)
                choices_add(v, d, choices_known[i].values.value[j]);
            return true;
        }
    return false;
}

static inline bool choices_is_patience(const pb_param *d)
{
    return strstr(d->name, "timeout") != NULL;
}

static inline choices_values choices_values_of(const pb_param *d, int64_t given)
{
    choices_values v = {.count = 0};
    if (choices_are_known(&v, d) || choices_is_patience(d)) {
        /* nothing to add */
    } else if (d->kind == PB_CHOICE_KIND) {
        for (int i = 0; i < choices_in(d->choices); i++)
            v.value[v.count++] = i;
    } else if (d->kind == PB_COUNT_KIND) {
        choices_add_counts(&v, d);
    } else if (d->kind == PB_PERIOD_KIND) {
        choices_add(&v, d, 0);
        choices_add(&v, d, 1);
    } else if (d->kind == PB_SIZE_KIND) {
        choices_add(&v, d, d->initial);
        choices_add(&v, d, CHOICES_BYTES);
    }
    if (v.count == 0)
        v.value[v.count++] = given;
    return v;
}

static inline bool choices_sets(const char *text, const char *name)
{
    char setting[CELL_TEXT];
    (void)snprintf(setting, sizeof setting, " %s=", name);
    return strstr(text, setting) != NULL;
}

static inline choices choices_of(const char *pool, int threads)
{
    choices c = {.cell = cell_of(pool, "bytes", "churn", threads), .combinations = 1};
    if (pb_pools[c.cell.pool].traits & PB_NEEDS_SHAREABLE)
        c.cell = cell_of(pool, "widget", "churn", threads);
    const pb_params *params = &c.cell.pool_params;
    for (int i = 0; i < params->count; i++) {
        const pb_param *d = &params->described[i];
        if (choices_sets(pool, d->name))
            c.of[i] = (choices_values){{params->value[i]}, 1};
        else
            c.of[i] = choices_values_of(d, params->value[i]);
        c.combinations *= c.of[i].count;
    }
    return c;
}

static inline int choices_count(const choices *c, int most)
{
    return c->combinations < most ? (int)c->combinations : most;
}

/* The combination `which` of `most`: when there are more, each value in turn, then at random. */
static inline pb_cell choices_pick(const choices *c, int which, int most, pb_rng *rng)
{
    pb_cell cell = c->cell;
    int64_t rest = which;
    for (int i = 0; i < cell.pool_params.count; i++) {
        const choices_values *v = &c->of[i];
        int64_t at = rest % v->count;
        if (c->combinations <= most)
            rest /= v->count;
        else if (which >= v->count)
            at = (int64_t)pb_rng_below(rng, (uint32_t)v->count);
        cell.pool_params.value[i] = v->value[at];
    }
    return cell;
}

/* How long a pool that waits for objects does so; no matter to others. */
static inline void choices_wait_at_most(pb_cell *cell, int64_t ms)
{
    for (int i = 0; i < cell->pool_params.count; i++) {
        const pb_param *d = &cell->pool_params.described[i];
        if (!choices_is_patience(d))
            continue;
        int64_t value = d->kind == PB_TIME_KIND ? ms * 1000000 : ms;
        value = value < d->low ? d->low : value;
        cell->pool_params.value[i] = value > d->high ? d->high : value;
    }
}

/* The cell's pool as text that cell_of understands. */
static inline void choices_text(const pb_cell *cell, char *text, size_t size)
{
    const pb_params *params = &cell->pool_params;
    int at = snprintf(text, size, "%s", pb_pools[cell->pool].is.name);
    for (int i = 0; i < params->count && at < (int)size; i++) {
        const pb_param *d = &params->described[i];
        const char *choice = d->kind == PB_CHOICE_KIND ? d->choices : NULL;
        for (int64_t skip = params->value[i]; choice && skip > 0; skip--)
            choice = strchr(choice, '|') + 1;
        if (choice)
            at += snprintf(text + at, size - (size_t)at, " %s=%.*s", d->name,
                           (int)strcspn(choice, "|"), choice);
        else if (d->kind != PB_TEXT_KIND)
            at += snprintf(text + at, size - (size_t)at, " %s=%lld", d->name,
                           (long long)params->value[i]);
    }
}

#endif
