// Kernels of ranks that share a model, which read and write each other's memory. Only programs with
// RANKS above 1 have them.
//
// Block b of a kernel works with block b of the same kernel on every other rank. They synchronize by
// counts: each block writes how many barriers it has reached to a place of its own in every rank's
// memory, and waits until all others have reached as many. A block's count lives in device memory, so
// a recorded launch has no argument that changes. The count of a peer is ahead by one at most, because
// its next barrier needs this block too. Grids are no larger than the multiprocessors, so all blocks
// of a kernel are resident, and none waits for one that cannot begin.
#if RANKS > 1

// A Meeting is the arguments of a barrier between ranks.
struct Meeting {
  u32 *const *flags; // [rank]: [block][rank], in that rank's memory
  u32 *counts; // [block], counts of this rank
  u32 *late; // This is host memory: one more than the rank that timed out.
  u64 limit; // nanoseconds to wait for a rank
  int rank;
};

// meet is a barrier with this block on every rank. What the kernels before wrote on this rank, and
// what this block did, is then visible to the others, and theirs here.
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

// A Stream is what the sum is added to, and what the next GEMM needs.
struct Stream {
  float *x; // [rows][hidden]: the residual stream, or the input of a norm that follows
  int adds; // The sum is added to x, not stored.
  bf16 *h; // the stream times the norm's weights, if a GEMM of the engine follows; else null
  float *squares; // [rows][hidden/16], sums of squares for the next norm
  const bf16 *norm; // weights of the next norm
  int hidden;
};

// add adds values 4i to 4i+3 of the sum. All lanes of a warp call it; four neighbours have 16 values
// of one row.
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

// total is the sum over the ranks of values 4i to 4i+3, in the order of the ranks on every rank.
__device__ __forceinline__ float4 total(const float *const *parts, u64 i) {
  float4 v[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) v[r] = load_peer(parts[r] + 4 * i);
#pragma unroll
  for (int r = 1; r < RANKS; r++) v[0].x += v[r].x, v[0].y += v[r].y, v[0].z += v[r].z, v[0].w += v[r].w;
  return v[0];
}

// all_reduce sums what the ranks' GEMMs left in their exchange buffers, and adds it to the stream, or
// leaves it for a norm. In one shot every rank reads everything from all ranks. In two shots each rank
// sums a slice in place, since nobody else reads that slice of this rank's buffer before the second
// barrier, and then reads the slices of the others.
//
// A GEMM may write to the same buffer again without a barrier at the end, because two buffers
// alternate. Say this rank writes to buffer A, after the all-reduce over B that followed the last
// all-reduce over A. In the all-reduce over B it has met every other rank. Their kernels began to meet
// only when the GEMM before was complete (after_previous), and with it all kernels before that, the
// all-reduce over A with its reads among them. So nobody reads A any more. If the all-reduce over B is
// fused into a GEMM, the others have sent their packets after the same wait (ll_protocol.cuh).
//
//   parts[rank]: [n] float32, in that rank's memory; n is a multiple of 16
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
    for (u64 i = begin + first; i < end; i += step) { // This block of rank r has summed these values.
      u64 at = i + threadIdx.x;
      bool real = at < end;
      add(s, real ? load_peer(from[r] + 4 * at) : float4{0.f, 0.f, 0.f, 0.f}, at, real);
    }
  }
}

// embedding_shared is the embedding with the rows of the vocabulary divided among the ranks. It reads
// rows of other ranks from their memory.
extern "C" __global__ void embedding_shared(const int *tokens, const bf16 *const *tables, int each, float *x, int hidden, bf16 *xn, float *squares,
                                            const bf16 *norm) {
  let_next_start();
  after_previous();
  u64 row = blockIdx.x;
  int t = tokens[row];
  gather_row(tables[t / each] + (u64)(t % each) * hidden, row, x, hidden, xn, squares, norm);
}

// sampling_shared is sampling with the scores of the vocabulary divided among the ranks; `first` is
// the first token of this rank. The block that finds the best score of this rank sends it to all
// ranks, in two packets, and the last block chooses the best of all ranks, the lowest index among
// equals.
//
//   packets[rank]: [2][RANKS][2*batch], in that rank's memory
//   epochs: the last epoch, and how many sequences are done, zero before and after
extern "C" __global__ void sampling_shared(float *logits, int vocab, int first, u64 *best, u32 *arrived, int *next, int *positions, int *next_host, u64 *const *packets,
                                           u32 *late, u64 limit, int rank, u32 *epochs) {
  __shared__ bool last;
  let_next_start();
  LLBuffers m = {packets, late, limit, rank};
  after_previous();
  u32 epoch = __ldcg(epochs) + 1, batch = gridDim.y;
  u64 winner;
  bool found = best_score(logits, vocab, first, best, arrived, winner);
  if (found)
    for (int to = 0; to < RANKS; to++) {
      u64 *at = packets[to] + ll_offset(epoch, rank, 2 * batch) + 2 * blockIdx.y;
      ll_store(at, winner >> 32, epoch), ll_store(at + 1, (u32)winner, epoch);
    }
  if (threadIdx.x == 0) last = found && atomicAdd(epochs + 1, 1) == batch - 1;
  __syncthreads();
  if (!last) return;
  for (u32 seq = threadIdx.x; seq < batch; seq += blockDim.x) {
    const u64 *at[RANKS];
    u64 halves[2 * RANKS], top = 0;
#pragma unroll
    for (int r = 0; r < RANKS; r++) at[r] = packets[rank] + ll_offset(epoch, r, 2 * batch) + 2 * seq;
    ll_wait_all<2>(m, at, halves, epoch);
#pragma unroll
    for (int r = 0; r < RANKS; r++) {
      u64 other = (u64)(u32)halves[2 * r] << 32 | (u32)halves[2 * r + 1];
      top = other > top ? other : top;
    }
    next[seq] = next_host[seq] = token(top);
    positions[seq] += 1;
  }
  if (threadIdx.x == 0) epochs[0] = epoch, epochs[1] = 0;
}

#endif
