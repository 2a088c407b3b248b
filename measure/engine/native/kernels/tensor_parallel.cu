// What the ranks of a model that several GPUs share do together, over each other's
// memory. Only programs with RANKS above 1 have it.
//
// Block b of a kernel here works with block b of the same kernel on every other
// rank. They meet by counts: each writes how often it has been at a meeting into
// a place of its own in every rank's memory, and waits until all have been there as
// often. A block's count lives in device memory, so a recorded launch has no argument
// that changes, and the count of a peer can be ahead by one at most, for the
// next meeting needs this block too. Grids are no larger than the
// multiprocessors, so all blocks of a kernel are resident and none waits for one
// that cannot begin.
#if RANKS > 1

// A Meeting is the part of the arguments that says who meets.
struct Meeting {
  u32 *const *flags; // [rank]: [block][rank], in that rank's memory
  u32 *counts;       // [block], of this rank alone
  u32 *late;         // of the host: one more than the rank that did not come
  u64 limit;         // nanoseconds to wait for it
  int rank;
};

// meet waits for this block of every rank. What the kernels ahead wrote on this
// rank, and what this block did, is then seen by the others, and theirs here.
__device__ __forceinline__ void meet(const Meeting &m) {
  __shared__ u32 epoch;
  __syncthreads();
  if (threadIdx.x == 0) epoch = m.counts[blockIdx.x] += 1;
  __syncthreads();
  if (threadIdx.x < RANKS) {
    int peer = threadIdx.x;
    leave_count(m.flags[peer] + blockIdx.x * RANKS + m.rank, epoch);
    const u32 *theirs = m.flags[m.rank] + blockIdx.x * RANKS + peer;
    u64 begin = nanoseconds();
    while ((int)(read_count(theirs) - epoch) < 0)
      if (waited(begin, m.limit)) give_up(m.late, peer + 1);
  }
  __syncthreads();
}

// A Stream is what the sum is added to, and what the next product needs of it.
struct Stream {
  float *x;         // [rows][hidden]; where the sum is normed before it is added, what takes it
  int adds;         // to what is there
  bf16 *h;          // the stream times norm, where own kernels multiply next; else null
  float *squares;   // [rows][hidden/16], of the next norm
  const bf16 *norm; // of the next product
  int hidden;
};

// add adds the sum of values 4i to 4i+3. All lanes of a warp call it; four
// neighbours have 16 values of one row.
__device__ __forceinline__ void add(const Stream &s, float4 v, u64 i, bool real) {
  float ss = 0.f;
  if (real) {
    float4 *at = (float4 *)s.x + i;
    if (s.adds) {
      float4 x = *at;
      v.x += x.x, v.y += x.y, v.z += x.z, v.w += x.w;
    }
    *at = v;
  }
  if (s.h == nullptr) return;
  if (real) {
    uint2 g = *(const uint2 *)(s.norm + 4 * i % s.hidden);
    *(uint2 *)(s.h + 4 * i) = make_uint2(pack(v.x * gain(low(g.x)), v.y * gain(high(g.x))), pack(v.z * gain(low(g.y)), v.w * gain(high(g.y))));
    ss = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  ss += __shfl_xor_sync(FULL, ss, 1);
  ss += __shfl_xor_sync(FULL, ss, 2);
  if (real && threadIdx.x % 4 == 0) s.squares[i / 4] = ss;
}

// total is the sum over the ranks of values 4i to 4i+3, in the order of the ranks
// wherever it is taken.
__device__ __forceinline__ float4 total(const float *const *parts, u64 i) {
  float4 v[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) v[r] = load_peer(parts[r] + 4 * i);
#pragma unroll
  for (int r = 1; r < RANKS; r++) v[0].x += v[r].x, v[0].y += v[r].y, v[0].z += v[r].z, v[0].w += v[r].w;
  return v[0];
}

// all_reduce sums what the ranks' products left in their exchange buffers, and adds
// it to the stream of each, or leaves it where a norm takes it from. In one shot every rank reads all of it from all; in two
// each sums a slice, in place, since nobody else reads that slice of this rank's
// before the second meeting, and then reads the others' slices.
//
// A product may write to the same buffer again without a meeting at the end, for
// there are two of them in epoch. Say this rank writes to buffer A, after the sum
// over B that followed the last sum over A. In the sum over B it has met every other
// rank, whose kernel there began to meet only when the product ahead of it was
// complete (after_previous), and with it all that was ahead of that, the sum
// over A with its reads among it. So nobody reads A any more. Where the sum over B is
// within a product, the others have posted theirs after the same wait (ll_protocol.cuh).
//
//   parts[rank]: [n] float32, in that rank's memory; n a multiple of 16
extern "C" __global__ void __launch_bounds__(512)
    all_reduce(float *const *parts, u32 *const *flags, u32 *counts, u32 *late, u64 limit, int rank, int two_shots, u64 n, float *x, int adds, bf16 *h,
               float *squares, const bf16 *norm, int hidden) {
  let_next_start();
  Meeting m = {flags, counts, late, limit, rank};
  Stream s = {x, adds, h, squares, norm, hidden};
  const float *from[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) from[r] = parts[r];
  after_previous();
  meet(m);
  u64 first = blockIdx.x * (u64)blockDim.x, step = (u64)gridDim.x * blockDim.x;
  if (!two_shots) {
    for (u64 i = first; i < n / 4; i += step) {
      u64 at = i + threadIdx.x;
      bool real = at < n / 4;
      add(s, real ? total(from, at) : float4{0.f, 0.f, 0.f, 0.f}, at, real);
    }
    return;
  }
  u64 begin = n / 16 * rank / RANKS * 4, end = n / 16 * (rank + 1) / RANKS * 4;
  for (u64 i = begin + first + threadIdx.x; i < end; i += step) *(float4 *)(parts[rank] + 4 * i) = total(from, i);
  meet(m);
#pragma unroll
  for (int r = 0; r < RANKS; r++) {
    begin = n / 16 * r / RANKS * 4, end = n / 16 * (r + 1) / RANKS * 4;
    for (u64 i = begin + first; i < end; i += step) { // what this block of rank r has summed
      u64 at = i + threadIdx.x;
      bool real = at < end;
      add(s, real ? load_peer(from[r] + 4 * at) : float4{0.f, 0.f, 0.f, 0.f}, at, real);
    }
  }
}

// embedding_shared is embedding with the vocabulary's rows on all ranks, each of
// them: the rows that others have are read from their memory.
extern "C" __global__ void embedding_shared(const int *tokens, const bf16 *const *tables, int each, float *x, int hidden, bf16 *xn, float *squares,
                                            const bf16 *norm) {
  let_next_start();
  after_previous();
  u64 row = blockIdx.x;
  int t = tokens[row];
  gather_row(tables[t / each] + (u64)(t % each) * hidden, row, x, hidden, xn, squares, norm);
}

// sampling_shared is sampling with each rank's part of the vocabulary, from first on:
// who finds the best of this rank's scores posts it to all ranks, in two halves, and
// the last block takes the best of all ranks', the lowest index among equals.
//
//   boxes[rank]: [2][RANKS][2*batch], in that rank's memory; epochs: the last epoch, and the sequences that are done, zero before and after
extern "C" __global__ void sampling_shared(float *logits, int vocab, int first, u64 *best, u32 *arrived, int *next, int *positions, int *told, u64 *const *boxes,
                                           u32 *late, u64 limit, int rank, u32 *epochs) {
  __shared__ bool last;
  let_next_start();
  LLBuffers m = {boxes, late, limit, rank};
  after_previous();
  u32 epoch = __ldcg(epochs) + 1, batch = gridDim.y;
  u64 winner;
  bool found = best_score(logits, vocab, first, best, arrived, winner);
  if (found)
    for (int to = 0; to < RANKS; to++) {
      u64 *at = boxes[to] + ll_offset(epoch, rank, 2 * batch) + 2 * blockIdx.y;
      ll_store(at, winner >> 32, epoch), ll_store(at + 1, (u32)winner, epoch);
    }
  if (threadIdx.x == 0) last = found && atomicAdd(epochs + 1, 1) == batch - 1;
  __syncthreads();
  if (!last) return;
  for (u32 seq = threadIdx.x; seq < batch; seq += blockDim.x) {
    const u64 *at[RANKS];
    u64 halves[2 * RANKS], top = 0;
#pragma unroll
    for (int r = 0; r < RANKS; r++) at[r] = boxes[rank] + ll_offset(epoch, r, 2 * batch) + 2 * seq;
    ll_wait_all<2>(m, at, halves, epoch);
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      u64 other = (u64)(u32)halves[2 * r] << 32 | (u32)halves[2 * r + 1];
      top = other > top ? other : top;
    }
    next[seq] = told[seq] = token(top);
    positions[seq] += 1;
  }
  if (threadIdx.x == 0) epochs[0] = epoch, epochs[1] = 0;
}

#endif
