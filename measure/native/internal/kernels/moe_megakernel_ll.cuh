// How the blocks of the MoE megakernel wait for each other's packets.

#ifdef STEP_SHAPE

// arrive_block arrives at a barrier for all threads that multiply, which have synchronized before. One
// thread arrives for all of them, or each thread does in kernels for racecheck (common.cuh).
__device__ __forceinline__ void arrive_block(u64 *b) {
  if (threadIdx.x < BLOCK_ARRIVALS) barrier_arrive(b);
}

// ll_wait waits for the packet at `at` to have the epoch and returns its value; got is what the caller read there.
__device__ __forceinline__ u32 ll_wait(const u64 *at, u64 got, u32 epoch) {
  if ((u32)(got >> 32) == epoch) return (u32)got;
  u64 begin = nanoseconds();
#pragma unroll 1
  for (u32 looks = 1;; looks++) {
    got = ll_load(at);
    if ((u32)(got >> 32) == epoch) return (u32)got;
    if (looks % 64 == 0 && waited(begin, STEP_TIMEOUT)) give_up();
  }
}

// ll_gather waits for n packets at `from` and m packets at `more` and writes their values to shared
// memory, at `to` and `also`. Counts and positions are even. All lanes of a warp call it.
__device__ __noinline__ void ll_gather(u32 *to, const u64 *from, int n, u32 *also, const u64 *more, int m, u32 epoch) {
  const int AT_ONCE = 4; // A lane polls so many pairs of packets at a time.
#pragma unroll 1
  for (int i = threadIdx.x % WARP * 2; i < n + m; i += AT_ONCE * 2 * WARP) {
    u64 got[AT_ONCE][2];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) got[j][0] = got[j][1] = i + j * 2 * WARP < n + m ? 0 : (u64)epoch << 32;
    u64 begin = 0;
#pragma unroll 1
    for (u32 looks = 0;; looks++) {
      u32 missing = 0;
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        int at = i + j * 2 * WARP;
        if (((u32)(got[j][0] >> 32) ^ epoch) | ((u32)(got[j][1] >> 32) ^ epoch)) ll_load_pair(at < n ? from + at : more + (at - n), got[j]);
      }
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) missing |= ((u32)(got[j][0] >> 32) ^ epoch) | ((u32)(got[j][1] >> 32) ^ epoch);
      if (!missing) break;
      if (looks % 64 == 0) {
        if (looks == 0) begin = nanoseconds();
        if (waited(begin, STEP_TIMEOUT)) give_up();
      }
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      int at = i + j * 2 * WARP;
      if (at < n + m) *(uint2 *)(at < n ? to + at : also + (at - n)) = make_uint2((u32)got[j][0], (u32)got[j][1]);
    }
  }
  __syncwarp();
}

#endif
