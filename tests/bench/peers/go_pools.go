// SPDX-License-Identifier: MIT
//
// go_pools.go - Go's sync.Pool, and a mutex around a slice, as pools (a Go toolchain; no modules).
//
//	go_pools KIND GOROUTINES MILLISECONDS CAPACITY    one line of JSON, as churn.h describes
//	go_pools version                                  one line: the Go version
//
//	go-sync-pool          sync.Pool without New: nil, and a fresh object, when it has none
//	go-mutex              sync.Mutex around a slice, the newest idle object first, CAPACITY of them
//	go-sync-pool-locked   the same two, each goroutine locked to an OS thread of its own
//	go-mutex-locked
//
// GOMAXPROCS is the number of CPUs. Goroutines are not locked to threads unless the kind says so:
// nobody writes servers that way, and a blocked goroutine then costs a switch of OS threads. So
// beyond GOMAXPROCS the plain kinds have fewer threads than the others of their row, which is Go's
// own advantage, and the locked kinds have as many.
//
// Fair: both are used as Go programs do that care; unlocking is not deferred. An object is a pointer
// to 1 KiB, made by new, which zeroes it, for Go has no other way; no C program here zeroes. It is
// read back by atomic loads, plain moves on common machines that the compiler may not fold.
//
// Not quite: sync.Pool gives its objects to the garbage collector every second collection, so it has
// no bound, nothing can be drained, and "destroyed" and "idle" are null. The collector runs as it
// likes; in steady state nothing is allocated, and it has no cause to.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	batch    = 64
	leadInMS = 20
	line     = 128 // two cache lines: they are fetched in pairs
)

type object struct {
	first uint32
	_     [1016]byte
	last  uint32
}

// use writes both ends and reads them back.
func (o *object) use() uint64 {
	o.first = 1
	o.last = 2
	return uint64(atomic.LoadUint32(&o.first)) + uint64(atomic.LoadUint32(&o.last))
}

// counts are written by one goroutine alone until it is waited for.
type counts struct {
	operations  uint64
	constructed uint64
	destroyed   uint64
	at          [3]uint64 // operations when it first saw the epoch
	sink        uint64    // what was read from objects: or the reads could be left out
	_           [line]byte
}

type churner interface {
	churn(mine *counts) // one batch
	drain() *uint64     // idle objects; nil when nobody can know
}

type syncPool struct {
	pool sync.Pool
}

func (p *syncPool) churn(mine *counts) {
	sum := uint64(0)
	for i := 0; i < batch; i++ {
		o, ok := p.pool.Get().(*object)
		if !ok {
			o = new(object)
			mine.constructed++
		}
		sum += o.use()
		p.pool.Put(o)
	}
	mine.sink += sum
}

func (p *syncPool) drain() *uint64 { return nil }

type mutexPool struct {
	mutex    sync.Mutex
	idle     []*object
	capacity int
}

func (p *mutexPool) acquire() *object {
	p.mutex.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mutex.Unlock()
		return nil
	}
	o := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	p.mutex.Unlock()
	return o
}

func (p *mutexPool) release(o *object) bool {
	p.mutex.Lock()
	kept := len(p.idle) < p.capacity
	if kept {
		p.idle = append(p.idle, o)
	}
	p.mutex.Unlock()
	return kept
}

func (p *mutexPool) churn(mine *counts) {
	sum := uint64(0)
	for i := 0; i < batch; i++ {
		o := p.acquire()
		if o == nil {
			o = new(object)
			mine.constructed++
		}
		sum += o.use()
		if !p.release(o) {
			mine.destroyed++ // left to the garbage collector
		}
	}
	mine.sink += sum
}

func (p *mutexPool) drain() *uint64 {
	idle := uint64(0)
	for p.acquire() != nil {
		idle++
	}
	return &idle
}

type run struct {
	_       [line]byte
	epoch   atomic.Uint32
	_       [line]byte
	started sync.WaitGroup
	ended   sync.WaitGroup
	pool    churner
	locked  bool
	counts  []counts
	seconds float64
}

func (r *run) work(mine *counts) {
	defer r.ended.Done()
	if r.locked {
		runtime.LockOSThread()
	}
	seen := uint32(0)
	for seen < 2 {
		r.pool.churn(mine)
		if mine.operations == 0 {
			r.started.Done()
		}
		mine.operations += batch
		for epoch := r.epoch.Load(); seen < epoch; { // fills what it skipped
			seen++
			mine.at[seen] = mine.operations
		}
	}
}

func (r *run) measure(milliseconds float64) {
	n := len(r.counts)
	r.started.Add(n)
	r.ended.Add(n)
	for i := range r.counts {
		go r.work(&r.counts[i])
	}
	r.started.Wait()
	stretch := max(1, float64(n)/float64(runtime.NumCPU()))
	time.Sleep(time.Duration(leadInMS * stretch * float64(time.Millisecond)))
	start := time.Now()
	r.epoch.Store(1)
	time.Sleep(time.Duration(milliseconds * float64(time.Millisecond)))
	r.seconds = time.Since(start).Seconds()
	r.epoch.Store(2)
	r.ended.Wait()
}

// max of two; the builtin came with Go 1.21, which not every distribution has.
func max(a, b float64) float64 {
	if a > b {
		return a
	}
	return b
}

type report struct {
	Kind        string   `json:"kind"`
	Threads     int      `json:"threads"`
	Seconds     float64  `json:"seconds"`
	Operations  []uint64 `json:"operations"`
	Total       uint64   `json:"total"`
	Constructed uint64   `json:"constructed"`
	Destroyed   *uint64  `json:"destroyed"`
	Idle        *uint64  `json:"idle"`
}

func (r *run) report(kind string) report {
	found := report{Kind: kind, Threads: len(r.counts), Seconds: r.seconds, Idle: r.pool.drain()}
	destroyed := uint64(0)
	for i := range r.counts {
		c := &r.counts[i]
		found.Operations = append(found.Operations, c.at[2]-c.at[1])
		found.Total += c.operations
		found.Constructed += c.constructed
		destroyed += c.destroyed
	}
	if found.Idle != nil {
		found.Destroyed = &destroyed
	}
	return found
}

func fail(text string, status int) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(status)
}

func open(kind string, capacity int) churner {
	switch strings.TrimSuffix(kind, "-locked") {
	case "go-sync-pool":
		return &syncPool{}
	case "go-mutex":
		return &mutexPool{capacity: capacity, idle: make([]*object, 0, capacity)}
	}
	fail("unknown kind "+kind+"; choose from go-sync-pool, go-mutex, and each with -locked", 2)
	return nil
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println(runtime.Version())
		return
	}
	if len(os.Args) != 5 {
		fail("usage: go_pools KIND GOROUTINES MILLISECONDS CAPACITY", 2)
	}
	kind := os.Args[1]
	threads, noThreads := strconv.Atoi(os.Args[2])
	milliseconds, noTime := strconv.ParseFloat(os.Args[3], 64)
	capacity, noCapacity := strconv.Atoi(os.Args[4])
	if noThreads != nil || noTime != nil || noCapacity != nil ||
		threads < 1 || milliseconds <= 0 || capacity < 1 {
		fail("GOROUTINES, MILLISECONDS and CAPACITY are numbers, more than 0", 2)
	}
	runtime.GOMAXPROCS(runtime.NumCPU())
	r := run{pool: open(kind, capacity), locked: strings.HasSuffix(kind, "-locked")}
	r.counts = make([]counts, threads)
	r.measure(milliseconds)
	found := r.report(kind)
	text, err := json.Marshal(found)
	if err != nil {
		fail(err.Error(), 1)
	}
	fmt.Println(string(text))
	if found.Idle != nil && found.Constructed != *found.Destroyed+*found.Idle {
		fail(kind+": objects not conserved", 1)
	}
}
