package serving

import "container/list"

// A pool is the KV blocks of one replica: free, held by sequences, or kept for prompts that
// begin alike.
type pool struct {
	total, free int
	entries     map[uint64]*entry // cached blocks by the hash of the prefix that ends with them
	idle        lru               // entries on the GPU that no sequence uses; their blocks can be taken
	hosted      lru               // entries in host memory
	hostFree    int               // blocks of host memory that are left
}

// An entry is a block of a prefix in the cache.
type entry struct {
	hash   uint64
	blocks int
	users  int
	host   bool
	place  *list.Element // in the list that it is in
}

// An lru is a list of entries, the one used least recently first.
type lru struct {
	list.List
	blocks int
}

func (l *lru) push(e *entry) {
	e.place = l.PushBack(e)
	l.blocks += e.blocks
}

func (l *lru) remove(e *entry) {
	l.Remove(e.place)
	l.blocks -= e.blocks
}

func (l *lru) oldest() *entry { return l.Front().Value.(*entry) }

func newPool(blocks, hostBlocks int) *pool {
	return &pool{total: blocks, free: blocks, hostFree: hostBlocks, entries: map[uint64]*entry{}}
}

func (p *pool) available() int { return p.free + p.idle.blocks }

// take takes n blocks, of cached prefixes if there are not enough free ones.
func (p *pool) take(n int) bool {
	if n > p.available() {
		return false
	}
	for p.free < n {
		e := p.idle.oldest()
		p.idle.remove(e)
		p.free += e.blocks
		p.offload(e)
	}
	p.free -= n
	return true
}

// offload moves an entry to host memory if there is any, in place of those used least recently.
func (p *pool) offload(e *entry) {
	for p.hostFree < e.blocks && p.hosted.blocks > 0 {
		old := p.hosted.oldest()
		p.hosted.remove(old)
		p.hostFree += old.blocks
		delete(p.entries, old.hash)
	}
	if p.hostFree < e.blocks {
		delete(p.entries, e.hash)
		return
	}
	p.hostFree -= e.blocks
	e.host = true
	p.hosted.push(e)
}

// lookup counts the leading blocks of a prompt that are on the GPU, and those after them
// that are there or in host memory.
func (p *pool) lookup(hashes []uint64) (gpu, more int) {
	for _, h := range hashes {
		e := p.entries[h]
		switch {
		case e == nil:
			return gpu, more
		case e.host || more > 0:
			more++
		default:
			gpu++
		}
	}
	return gpu, more
}

// use holds the entries of leading hashes. Those in host memory come back, into as many
// blocks as it returns, which the caller has to take.
func (p *pool) use(hashes []uint64) (loaded int) {
	for _, h := range hashes {
		e := p.entries[h]
		switch {
		case e.host:
			p.hosted.remove(e)
			p.hostFree += e.blocks
			e.host = false
			loaded += e.blocks
		case e.users == 0:
			p.idle.remove(e)
		}
		e.users++
	}
	return loaded
}

// keep enters blocks of a prompt that was computed, and holds them. It returns how many of
// the caller's blocks are the cache's now, and up to which hash entries are held.
func (p *pool) keep(hashes []uint64, from, blocks int) (given, held int) {
	for i := from; i < len(hashes); i++ {
		if p.entries[hashes[i]] != nil { // another sequence computed the same meanwhile
			return given, i
		}
		p.entries[hashes[i]] = &entry{hash: hashes[i], blocks: blocks, users: 1}
		given += blocks
	}
	return given, len(hashes)
}

// release lets go of the entries of leading hashes, the last first, so that the
// beginning of a prefix stays for longest.
func (p *pool) release(hashes []uint64) {
	for i := len(hashes) - 1; i >= 0; i-- {
		e := p.entries[hashes[i]]
		if e.users--; e.users == 0 {
			p.idle.push(e)
		}
	}
}

// must takes blocks that were found to be available.
func (p *pool) must(n int) int {
	if n <= 0 {
		return 0
	}
	if !p.take(n) {
		p.free -= n // a sequence in the cache needs some more for a moment
	}
	return n
}

// idleOf is the blocks of leading hashes that no sequence uses: they are available, but not
// for anything besides a sequence that begins with them.
func (p *pool) idleOf(hashes []uint64) (blocks int) {
	for _, h := range hashes {
		if e := p.entries[h]; e.users == 0 {
			blocks += e.blocks
		}
	}
	return blocks
}
