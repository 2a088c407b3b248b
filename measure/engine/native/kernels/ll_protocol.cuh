// How sums and scores pass between the ranks of a model without a meeting: each is
// posted into a box in every rank's memory together with its epoch, in one store of
// 8 bytes, and who waits for it looks at the epoch (NCCL's protocol LL does so too).
// No fence is needed, and nothing is ordered by it but the value itself.
//
// A box has two sides, which epochs take by epochs. Before a rank posts in epoch n+2 its
// kernel of epoch n+1 was complete, and had taken what all others posted in it, which
// they did after their kernel of epoch n was complete (griddepcontrol.wait): nobody looks
// at that side any more. So the epoch that is looked for is there, or the one two before
// it, or none (0).
#if RANKS > 1

// A LLBuffers is the part of the arguments that says where the boxes are.
struct LLBuffers {
  u64 *const *boxes; // [rank]: [2][RANKS][values], in that rank's memory
  u32 *late;         // of the host: one more than the rank that did not come
  u64 limit;         // nanoseconds to wait for it
  int rank;
};

// box is where the values of a rank are in the memory of another, of so many.
__device__ __forceinline__ u64 ll_offset(u32 epoch, int rank, u64 values) { return (epoch % 2 * RANKS + rank) * values; }

// await waits for EACH words of every rank of which `at` says where it posts them. It looks
// at all that it lacks at once: one after the other each look would take its time again.
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

// take waits for value i of the other ranks and gives the sum of all, in the order of
// the ranks wherever it is taken. mine is this rank's box, own its value.
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
