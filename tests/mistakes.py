"""Mistakes one could make in the C core, each with the test that has to see it: proof that it can.

`test_c.py` makes them one at a time in a copy of the core, and builds and runs that test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class Mistake(NamedTuple):
    """One that could be made, and the test that has to see it."""

    file: str
    right: str
    wrong: str
    test: str  # or "compiler": it does not get as far as a test
    sanitizer: str = ""  # the one without which nobody sees it

    @property
    def program(self) -> str:
        return "test_stress" if self.test == "compiler" else self.test

    @property
    def through(self) -> str:
        """The file that sees a mistake in a header; others would only take time to build."""
        seen_by = {"locks": "pools/locked.c", "patterns": "pools/fresh.c"}
        return seen_by.get(Path(self.file).parent.name, "") if self.file.endswith(".h") else ""

    @property
    def arguments(self) -> list[str]:
        """Keep the stress test to the pool that is broken."""
        name = Path(self.file).stem
        where = {
            "pools": [name],
            "locks": [f"locked lock={name}"],
            "": [{"shard": "sharded", "chain": "stealing"}.get(name, "")],
        }
        return where.get(Path(self.file).parent.name, []) if self.test == "test_stress" else []


MISTAKES: Final = {
    "unlocked": Mistake(
        "locks/parking.h",
        "    if (PB_UNLIKELY(!pb_cas_acquire_u32(&l->word, PARKING_FREE, PARKING_HELD)))\n"
        "        parking_wait(l, me);",
        "",
        "test_stress",
    ),
    "not woken": Mistake(
        "locks/parking.h",
        "        pb_futex_wake(&l->word, 1);",
        "",
        "test_stress",
    ),
    "forgets the others": Mistake(  # woken, takes it as if nobody else slept
        "locks/parking.h",
        "pb_exchange_acquire_u32(&l->word, PARKING_SLEEPERS) != PARKING_FREE",
        "!pb_cas_acquire_u32(&l->word, PARKING_FREE, PARKING_HELD) &&"
        " (pb_cas_acquire_u32(&l->word, PARKING_HELD, PARKING_SLEEPERS), true)",
        "test_stress",
    ),
    "unordered": Mistake(
        "locks/parking.h",
        "if (PB_UNLIKELY(pb_exchange_release_u32(&l->word, PARKING_FREE) == PARKING_SLEEPERS))",
        "if (PB_UNLIKELY(atomic_exchange_explicit(&l->word.v, PARKING_FREE, memory_order_relaxed)"
        " == PARKING_SLEEPERS))",
        "test_stress",
        "thread",
    ),
    "put unlocked": Mistake(
        "pools/locked.c",
        "    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);\n"
        "    const bool kept = p->count < p->capacity;\n"
        "    if (PB_LIKELY(kept))\n"
        "        locked_put(p, object);\n"
        "    pb_lock_release(&p->lock, p->kind, &ctx->lock_node);",
        "    const bool kept = p->count < p->capacity;\n"
        "    if (PB_LIKELY(kept))\n"
        "        locked_put(p, object);",
        "test_stress",
    ),
    "checked before locked": Mistake(
        "pools/locked.c",
        "    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);\n"
        "    const bool kept = p->count < p->capacity;",
        "    const bool kept = p->count < p->capacity;\n"
        "    PB_YIELD_POINT();\n"
        "    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);",
        "test_stress",
    ),
    "kept locked": Mistake(  # when a constructor fails under the lock
        "pools/locked.c",
        "    if (p->construct_inside)\n"
        "        pb_lock_release(&p->lock, p->kind, &ctx->lock_node);\n"
        "    return got;",
        "    if (p->construct_inside && got.object)\n"
        "        pb_lock_release(&p->lock, p->kind, &ctx->lock_node);\n"
        "    return got;",
        "test_stress",
    ),
    "reset too late": Mistake(  # when others may have it
        "pools/locked.c",
        "    if (PB_LIKELY(kept))\n        return PB_KEPT;",
        "    if (PB_LIKELY(kept)) {\n"
        "        pb_reset_at_release(ctx, object, w, args);\n"
        "        return PB_KEPT;\n"
        "    }",
        "test_stress",
        "thread",
    ),
    "beyond capacity": Mistake(
        "pools/locked.c",
        "p->count < p->capacity;",
        "p->count <= p->capacity;",
        "test_stress",
    ),
    "oldest": Mistake(
        "pools/locked.c",
        "p->first = at + 1 == p->capacity ? 0 : at + 1;",
        "p->first = at + 1 == p->capacity ? 1 : at + 1;",
        "test_stress",
    ),
    "together": Mistake(
        "pools/locked.c",
        "    PB_ALIGNED pb_lock lock;",
        "    pb_lock lock;",
        "compiler",
    ),
    "lost": Mistake(
        "pools/thread_local.c",
        "        pb_destroy(ctx, object, w, args);\n        return PB_DESTROYED;",
        "        return PB_DESTROYED;",
        "test_pools",
    ),
    "left behind": Mistake(
        "pools/thread_cache.c",
        "    while (self->count > 0)\n"
        "        pb_destroy(ctx, self->idle[--self->count], "
        "ctx->workload->is, ctx->workload->args);",
        "",
        "test_pools",
    ),
    "link": Mistake(  # a constructor that failed has written over the slot's link
        "pools/slab.c",
        "        *slab_next(self, offset) = next;\n        return (pb_got){NULL, PB_FAILED, 0};",
        "        return (pb_got){NULL, PB_FAILED, 0};",
        "test_slab",
    ),
    "generation": Mistake(
        "pools/slab.c",
        "    pb_destroy_at(ctx, object, w, args);\n"
        "    if (self->generations)\n        (*slab_generation(self, offset))++;",
        "    pb_destroy_at(ctx, object, w, args);",
        "test_slab",
    ),
    "newest": Mistake(  # trims the wrong end
        "pools/thread_cache.c",
        "self->idle[i], ctx->workload->is",
        "self->idle[self->count - 1 - i], ctx->workload->is",
        "test_thread_cache",
    ),
    "held": Mistake(  # the pattern ends with objects in its hands
        "patterns/steady.h",
        "    steady_empty(ctx, held, pool, w, args, live);",
        "    (void)steady_empty;",
        "test_steady",
    ),
    "wrapped": Mistake(  # of what was kept, in a pass that holds more at its end
        "window.c",
        "ctx->operations - kept_out(ctx)",
        "ctx->operations - 0 * kept_out(ctx)",
        "test_steady",
    ),
    # ---- pools that several threads share ----
    "tag not moved by a push": Mistake(
        "pools/treiber.c",
        "pb_cas_release_u64(head, seen, ((*seen + TREIBER_TAG_ONE) & tag_mask) | index);",
        "pb_cas_release_u64(head, seen, (*seen & tag_mask) | index);",
        "test_treiber",
    ),
    "pushed on a stack unordered": Mistake(
        "pools/treiber.c",
        "    return pb_cas_release_u64(head, seen,",
        "    return pb_cas_relaxed_u64(head, seen,",
        "test_stress",
        "thread",
    ),
    "strict does not look again": Mistake(
        "pools/mpmc_ring.c",
        "        if (!self->strict)\n            return false;",
        "        return false;",
        "test_mpmc_ring",
    ),
    "turn stored before the object": Mistake(
        "pools/mpmc_ring.c",
        "    cell->object = object;\n"
        "    /* release: pairs with the acquire in mpmc_turn of the pop; publishes the object */\n"
        "    pb_store_release_u64(&cell->turn, place + 1);",
        "    pb_store_release_u64(&cell->turn, place + 1);\n"
        "    PB_YIELD_POINT();\n"
        "    cell->object = object;",
        "test_stress",
    ),
    "no wake after a failed construction": Mistake(
        "pools/blocking.c",
        "    if (PB_UNLIKELY(got.object == NULL))\n        blocking_give_slot(self);",
        "    if (PB_UNLIKELY(got.object == NULL))\n        self->pool->slots--;",
        "test_blocking",
    ),
    "handed to one that has left": Mistake(
        "pools/blocking.c",
        "        if (word == BLOCKING_WAITS)\n            blocking_unlist(p, self);\n",
        "",
        "test_blocking",
    ),
    "newest waiter first": Mistake(
        "pools/blocking.c",
        "    blocking_ctx *waiter = p->oldest;\n",
        "    blocking_ctx *waiter = p->newest;\n",
        "test_blocking",
    ),
    "a slot taken without a swap": Mistake(
        "pools/slot_scan.c",
        "PB_LIKELY(pb_cas_release_ptr(slot, NULL, object))",
        "(pb_store_release_ptr(slot, object), true)",
        "test_slot_scan",
    ),
    "a shard left after its count": Mistake(
        "shard.h",
        "    pb_store_relaxed_u32(&s->count, count - 1);"
        " /* relaxed: who is outside takes it for a hint */\n"
        "    pb_shard_leave(s);",
        "    pb_shard_leave(s);\n"
        "    PB_YIELD_POINT();\n"
        "    pb_store_relaxed_u32(&s->count, count - 1);",
        "test_stress",
    ),
    "a shard entered without a swap": Mistake(
        "shard.h",
        "const bool inside = pb_cas_acquire_u32(&s->taken, 0, 1);",
        "const bool inside = pb_load_acquire_u32(&s->taken) == 0;\n"
        "    PB_YIELD_POINT();\n"
        "    if (inside)\n"
        "        pb_store_relaxed_u32(&s->taken, 1);",
        "test_stress",
    ),
    "a transient is kept": Mistake(
        "pools/sharded.c",
        "if (PB_LIKELY(held.handle != SHARDED_TRANSIENT)) {",
        "if (true) {",
        "test_sharded",
    ),
    "the other CPU's": Mistake(
        "pools/percpu.c",
        "return answer == PB_SHARD_DONE;",
        "return answer != PB_SHARD_TAKEN;",
        "test_percpu",
    ),
    "one magazine in two places": Mistake(
        "pools/magazine.c",
        "    PB_YIELD_POINT();\n    self->previous = self->loaded;\n"
        "    magazine_load(self, m, count);",
        "    PB_YIELD_POINT();\n    magazine_load(self, m, count);",
        "test_magazine",
    ),
    "the depot unlocked": Mistake(
        "pools/magazine.c",
        "    pb_lock_acquire(&p->lock, p->kind, &ctx->lock_node);\n    magazine *empty = NULL;\n",
        "    magazine *empty = NULL;\n",
        "test_magazine",
    ),
    "on both shelves": Mistake(
        "pools/size_classes.c",
        "    PB_YIELD_POINT();\n    self->top[number]--;\n",
        "    PB_YIELD_POINT();\n",
        "test_size_classes",
    ),
    "memory not rounded up": Mistake(
        "pools/size_classes.c",
        "malloc(size_classes_block(number))",
        "malloc(args->size)",
        "test_size_classes",
    ),
    "an inbox that does not close": Mistake(
        "pools/owner_inbox.c",
        "pb_exchange_acq_rel_u64(&home->inbox, OWNER_INBOX_CLOSED);",
        "pb_exchange_acq_rel_u64(&home->inbox, owner_inbox_word(0, owner_inbox_end()));",
        "test_owner_inbox",
    ),
    "CLOSED not looked at": Mistake(
        "pools/owner_inbox.c",
        "if (PB_UNLIKELY(length >= self->inbox)) /* CLOSED always is */",
        "if (length == self->inbox)",
        "test_owner_inbox",
    ),
    "the rest of the inbox forgotten": Mistake(
        "pools/owner_inbox.c",
        "    self->chain = e->next;\n",
        "    self->chain = owner_inbox_end();\n",
        "test_owner_inbox",
    ),
    "pushed into an inbox unordered": Mistake(
        "pools/owner_inbox.c",
        "pb_cas_release_u64(&home->inbox",
        "pb_cas_relaxed_u64(&home->inbox",
        "test_stress",
        "thread",
    ),
    "the generation before forgotten": Mistake(
        "pools/stealing.c",
        "self->aged = one ? self->private : NULL;",
        "self->aged = NULL;",
        "test_stealing",
    ),
    "stolen unordered": Mistake(
        "chain.h",
        "pb_cas_acquire_u64(&ring->ends, &ends,",
        "pb_cas_relaxed_u64(&ring->ends, &ends,",
        "test_stress",
        "thread",
    ),
    "a leaver's slot lost": Mistake(
        "pools/stealing.c",
        "    stealing_leave(self, &local->chain[self->epoch & 1], self->private);\n",
        "",
        "test_stealing",
    ),
}

# Cells that are wrong by their parameters, as lessons: the stress test has to fail on them. A tag
# of few bits comes round again while a thread is away: the ABA problem.
WRONG_CELLS: Final = ["treiber tag_bits=0", "treiber tag_bits=4 backoff=0"]
