// How sums and scores pass between the ranks of a model without a meeting: each is
// posted into a box in every rank's memory together with its turn, in one store of
// 8 bytes, and who waits for it looks at the turn (NCCL's protocol LL does so too).
// No fence is needed, and nothing is ordered by it but the value itself.
//
// A box has two sides, which turns take by turns. Before a rank posts in turn n+2 its
// kernel of turn n+1 was complete, and had taken what all others posted in it, which
// they did after their kernel of turn n was complete (griddepcontrol.wait): nobody looks
// at that side any more. So the turn that is looked for is there, or the one two before
// it, or none (0).
#if RANKS > 1

// A Mail is the part of the arguments that says where the boxes are.
struct Mail {
  u64 *const *boxes; // [rank]: [2][RANKS][values], in that rank's memory
  u32 *late;         // of the host: one more than the rank that did not come
  u64 limit;         // nanoseconds to wait for it
  int rank;
};

// box is where the values of a rank are in the memory of another, of so many.
__device__ __forceinline__ u64 box(u32 turn, int rank, u64 values) { return (turn % 2 * RANKS + rank) * values; }

// posted waits for what rank r posts there; got is what was seen there first.
__device__ __forceinline__ u32 posted(const Mail &m, const u64 *at, u64 got, u32 turn, int r) {
  if ((u32)(got >> 32) == turn) return (u32)got;
  u64 begin = nanoseconds();
  for (u32 looks = 1;; looks++) {
    got = read_posted(at);
    if ((u32)(got >> 32) == turn) return (u32)got;
    if (looks % 64 == 0 && nanoseconds() - begin > m.limit) give_up(m.late, r + 1);
  }
}

// take waits for value i of the other ranks and gives the sum of all, in the order of
// the ranks wherever it is taken. mine is this rank's box, own its value.
__device__ __forceinline__ float take(const Mail &m, const u64 *mine, u32 turn, u64 values, u64 i, float own) {
  u64 got[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) got[r] = r == m.rank ? 0 : read_posted(mine + box(turn, r, values) + i);
  float sum = 0.f;
#pragma unroll
  for (int r = 0; r < RANKS; r++) {
    float v = r == m.rank ? own : __uint_as_float(posted(m, mine + box(turn, r, values) + i, got[r], turn, r));
    sum = r ? sum + v : v;
  }
  return sum;
}

#endif
