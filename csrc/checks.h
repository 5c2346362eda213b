/* SPDX-License-Identifier: MIT
 *
 * checks.h (L2) - checked mode: where every object is, and complaints about whoever is wrong.
 *
 *   made -> idle -> out (with thread i) -> idle -> ... -> ended
 *
 * A table beside the objects, by address, remembers the state of each; nothing is written into
 * them. Every step exchanges the state atomically, so that two threads that are handed the same
 * object meet here, under every pattern. Wrong releases (twice, of an ended object, of one that was
 * never acquired) are refused and do not reach the pool; objects handed out twice, destroyed while
 * held, or handed out dirty are noted. The first complaint names the object and both threads, and
 * fails the replicate. Under AddressSanitizer idle objects are poisoned: whoever touches one, holds
 * it no longer.
 *
 * The stamps are relaxed: they must not order what the pool forgot to. A pool that hands an object
 * on without ordering memory is seen by ThreadSanitizer, and here as a stamp that comes too late.
 */
#ifndef PB_CHECKS_H
#define PB_CHECKS_H

#include "base.h"

typedef struct pb_ctx pb_ctx;       /* context.h */
typedef struct pb_checks pb_checks; /* one per checked replicate */

/* Room for `objects` at once; ended ones make room for others. NULL: out of memory. */
pb_checks *pb_checks_open(uint64_t objects);
void pb_checks_close(pb_checks *c);

/* The first complaint, or NULL; stays valid until the close. */
const char *pb_checks_complaint(const pb_checks *c);

/* By the thread that did it, on its own context: just constructed; about to be destroyed. */
void pb_checks_made(pb_ctx *ctx, const void *object);
void pb_checks_ended(pb_ctx *ctx, const void *object);

/* At acquire, by the borrower, after any reset. */
void pb_checks_taken(pb_ctx *ctx, void *object);

/* At release, before the pool sees it; false: it must not see it. */
bool pb_checks_given(pb_ctx *ctx, const void *object);

/* Around the time an object lies in the pool, after its reset and before the next one: under
   AddressSanitizer nobody may touch it meanwhile. `size` 0: unknown, nothing happens. */
void pb_checks_hide(const void *object, size_t size);
void pb_checks_show(const void *object, size_t size);

#endif
