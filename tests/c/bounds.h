/* SPDX-License-Identifier: MIT
 *
 * bounds.h - how many objects each pool may keep idle, as the head of its file says.
 *
 *   bound_on_idle(&cell)    from the cell's parameters and threads; -1: the list below has no line
 *
 * A bound is a sum of products of numbers, parameters, `threads`, and `cpus`.
 */
#ifndef PB_TEST_BOUNDS_H
#define PB_TEST_BOUNDS_H

#include <unistd.h>

#include "cell.h"

static const struct {
    const char *pool, *bound;
} bounds[] = {
    {"fresh", "0"},
    {"thread_local", "threads"},
    {"slab", "0"}, /* free slots hold no object */
    {"thread_cache", "threads*cap"},
    {"locked", "capacity"},
    {"blocking", "max_total"},
    {"bag", "max_total"},
    {"treiber", "capacity"},
    {"mpmc_ring", "capacity"},
    {"slot_scan", "capacity"},
    {"sharded", "shards*capacity"},
    {"percpu", "cpus*capacity"},
    {"owner_inbox", "threads*cap+threads*2*inbox"},
    {"stealing", "threads*2+threads*4*ring_max"},
    {"magazine", "threads*2*rounds+depot*rounds"},
    {"size_classes", "threads*cap+capacity"}, /* of the one class there is */
    {"flyweight", "1"},
    {"arena", "0"}, /* between bursts */
};

static inline int64_t bound_factor(const pb_cell *cell, const char *word)
{
    char *end;
    const int64_t number = strtoll(word, &end, 10);
    if (*end == '\0')
        return number;
    if (strcmp(word, "threads") == 0)
        return cell->threads;
    if (strcmp(word, "cpus") == 0)
        return sysconf(_SC_NPROCESSORS_CONF);
    if (!cell_has(&cell->pool_params, word))
        cell_mistake(word);
    return pb_params_get(&cell->pool_params, word);
}

static inline int64_t bound_of(const pb_cell *cell, const char *text)
{
    char copy[CELL_TEXT];
    (void)snprintf(copy, sizeof copy, "%s", text);
    int64_t sum = 0;
    char *terms = NULL;
    for (char *term = strtok_r(copy, "+", &terms); term; term = strtok_r(NULL, "+", &terms)) {
        int64_t product = 1;
        char *factors = NULL;
        for (char *word = strtok_r(term, "*", &factors); word; word = strtok_r(NULL, "*", &factors))
            product *= bound_factor(cell, word);
        sum += product;
    }
    return sum;
}

static inline int64_t bound_on_idle(const pb_cell *cell)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if (strcmp(bounds[i].pool, pb_pools[cell->pool].is.name) == 0)
            return bound_of(cell, bounds[i].bound);
    return -1;
}

#endif
