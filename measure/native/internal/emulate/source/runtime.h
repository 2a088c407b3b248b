// This file runs the threads of a block one after the other on one thread of the host. Each is a
// fiber that runs until it has to wait for others. Blocks run one after the other, except that the
// threads of a cluster's blocks take turns; the static memory of a block is then swapped with that
// of the next.
// Every other launch runs threads and blocks in the reverse order, and shared memory begins as NaN,
// so that a kernel that depends on an order or on earlier contents gives wrong results. A block in
// which all threads wait ends the program. The thread of the host that queues a GPU's kernels runs
// them, so several GPUs run at the same time. All parts of programs link the same object of it.
Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

void fail(const char *what) {
  fprintf(stderr, "emulated GPU: %s in block (%u, %u, %u), thread %u\n", what, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
  abort();
}

// A Warp is a rendezvous of its lanes, at which each leaves up to 32 bytes.
struct Warp {
  u32 arrived, mask, generation;
  int what;
  u64 slots[2][32][4];
  float products[2][16][8];
};

struct Barrier {
  u32 arrived, expected, generation;
};

// A Block is a block of a cluster, or a single block.
struct Block {
  Index index;
  unsigned live;
  Barrier barriers[16];
  std::vector<u8> statics; // the static memory of a suspended block
};

struct Static {
  u8 *at;
  size_t size;
};

Thread threads[MOST_FIBERS];
Warp warps[MOST_FIBERS / 32];
Block blocks[MOST_CLUSTER];
int inside;             // the index of the running block in its cluster
u32 cluster;            // the blocks of a cluster
bool reversed;          // Threads and blocks run in the reverse order.
bool early;             // The kernel may start before the previous one has ended.
u32 arrived, cluster_barriers;  // of the cluster's threads
u32 dynamic;            // the bytes of dynamic shared memory of a block
Static statics;
Thread *current;
bool trapped;
u32 looks; // how many threads have looked for what another GPU writes since the others had their turn
void *scheduler; // the scheduler's stack pointer while a thread runs
u8 *stacks, *first_end, *shared_end, *shared;
void (*body)(void **);
void **arguments;
std::mutex one; // It serializes launches.

// emulated_switch switches from one stack to another and stores the old stack pointer in *from.
extern "C" void emulated_switch(void **from, void *to);
#if defined(__x86_64__)
const int SAVED = 6;
asm(".text\n.local emulated_switch\n.type emulated_switch, @function\nemulated_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nretq\n");
#elif defined(__aarch64__)
const int SAVED = 20;
asm(".text\n.local emulated_switch\n.type emulated_switch, %function\nemulated_switch:\n"
    "stp x29, x30, [sp, #-16]!\nstp x19, x20, [sp, #-16]!\nstp x21, x22, [sp, #-16]!\nstp x23, x24, [sp, #-16]!\n"
    "stp x25, x26, [sp, #-16]!\nstp x27, x28, [sp, #-16]!\nstp d8, d9, [sp, #-16]!\nstp d10, d11, [sp, #-16]!\n"
    "stp d12, d13, [sp, #-16]!\nstp d14, d15, [sp, #-16]!\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp d14, d15, [sp], #16\nldp d12, d13, [sp], #16\nldp d10, d11, [sp], #16\nldp d8, d9, [sp], #16\n"
    "ldp x27, x28, [sp], #16\nldp x25, x26, [sp], #16\nldp x23, x24, [sp], #16\nldp x21, x22, [sp], #16\n"
    "ldp x19, x20, [sp], #16\nldp x29, x30, [sp], #16\nret\n");
#else
#error threads of a block are written for x86-64 and 64-bit Arm
#endif

// switch_back suspends the thread until the scheduler resumes it.
void switch_back() { emulated_switch(&current->stack, scheduler); }

void wait(State s) {
  current->state = s;
  switch_back();
}

// look_again yields to other threads before a thread polls again for what another GPU writes.
void look_again() {
  looks++;
  wait(READY);
}

// let_others gives the processor to other GPUs after all threads of a block or cluster had their turn,
// for a while if many turns had threads that look for what these write, and no others.
void let_others(u32 turns) {
  static u32 idle;
  idle = looks && looks == turns ? idle + 1 : 0;
  const timespec a_while = {0, 100000};
  if (idle > 16) nanosleep(&a_while, nullptr);
  else if (looks) sched_yield();
  looks = 0;
}

// trap ends the kernel, as the instruction trap does.
void trap() {
  trapped = true;
  wait(ENDED);
}

bool can_go_on(const Thread &t, int i) {
  switch (t.state) {
    case READY: return true;
    case AT_BARRIER: return blocks[inside].barriers[t.barrier].generation != t.ticket;
    case AT_WARP: return warps[i / 32].generation != t.ticket;
    case AT_MBARRIER: return phase_done(t.mbarrier, t.parity);
    case AT_CLUSTER: return cluster_barriers >= t.reached;
    case ENDED: return false;
  }
  return false;
}

// arrive implements bar.arrive, and reports whether the thread was the last. If expected is 0, all
// threads that have not ended are expected.
bool arrive(int number, u32 expected) {
  Barrier &b = blocks[inside].barriers[number];
  u32 want = expected ? expected : blocks[inside].live;
  if (b.arrived && b.expected != expected) fail("a barrier is waited at by different numbers of threads");
  b.expected = expected;
  if (++b.arrived < want) return false;
  b.arrived = 0, b.generation++;
  return true;
}

// barrier implements bar.sync.
void barrier(int number, u32 expected) {
  u32 now = blocks[inside].barriers[number].generation;
  if (arrive(number, expected)) return;
  current->barrier = number, current->ticket = now;
  wait(AT_BARRIER);
}

// These are the barriers of a cluster. The next one would wait forever for a thread that has ended.
void arrive_at_cluster() {
  if (current->reached > cluster_barriers) fail("a thread arrives twice at one barrier of the cluster");
  current->reached++;
  if (++arrived == cluster * blockDim.x * blockDim.y * blockDim.z) arrived = 0, cluster_barriers++;
}
void wait_for_cluster() {
  if (cluster_barriers < current->reached) wait(AT_CLUSTER);
}

// in_cluster is the address in block rank that corresponds to `at` in this block.
u8 *in_cluster(const void *p, u32 rank) {
  const u8 *at = (const u8 *)p;
  if (rank >= cluster) fail("a block that is not of the cluster");
  if (blocks[rank].live == 0) fail("the shared memory of a block that has ended");
  if (at >= statics.at && at < statics.at + statics.size) return rank == (u32)inside ? (u8 *)at : blocks[rank].statics.data() + (at - statics.at);
  if (at < shared || at >= shared_end) fail("no shared memory is known at an address");
  return (u8 *)at + ((int)rank - inside) * SHARED_STRIDE;
}

// meet exchanges n bytes among the lanes of mask, which all have to call it. The last lane to
// arrive calls last.
template <class F>
Warp &meet(u32 mask, int what, const void *value, int n, int &turn, F last) {
  int i = current - threads, lane = i % 32;
  Warp &w = warps[i / 32];
  if (!(mask >> lane & 1)) fail("a lane is not in the mask that it names");
  if (w.arrived && (w.mask != mask || w.what != what)) fail("the lanes of a warp do different things");
  w.mask = mask, w.what = what;
  turn = w.generation & 1;
  memcpy(w.slots[turn][lane], value, n);
  w.arrived |= 1u << lane;
  if (w.arrived == mask) {
    last(w);
    w.arrived = 0, w.generation++;
  } else {
    current->ticket = w.generation;
    wait(AT_WARP);
  }
  return w;
}
const Slots &meet(u32 mask, int what, const void *value, int n) {
  int turn;
  Warp &w = meet(mask, what, value, n, turn, [](Warp &) {});
  return w.slots[turn];
}

// copy_now makes the copies of all groups before group last.
void copy_now(u32 last) {
  std::vector<Copy> &c = current->copies;
  size_t kept = 0;
  for (size_t i = 0; i < c.size(); i++) {
    if (c[i].group >= last) {
      c[kept++] = c[i];
      continue;
    }
    memcpy(c[i].to, c[i].from, c[i].bytes);
    memset((u8 *)c[i].to + c[i].bytes, 0, c[i].size - c[i].bytes);
  }
  c.resize(kept);
}

void thread_main() {
  for (;;) {
    body(arguments);
    if (early && !current->waited) fail("a thread of a kernel that starts early does not wait for the one ahead");
    current->state = ENDED;
    Block &here = blocks[inside];
    here.live--;
    Barrier &b = here.barriers[0];
    if (b.arrived && b.arrived == here.live) b.arrived = 0, b.generation++;
    switch_back();
  }
}

// enter switches to block b.
void enter(int b) {
  if (b == inside) return;
  memcpy(blocks[inside].statics.data(), statics.at, statics.size);
  memcpy(statics.at, blocks[b].statics.data(), statics.size);
  inside = b, blockIdx = blocks[b].index;
  shared_end = first_end + (size_t)b * SHARED_STRIDE, shared = shared_end - dynamic;
}

void go_on(Thread &t) {
  current = &t;
  threadIdx = t.index;
  t.state = READY;
  emulated_switch(&scheduler, t.stack);
}

// prepare creates the threads of so many blocks of n threads.
void prepare(int n, int of) {
  if (!stacks) {
    stacks = (u8 *)mmap(nullptr, (size_t)MOST_FIBERS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    u8 *s = (u8 *)mmap(nullptr, (size_t)MOST_CLUSTER * SHARED_STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED || s == MAP_FAILED) fail("no memory for stacks");
    for (int b = 0; b < MOST_CLUSTER; b++)
      if (mprotect(s + (size_t)b * SHARED_STRIDE, MOST_SHARED, PROT_READ | PROT_WRITE) != 0) fail("no shared memory");
    first_end = s + MOST_SHARED;
  }
  for (int i = 0; i < n * of; i++) {
    Thread &t = threads[i];
    unsigned k = i % n;
    t.index = {k % blockDim.x, k / blockDim.x % blockDim.y, k / blockDim.x / blockDim.y}, t.block = i / n;
    t.state = READY, t.group = 0, t.reached = 0, t.waited = false;
    t.copies.clear();
    if (t.stack) continue;
    void **top = (void **)(stacks + (size_t)(i + 1) * STACK - i % 64 * 17 * 64); // The offset spreads the stacks over the sets of the caches.
#if defined(__x86_64__)
    *--top = nullptr; // It takes the place of a return address.
    *--top = (void *)thread_main;
    top -= SAVED;
#else
    top -= SAVED;
    top[SAVED - 1] = (void *)thread_main; // x30
#endif
    t.stack = top;
  }
  memset(warps, 0, (n * of + 31) / 32 * sizeof *warps);
}

// The kernels' static shared memory is thread_local, and nothing else in this library is.
thread_local u8 anchor;

Static static_shared() {
  anchor = 1; // This write makes the thread's block of static memory exist.
  Static s = {};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *out) {
        Static *s = (Static *)out;
        for (int i = 0; i < info->dlpi_phnum; i++) {
          const auto &h = info->dlpi_phdr[i];
          u8 *at = (u8 *)info->dlpi_tls_data;
          if (h.p_type == PT_TLS && at && at <= &anchor && &anchor < at + h.p_memsz) *s = {at, h.p_memsz};
        }
        return 0;
      },
      &s);
  if (!s.at) fail("static shared memory is not to be found");
  return s;
}

// run_cluster runs the blocks first to first+cluster-1, of n threads each, which are neighbours
// along x.
void run_cluster(int n, u64 first, bool reverse) {
  prepare(n, cluster);
  arrived = cluster_barriers = 0;
  for (u32 b = 0; b < cluster; b++) {
    u64 k = first + b;
    blocks[b].index = {(u32)(k % gridDim.x), (u32)(k / gridDim.x % gridDim.y), (u32)(k / gridDim.x / gridDim.y)};
    blocks[b].live = n;
    memset(blocks[b].barriers, 0, sizeof blocks[b].barriers);
    blocks[b].statics.assign(statics.size, 0xff);
    u8 *end = first_end + (size_t)b * SHARED_STRIDE;
    memset(end - dynamic, 0xff, dynamic);
  }
  inside = 0, blockIdx = blocks[0].index, shared_end = first_end, shared = first_end - dynamic;
  memset(statics.at, 0xff, statics.size);
  for (bool some = true; some && !trapped;) {
    u32 turns = 0;
    some = false;
    for (int k = 0, all = n * cluster; k < all && !trapped; k++) {
      int i = reverse ? all - 1 - k : k;
      Thread &t = threads[i];
      if (k + 2 < all) __builtin_prefetch(threads[reverse ? i - 2 : i + 2].stack); // Stacks lie far apart.
      if (t.state == ENDED) continue;
      some = true;
      enter(t.block);
      if (!can_go_on(t, i)) continue;
      turns++;
      go_on(t);
    }
    if (some && !turns && !trapped) fail("all threads wait");
    let_others(turns);
  }
  for (int i = 0; trapped && i < n * (int)cluster; i++) threads[i].stack = nullptr; // No thread continues after a trap.
}

// launch runs a kernel, and reports whether it ended without a trap.
int launch(void (*call)(void **), const u32 *grid, const u32 *block, u32 bytes, u32 of_cluster, bool starts_early, void **p) {
  std::lock_guard<std::mutex> guard(one);
  static unsigned launches;
  bool reverse = reversed = launches++ & 1;
  int n = block[0] * block[1] * block[2];
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
  body = call, arguments = p;
  statics = static_shared();
  trapped = false;
  dynamic = (bytes + 127) / 128 * 128, cluster = of_cluster, early = starts_early;
  if (n % 32 && cluster > 1 || n * cluster > MOST_FIBERS) fail("a cluster that is not emulated");
  u64 clusters = (u64)grid[0] * grid[1] * grid[2] / cluster;
  for (u64 k = 0; k < clusters && !trapped; k++) run_cluster(n, (reverse ? clusters - 1 - k : k) * cluster, reverse);
  return !trapped;
}

} // namespace emulated

void tiles_product(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  u32 mine[6] = {a0, a1, a2, a3, b0, b1};
  int turn = 0;
  emulated::Warp &w = emulated::meet(0xffffffffu, MMA, mine, sizeof mine, turn, [](emulated::Warp &w) {
    float a[16][16], b[16][8], (*out)[8] = w.products[w.generation & 1];
    for (int lane = 0; lane < 32; lane++) {
      const u32 *v = (const u32 *)w.slots[w.generation & 1][lane];
      int g = lane / 4, t = lane % 4;
      for (int i = 0; i < 4; i++) {
        float *to = &a[g + i % 2 * 8][2 * t + i / 2 * 8];
        to[0] = value16(v[i] & 0xffff), to[1] = value16(v[i] >> 16);
      }
      for (int i = 0; i < 2; i++) b[2 * t + 8 * i][g] = value16(v[4 + i] & 0xffff), b[2 * t + 8 * i + 1][g] = value16(v[4 + i] >> 16);
    }
    for (int r = 0; r < 16; r++) {
      float sum[8] = {};
      for (int k = 0; k < 16; k++)
        for (int c = 0; c < 8; c++) sum[c] += a[r][k] * b[k][c];
      for (int c = 0; c < 8; c++) out[r][c] = sum[c];
    }
  });
  int g = lane_id() / 4, t = lane_id() % 4;
  for (int i = 0; i < 4; i++) c[i] += w.products[turn][g + i / 2 * 8][2 * t + i % 2];
}

void load_matrices(u32 r[4], u32 at, bool transposed) {
  const emulated::Slots &s = emulated::meet(0xffffffffu, LOAD_MATRIX + transposed, &at, sizeof at);
  int g = lane_id() / 4, t = lane_id() % 4;
  for (int i = 0; i < 4; i++) {
    auto value = [&](int row, int col) { return (u32)((const bf16 *)shared_pointer(from_lane<u32>(s, i * 8 + row)))[col]; };
    r[i] = transposed ? value(2 * t, g) | value(2 * t + 1, g) << 16 : value(g, 2 * t) | value(g, 2 * t + 1) << 16;
  }
}

#ifndef OLDER
void begin_copy(u32 to, const void *from, int bytes, u32 size) {
  if ((u64)from % size || to % size) emulated::fail("a copy of bytes that are not aligned");
  shared_pointer(to + size - 1);
  emulated::current->copies.push_back({shared_pointer(to), from, bytes, size, emulated::current->group});
}

std::vector<Product> products[16][emulated::MOST_THREADS]; // [block of the cluster][thread]
u32 product_group[16][emulated::MOST_THREADS];

// matrix_at returns where value i of row r of a matrix in rows of 64 values lies; d's lead is the distance of its
// blocks. The values 8 n to 8 n + 7 lie side by side.
const bf16 *matrix_at(u64 d, int r, int i) {
  u32 at = (u32)(d & 0x3fff) << 4, lead = (u32)(d >> 16 & 0x3fff) << 4, eight = (u32)(d >> 32 & 0x3fff) << 4;
  at += i / 64 * lead + r / 8 * eight + r % 8 * 128 + i % 64 * 2;
  at ^= (at >> 7 & 7) << 4;
  return (const bf16 *)shared_pointer(at);
}

// matrix_row reads the first 16 values of row r.
void matrix_row(u64 d, int r, float (&row)[16]) {
  for (int i = 0; i < 16; i += 8) {
    const bf16 *at = matrix_at(d, r, i);
    for (int k = 0; k < 8; k++) row[i + k] = value16(at[k]);
  }
}

void queue_product(Product p) {
  p.group = product_group[emulated::inside][threadIdx.x];
  products[emulated::inside][threadIdx.x].push_back(p);
}

void make_product(const Product &p) {
  float a[2][16], b[2][16];
  int first = threadIdx.x % 128 / 32 * 16 + lane_id() / 4, t = lane_id() % 4;
  for (int h = 0; h < 2; h++)
    if (p.registers)
      memcpy(a[h], p.rows[h], sizeof a[h]);
    else
      matrix_row(p.a, first + 8 * h, a[h]);
  for (int c = 0; c < p.columns / 8; c++) {
    int column = c * 8 + 2 * t; // and the one after it
    for (int i = 0; i < 2 && !p.registers; i++) matrix_row(p.b, column + i, b[i]);
    for (int k = 0; k < 16 && p.registers; k++) {
      const bf16 *at = matrix_at(p.b, k, column);
      b[0][k] = value16(at[0]), b[1][k] = value16(at[1]);
    }
    float sum[4] = {};
    for (int k = 0; k < 16; k++)
      for (int i = 0; i < 4; i++) sum[i] += a[i / 2][k] * b[i % 2][k];
    for (int i = 0; i < 4; i++) p.d[c * 4 + i] = p.add ? p.d[c * 4 + i] + sum[i] : sum[i];
  }
}

void make_products(u32 n) {
  std::vector<Product> &all = products[emulated::inside][threadIdx.x];
  size_t done = 0;
  while (done < all.size() && all[done].group + n < product_group[emulated::inside][threadIdx.x]) make_product(all[done++]);
  all.erase(all.begin(), all.begin() + done);
}

void end_group() { product_group[emulated::inside][threadIdx.x]++; }

u64 *expected_at;
u32 expected;

void expect_boxes(u64 *b, u32 bytes) {
  if (expected) emulated::fail("fewer bytes are copied than the mbarrier expects");
  expected_at = b, expected = bytes;
}

void copy_box(u32 to, const TensorMap &m, int x, int y, int z, u64 *b) {
  u32 bytes = m.box[0] * m.box[1] * m.box[2] * 2;
  if (to % 1024 || m.box[0] != 64 || m.box[2] > 2) emulated::fail("a box that is not aligned, or not of 64 values");
  if (b != expected_at || bytes > expected) emulated::fail("more bytes are copied than the mbarrier expects");
  for (u32 i = 0; i < m.box[1] * m.box[2]; i++)
    for (int c = 0; c < 64; c++) {
      u32 r = i % m.box[1], p = i / m.box[1];
      bool in = x + c >= 0 && (u64)(x + c) < m.size[0] && y + (int)r >= 0 && y + r < m.size[1] && z >= 0 && z + p < m.size[2];
      u32 at = to + i * 128 + c * 2;
      at ^= (at >> 7 & 7) << 4;
      *(bf16 *)shared_pointer(at) = in ? *(const bf16 *)(m.at + (x + c) * 2 + (y + r) * m.stride[0] + (z + p) * m.stride[1]) : 0;
    }
  if ((expected -= bytes) == 0) barrier_arrive(b);
}
#endif
