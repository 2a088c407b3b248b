// These kernels use rings in shared memory as gemm_skinny.cu does. They differ in how a stage is filled,
// in how a warp signals that it has read one, and in what a kernel omits that is wrong on purpose.
// racecheck has to accept the correct kernels and to report the wrong ones (ring_test.go). The file is
// compiled after ptx.cuh.

#define WARP 32
#define FILLERS 64 // So many threads fill a stage, and as many read it.
#define STAGE (FILLERS * 16)

enum Fill {
  COPIES,      // cp.async, and an arrival that waits for them (noinc)
  COUNTED,     // cp.async, and an arrival that waits for them and counts as an additional one
  WAITED,      // cp.async, waited for by its thread, and an arrival
  STORES,      // ordinary stores, and an arrival of each thread
  STORES_WARP, // ordinary stores, and an arrival of each warp
};

enum Leave {
  BY_WARP,  // lane 0 arrives behind __syncwarp
  BY_LANES, // all lanes arrive
  BY_BOTH,  // all lanes arrive behind __syncwarp
  BY_BLOCK, // all threads meet at bar.sync, and nobody arrives
  BY_BLOCK_IF, // All threads meet at a bar.sync that has a predicate, and nobody arrives.
  BY_CHAIN, // The lanes of one warp arrive at a barrier that the other warp waits for, whose lanes then arrive for both.
  BY_MEETING, // Both warps meet at bar.sync, and the lanes of one arrive for both.
};

enum Wrong {
  NOTHING,
  NO_EMPTY, // A stage is filled again before the wait for its readers.
  NO_FULL,  // A stage is read before the wait for what fills it.
  NO_SYNC,  // Lane 0 arrives without __syncwarp.
};

__device__ __forceinline__ void arrive_counted(u64 *b) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ __forceinline__ void test_wait(u64 *b, u32 parity) {
  u32 done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(b)), "r"(parity)
                 : "memory");
}

template <Fill FILL, Leave LEAVE, Wrong WRONG, int STAGES, bool TEST>
struct Rings {
  u8 *ring;
  u64 *full, *empty, *chain;
  bool met;

  __device__ __forceinline__ static void wait(u64 *b, u32 parity) {
    if (TEST)
      test_wait(b, parity);
    else
      barrier_wait(b, parity);
  }

  __device__ __forceinline__ void put(int slot, int thread, const uint4 *from) const {
    u8 *to = ring + slot * STAGE + thread * 16;
    if (FILL == STORES || FILL == STORES_WARP)
      *(uint4 *)to = *from;
    else
      copy16(shared_address(to), from);
  }

  __device__ __forceinline__ void filled(int slot, int thread) const {
    if (FILL == COPIES) barrier_arrive_copied(full + slot);
    if (FILL == COUNTED) arrive_counted(full + slot);
    if (FILL == WAITED) commit(), wait_copies<0>();
    if (FILL == STORES_WARP) __syncwarp();
    if (FILL == COUNTED || FILL == WAITED || FILL == STORES || FILL == STORES_WARP && thread % WARP == 0) barrier_arrive(full + slot);
  }

  __device__ void produce(int thread, const uint4 *in, int stages) const {
    int s = 0, slot = 0;
    u32 phase = 0;
    for (; s < STAGES && s < stages; s++) put(s, thread, in + s * FILLERS + thread), filled(s, thread);
    for (; s < stages; s++) {
      const uint4 *from = in + s * FILLERS + thread;
      if (WRONG == NO_EMPTY) put(slot, thread, from);
      if (LEAVE == BY_BLOCK)
        sync_threads_of(1, 2 * FILLERS);
      else if (LEAVE == BY_BLOCK_IF) {
        if (met) sync_threads_of(1, 2 * FILLERS);
      } else
        wait(empty + slot, phase);
      if (WRONG != NO_EMPTY) put(slot, thread, from);
      filled(slot, thread);
      if (++slot == STAGES) slot = 0, phase ^= 1;
    }
  }

  // consume adds up two pieces of each stage, one from each warp that fills it.
  __device__ u32 consume(int thread, int stages) const {
    int slot = 0;
    u32 phase = 0, sum = 0;
    for (int s = 0; s < stages; s++) {
      if (WRONG != NO_FULL) wait(full + slot, phase);
      const u8 *from = ring + slot * STAGE;
      uint4 a = *(const uint4 *)(from + (thread * 5 + 1) % FILLERS * 16), b = *(const uint4 *)(from + (thread + 33) % FILLERS * 16);
      if (WRONG == NO_FULL) wait(full + slot, phase);
      sum = sum * 3 + (a.x ^ a.y ^ a.z ^ a.w) + 7 * (b.x ^ b.y ^ b.z ^ b.w);
      if ((LEAVE == BY_WARP || LEAVE == BY_BOTH) && WRONG != NO_SYNC) __syncwarp();
      if (LEAVE == BY_LANES || LEAVE == BY_BOTH || LEAVE == BY_WARP && thread % WARP == 0) barrier_arrive(empty + slot);
      if (LEAVE == BY_CHAIN && thread >= WARP) barrier_arrive(chain + slot);
      if (LEAVE == BY_CHAIN && thread < WARP) wait(chain + slot, phase);
      if (LEAVE == BY_MEETING) sync_threads_of(2, FILLERS);
      if ((LEAVE == BY_CHAIN || LEAVE == BY_MEETING) && thread < WARP) barrier_arrive(empty + slot);
      if ((LEAVE == BY_BLOCK || LEAVE == BY_BLOCK_IF) && s + STAGES < stages) sync_threads_of(1, 2 * FILLERS);
      if (++slot == STAGES) slot = 0, phase ^= 1;
    }
    return sum;
  }

  __device__ static void run(const uint4 *in, u32 *out, int stages) {
    DYNAMIC_SHARED(ring);
    __shared__ u64 full[STAGES], empty[STAGES], chain[STAGES];
    Rings r = {ring, full, empty, chain, stages > 1};
    if (threadIdx.x == 0)
      for (int i = 0; i < STAGES; i++)
        barrier_init(full + i, FILL == STORES_WARP ? FILLERS / WARP : FILLERS), barrier_init(empty + i, LEAVE == BY_WARP ? FILLERS / WARP : LEAVE == BY_CHAIN || LEAVE == BY_MEETING ? WARP : FILLERS), barrier_init(chain + i, WARP);
    __syncthreads();
    if (threadIdx.x < FILLERS)
      r.produce(threadIdx.x, in + blockIdx.x * stages * FILLERS, stages);
    else
      out[blockIdx.x * FILLERS + threadIdx.x - FILLERS] = r.consume(threadIdx.x - FILLERS, stages);
  }
};

#define RING(name, ...)                                                                                           \
  extern "C" __global__ void __launch_bounds__(2 * FILLERS) name(const uint4 *in, u32 *out, int stages) { \
    Rings<__VA_ARGS__>::run(in, out, stages);                                                                     \
  }

RING(warp_copies, COPIES, BY_WARP, NOTHING, 3, false)
RING(warp_copies_test, COPIES, BY_WARP, NOTHING, 3, true)
RING(warp_copies_one, COPIES, BY_WARP, NOTHING, 1, false)
RING(warp_counted, COUNTED, BY_WARP, NOTHING, 3, false)
RING(warp_waited, WAITED, BY_WARP, NOTHING, 3, false)
RING(warp_stores, STORES, BY_WARP, NOTHING, 3, false)
RING(warp_stores_warp, STORES_WARP, BY_WARP, NOTHING, 3, false)
RING(lanes_copies, COPIES, BY_LANES, NOTHING, 3, false)
RING(lanes_copies_test, COPIES, BY_LANES, NOTHING, 3, true)
RING(lanes_copies_one, COPIES, BY_LANES, NOTHING, 1, false)
RING(lanes_counted, COUNTED, BY_LANES, NOTHING, 3, false)
RING(lanes_waited, WAITED, BY_LANES, NOTHING, 3, false)
RING(lanes_stores, STORES, BY_LANES, NOTHING, 3, false)
RING(lanes_stores_warp, STORES_WARP, BY_LANES, NOTHING, 3, false)
RING(both_copies, COPIES, BY_BOTH, NOTHING, 3, false)
RING(both_stores, STORES, BY_BOTH, NOTHING, 3, false)
RING(block_copies, COPIES, BY_BLOCK, NOTHING, 3, false)
RING(block_waited, WAITED, BY_BLOCK, NOTHING, 3, false)
RING(block_stores, STORES, BY_BLOCK, NOTHING, 3, false)
RING(block_copies_if, COPIES, BY_BLOCK_IF, NOTHING, 3, false)
RING(chain_copies, COPIES, BY_CHAIN, NOTHING, 3, false)
RING(chain_stores, STORES, BY_CHAIN, NOTHING, 3, false)
RING(meeting_copies, COPIES, BY_MEETING, NOTHING, 3, false)
RING(meeting_stores, STORES, BY_MEETING, NOTHING, 3, false)
RING(wrong_no_empty, COPIES, BY_WARP, NO_EMPTY, 3, false)
RING(wrong_no_empty_lanes, COPIES, BY_LANES, NO_EMPTY, 3, false)
RING(wrong_no_empty_stores, STORES, BY_LANES, NO_EMPTY, 3, false)
RING(wrong_no_full, COPIES, BY_LANES, NO_FULL, 3, false)
RING(wrong_no_sync, COPIES, BY_WARP, NO_SYNC, 3, false)
