// How sums and scores travel between ranks without a barrier, as in NCCL's LL protocol: a value and an
// epoch are one store of 8 bytes, a packet, to the memory of the receiver, which polls the packet
// until it has the epoch. No fence is needed, and a packet orders nothing but itself.
//
// The packets of a sender have two sides, which epochs use alternately. Before a rank sends epoch n+2,
// its kernel of epoch n+1 was complete. That kernel had received what all others sent in epoch n+1,
// which they did after their kernel of epoch n was complete (griddepcontrol.wait). So nobody reads the
// packets of epoch n any more, and a reader finds the epoch that it waits for, the one two before it,
// or none (0).
#if RANKS > 1

// LLBuffers say where the packets are.
struct LLBuffers {
  u64 *const *packets; // [rank]: [2][RANKS][values], in that rank's memory
  u32 *late; // This is host memory: one more than the rank that timed out.
  u64 limit; // nanoseconds to wait for a rank
  int rank;
};

// ll_offset is the offset of a sender's packets in the memory of a receiver, for so many values.
__device__ __forceinline__ u64 ll_offset(u32 epoch, int rank, u64 values) { return (epoch % 2 * RANKS + rank) * values; }

// ll_wait_all waits for EACH packets of every rank; `at` says where they arrive. It polls all missing
// packets at once, because polling one after the other would take the latency of each.
template <int EACH>
__device__ __forceinline__ void ll_wait_all(const LLBuffers &m, const u64 *const (&at)[RANKS], u64 (&got)[RANKS * EACH], u32 epoch) {
  u64 begin = 0;
  for (u32 looks = 0;; looks++) {
    int late = -1;
#pragma unroll
    for (int i = 0; i < RANKS * EACH; i++)
      if (at[i / EACH] && (looks == 0 || (u32)(got[i] >> 32) != epoch)) got[i] = ll_load(at[i / EACH] + i % EACH);
#pragma unroll
    for (int i = 0; i < RANKS * EACH; i++)
      if (at[i / EACH] && (u32)(got[i] >> 32) != epoch) late = i / EACH;
    if (late < 0) return;
    if (looks == 0) begin = nanoseconds();
    if (looks % 64 == 63 && waited(begin, m.limit)) give_up(m.late, late + 1);
  }
}

// ll_sum waits for value i of the other ranks and returns the sum of all, in the order of the ranks on
// every rank. mine is this rank's receive buffer, and local is its value.
__device__ __forceinline__ float ll_sum(const LLBuffers &m, const u64 *mine, u32 epoch, u64 values, u64 i, float local) {
  const u64 *at[RANKS];
  u64 got[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) at[r] = r == m.rank ? nullptr : mine + ll_offset(epoch, r, values) + i;
  ll_wait_all<1>(m, at, got, epoch);
  float sum = 0.f;
#pragma unroll
  for (int r = 0; r < RANKS; r++) {
    float v = r == m.rank ? local : __uint_as_float((u32)got[r]);
    sum = r ? sum + v : v;
  }
  return sum;
}

#endif
