// A layer of a decode step of one sequence as one kernel, but attention: what ends attention's
// block, the router, the choice of the experts, their products, and what begins the next
// layer. Its blocks, one a multiprocessor, are all there at the same time and wait for each
// other's results, never for all that another has written: each value that others need is
// posted together with the turn of this launch, in one store of 8 bytes, and who needs it
// looks at the turn (exchange.cuh; NCCL's protocol LL). So there is no fence, no counter
// and no kernel's edge between the operators, and the ring in shared memory goes on: the
// weights of a product come while the results of the one ahead are on their way.
//
//   - Four warps copy, stages of 16 rows: of the attention's output while the kernel ahead
//     still runs; when the experts are chosen, of gate and up, 8 outputs of each, and of
//     down, 16 outputs of all experts; of what begins the next layer. Some of the last are
//     held apart, which come while the experts are chosen.
//   - Eight warps multiply, every eighth stage of an item each, of inputs that are gathered
//     into shared memory whole.
//   - A block has a row of the router, gathers all scores and chooses by itself: an
//     expert's place is the number of those before it.
//
// In the ring a row's pieces of 16 bytes lie as in linear.cu. A box is written once in a
// launch and read in it; the next launch begins to write when this one is complete, for
// it has waited for the kernel ahead, and that for this one.

#if MOE && !defined(OLDER) && RANKS == 1

#define STEP_DEPTH 256 // columns of a stage
#define STEP_PITCH (STEP_DEPTH * 2)
#define STEP_STAGE (16 * STEP_PITCH)
#define STEP_STAGES 24 // at most
#define STEP_THREADS (CONSUMERS * WARP)

struct StepArgs {
  const bf16 *out;    // [hidden][width], what ends attention's block
  const bf16 *att;    // [width]
  const bf16 *mid;    // norm of the router
  const bf16 *router; // [experts][hidden]
  const bf16 *gate_up, *down; // as in moe_decode.cu; null of a launch that begins a layer alone
  const bf16 *norm;   // of what follows
  const bf16 *begins; // [rows][hidden], what begins the next layer; null where none does
  int width, hidden, inner, experts, top, normalized, rows;
  int stages, held;   // of the ring, and of those held apart
  float eps;
  float *x;           // the stream, [hidden]
  bf16 *h;            // [hidden], the stream times norm: of a launch that begins a layer alone, or for the LM head
  float *squares;     // [hidden/16], likewise
  float *y;           // [rows], what begins gives
  u64 *boxes;         // [hidden/2], [hidden/16], [top*inner/2], [hidden/2], [hidden/16], [experts]
  u32 *turns;         // [blocks]
};

// awaited is what is posted there in this turn; got is what was seen there first.
__device__ __forceinline__ u32 awaited(const u64 *at, u64 got, u32 turn) {
  if ((u32)(got >> 32) == turn) return (u32)got;
  u64 begin = nanoseconds();
  for (u32 looks = 1;; looks++) {
    got = read_posted(at);
    if ((u32)(got >> 32) == turn) return (u32)got;
    if (looks % 64 == 0 && nanoseconds() - begin > 10000000000ull) give_up();
  }
}

// gather brings count words that are posted from `from` on to shared memory.
template <int AT_ONCE>
__device__ __forceinline__ void gather(u32 *to, const u64 *from, int count, u32 turn) {
  for (int i = threadIdx.x; i < count; i += AT_ONCE * STEP_THREADS) {
    u64 got[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) got[j] = i + j * STEP_THREADS < count ? 0 : (u64)turn << 32;
    u64 begin = 0;
    for (u32 looks = 0;; looks++) {
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++)
        if ((u32)(got[j] >> 32) != turn) got[j] = read_posted(from + i + j * STEP_THREADS);
      bool missing = false;
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) missing |= (u32)(got[j] >> 32) != turn;
      if (!missing) break;
      if (looks % 64 == 0) {
        u64 now = nanoseconds();
        if (looks == 0) begin = now;
        if (now - begin > 10000000000ull) give_up();
      }
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
      if (i + j * STEP_THREADS < count) to[i + j * STEP_THREADS] = (u32)got[j];
  }
}

// A Step is what a block has.
struct Step {
  const StepArgs &a;
  u8 *ring;
  u64 *full, *empty; // of each slot: filled, and free again
  bf16 *in;          // the inputs of a product
  bf16 *row;         // of the router
  float *stream, *gains; // of the tiles of 16 outputs that are this block's: the stream, and both norms' weights
  float *red;        // sums of the warps, of two items in turn
  float *squares;    // of the norm ahead of the router, behind its input
  u64 *here;         // barriers of the stages that are held
  u8 *hold;
  u32 *keys;         // of the experts' scores, which order as they do
  int *chosen;
  float *share, *score;
  int first_up, first_down, first_begun; // stages ahead of those of a product

  // A Place is a stage's in the ring.
  struct Place {
    int slot;
    u32 phase;
  };
  __device__ __forceinline__ void next(Place &p, int n = 1) const {
    if ((p.slot += n) >= a.stages) p.slot -= a.stages, p.phase ^= 1;
  }

  __device__ __forceinline__ static int steps(int k) { return (k + STEP_DEPTH - 1) / STEP_DEPTH; }
  __device__ __forceinline__ static int mine(int items) { return items > (int)blockIdx.x ? (items - 1 - (int)blockIdx.x) / (int)gridDim.x + 1 : 0; }
  __device__ __forceinline__ int item(int i) const { return blockIdx.x + i * gridDim.x; }

  // Tiles of what begins the next block go to the blocks in the reverse order: the last of them have had less.
  __device__ __forceinline__ int back() const { return gridDim.x - 1 - blockIdx.x; }
  __device__ __forceinline__ int begun() const { return a.begins && a.rows / 16 > back() ? (a.rows / 16 - 1 - back()) / (int)gridDim.x + 1 : 0; }

  // fill copies STEP_DEPTH columns from col on of 16 rows of k columns, the second eight of them from `second` on.
  __device__ __forceinline__ void fill(const Place &p, const bf16 *first, const bf16 *second, int k, int col, u64 policy) const {
    barrier_wait(empty + p.slot, p.phase);
    copy(shared_address(ring) + p.slot * STEP_STAGE, full + p.slot, first, second, k, col, policy);
  }

  __device__ __forceinline__ static void copy(u32 to, u64 *full, const bf16 *first, const bf16 *second, int k, int col, u64 policy) {
    int lane = threadIdx.x % WARP;
    if ((col += lane * 8) < k) {
#pragma unroll
      for (int j = 0; j < 16; j++) copy16_once(to + j * STEP_PITCH + (lane ^ (j & 1) << 2) * 16, (j < 8 ? first : second) + col + (u64)((u32)(j % 8) * (u32)k), policy);
    }
    barrier_arrive_copied(full);
  }

  // produce fills every fourth stage.
  __device__ void produce() const {
    u64 policy = evict_first();
    int warp = threadIdx.x / WARP - CONSUMERS, hidden = a.hidden, inner = a.inner;
    int deep = steps(a.width), each = steps(hidden), of = steps(inner);
    int outs = this->outs(), ups = this->ups(), downs = this->downs();
    Place p = {warp, 1};
    int j = warp;
    let_next_start();
    for (; j < outs && j < a.stages; j += PRODUCERS, next(p, PRODUCERS)) fill_out(p, j, deep, policy);
    wait_for_previous();
    for (; j < outs; j += PRODUCERS, next(p, PRODUCERS)) fill_out(p, j, deep, policy);
    int begins = begun() * each, held = min(a.held, begins);
    for (int i = warp; i < held; i += PRODUCERS) {
      const bf16 *from = begin_of(i / each);
      copy(shared_address(hold) + i * STEP_STAGE, here + i, from, from + 8 * hidden, hidden, i % each * STEP_DEPTH, policy);
    }
    if (a.gate_up) __syncthreads(); // the experts are chosen
    for (; j < outs + ups; j += PRODUCERS, next(p, PRODUCERS)) {
      int i = (j - outs) / each, at = item(i), e = at / (inner / 8);
      const bf16 *from = a.gate_up + ((u64)chosen[e] * 2 * inner + (at - e * (inner / 8)) * 8) * hidden;
      fill(p, from, from + (u64)inner * hidden, hidden, (j - outs - i * each) * STEP_DEPTH, policy);
    }
    for (; j < outs + ups + downs; j += PRODUCERS, next(p, PRODUCERS)) {
      int part = (j - outs - ups) / of, i = part / a.top;
      const bf16 *from = a.down + ((u64)chosen[part - i * a.top] * hidden + item(i) * 16) * inner;
      fill(p, from, from + 8 * inner, inner, (j - outs - ups - part * of) * STEP_DEPTH, policy);
    }
    for (; j < outs + ups + downs + begins - held; j += PRODUCERS, next(p, PRODUCERS)) {
      int i = j - outs - ups - downs + held;
      const bf16 *from = begin_of(i / each);
      fill(p, from, from + 8 * hidden, hidden, i % each * STEP_DEPTH, policy);
    }
  }

  __device__ __forceinline__ const bf16 *begin_of(int i) const { return a.begins + (u64)(back() + i * gridDim.x) * 16 * a.hidden; }

  __device__ __forceinline__ void fill_out(const Place &p, int j, int deep, u64 policy) const {
    int i = j / deep;
    const bf16 *from = a.out + (u64)item(i) * 16 * a.width;
    fill(p, from, from + 8 * a.width, a.width, (j - i * deep) * STEP_DEPTH, policy);
  }

  // multiply adds the products of this warp's stages of an item to low and high, the sums of
  // rows g and g+8: of stages that follow each other in the ring from `from` on, every eighth.
  // Where shares are given, the inputs are those of several experts, each of k.
  template <bool HELD = false>
  __device__ __forceinline__ void multiply(int from, int stages, const bf16 *x, int k, float &low, float &high, const float *shares = nullptr) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, each = steps(k);
    for (int c = warp; c < stages; c += CONSUMERS) {
      u32 j = from + c, slot, phase = 0;
      const u8 *at = hold + j * STEP_STAGE;
      u64 *filled = here + j;
      bool held = HELD && (int)j < a.held;
      if (!held) {
        j += HELD ? first_begun - a.held : 0;
        slot = j % a.stages, phase = j / a.stages & 1;
        at = ring + slot * STEP_STAGE, filled = full + slot;
      }
      int e = shares ? c / each : 0, col = (c - e * each) * STEP_DEPTH;
      const bf16 *in = x + e * k + col + t * 8;
      at += g * STEP_PITCH + t * 16;
      int odd = (g & 1) << 6;
      float sum[4] = {}, more[4] = {};
      barrier_wait(filled, phase);
      if (k - col >= STEP_DEPTH) {
#pragma unroll
        for (int u = 0; u < STEP_DEPTH / 32; u++) add(sum, more, at + (u * 64 ^ odd), in + u * 32);
      } else {
#pragma unroll 1
        for (int u = 0; u < (k - col) / 32; u++) add(sum, more, at + (u * 64 ^ odd), in + u * 32);
      }
      __syncwarp();
      if (lane == 0 && !held) barrier_arrive(empty + slot);
      float share = shares ? shares[e] : 1.f;
      low += share * (sum[0] + more[0]), high += share * (sum[2] + more[2]);
    }
  }

  __device__ __forceinline__ static void add(float sum[4], float more[4], const u8 *w, const bf16 *x) {
    uint4 u = *(const uint4 *)w, q = *(const uint4 *)(w + 8 * STEP_PITCH), v = *(const uint4 *)x;
    mma(sum, u.x, q.x, u.y, q.y, v.x, v.y);
    mma(more, u.z, q.z, u.w, q.w, v.z, v.w);
  }

  // outs, ups and downs are this block's stages of each product.
  __device__ __forceinline__ int outs() const { return a.gate_up ? mine(a.hidden / 16) * steps(a.width) : 0; }
  __device__ __forceinline__ int ups() const { return a.gate_up ? mine(a.top * (a.inner / 8)) * steps(a.hidden) : 0; }
  __device__ __forceinline__ int downs() const { return a.gate_up ? mine(a.hidden / 16) * a.top * steps(a.inner) : 0; }

  // leave leaves the sums of 16 rows where all warps see them.
  __device__ __forceinline__ void leave(float *red, float low, float high) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (lane % 4 == 0) red[warp * RED_PITCH + lane / 4] = low, red[warp * RED_PITCH + lane / 4 + 8] = high;
    sync_threads_of(1, STEP_THREADS);
  }

  __device__ __forceinline__ static float of_warps(const float *red, int r) {
    float s = 0.f;
#pragma unroll
    for (int w = 0; w < CONSUMERS; w++) s += red[w * RED_PITCH + r];
    return s;
  }

  __device__ __forceinline__ float *other(float *r) const { return r == red ? red + CONSUMERS * RED_PITCH : red; }

  // finish_out adds 16 outputs of attention's block to the stream, and posts them times the
  // norm's weights, and the sum of their squares. A warp does it.
  __device__ __forceinline__ void finish_out(const float *red, int i, u32 turn) const {
    int lane = threadIdx.x % WARP, r = lane % 16;
    float x = stream[i * 16 + r] + of_warps(red, r), ss = x * x;
    u32 v = narrow(x * gains[i * 32 + r]);
    v |= __shfl_xor_sync(FULL, v, 1) << 16;
#pragma unroll
    for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
    if (lane < 16) stream[i * 16 + r] = x;
    if (lane < 16 && lane % 2 == 0) post(a.boxes + item(i) * 8 + lane / 2, v, turn);
    if (lane == 0) post(a.boxes + a.hidden / 2 + item(i), __float_as_uint(ss), turn);
  }

  // begin loads what does not hang on the kernel ahead: this block's row of the router and
  // norms.
  __device__ __forceinline__ void begin(u64 policy) const {
    if (a.gate_up && blockIdx.x < a.experts)
      for (int i = threadIdx.x * 8; i < a.hidden; i += STEP_THREADS * 8) copy16_once(shared_address(row + i), a.router + (u64)blockIdx.x * a.hidden + i, policy);
    for (int i = threadIdx.x; i < mine(a.hidden / 16) * 16; i += STEP_THREADS) {
      int o = item(i / 16) * 16 + i % 16;
      gains[i / 16 * 32 + i % 16] = a.mid ? gain(wide(a.mid[o])) : 0.f;
      gains[i / 16 * 32 + 16 + i % 16] = a.norm ? gain(wide(a.norm[o])) : 0.f;
    }
  }

  // load is behind the kernel ahead: its output, and the stream.
  __device__ __forceinline__ void load() const {
    const bf16 *from = a.gate_up ? a.att : a.h;
    int many = (a.gate_up ? a.width : a.hidden) / 8;
    float first = (int)threadIdx.x < mine(a.hidden / 16) * 16 ? __ldcg(a.x + item(threadIdx.x / 16) * 16 + threadIdx.x % 16) : 0.f;
    for (int i = threadIdx.x; i < many; i += 4 * STEP_THREADS) {
      uint4 v[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (i + j * STEP_THREADS < many) v[j] = __ldcg((const uint4 *)from + i + j * STEP_THREADS);
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (i + j * STEP_THREADS < many) *((uint4 *)in + i + j * STEP_THREADS) = v[j];
    }
    for (int i = threadIdx.x; i < mine(a.hidden / 16) * 16; i += STEP_THREADS)
      stream[i] = i < STEP_THREADS ? first : __ldcg(a.x + item(i / 16) * 16 + i % 16);
    if (!a.gate_up)
      for (int i = threadIdx.x; i < a.hidden / 16; i += STEP_THREADS) squares[i] = __ldcg(a.squares + i);
    sync_threads_of(1, STEP_THREADS);
  }

  // scale is the reciprocal norm of the stream, by each warp for itself.
  __device__ __forceinline__ float scale() const {
    float ss = 0.f;
    for (int i = threadIdx.x % WARP; i < a.hidden / 16; i += WARP) ss += squares[i];
    return rsqrtf(warp_sum(ss) / a.hidden + a.eps);
  }

  // route posts the scores of this block's rows of the router.
  __device__ __forceinline__ void route(float *red, float scale, u64 *box, u32 turn) const {
    wait_copies<0>();
    for (int e = blockIdx.x; e < a.experts; e += gridDim.x) {
      float s = 0.f;
      for (int i = threadIdx.x * 8; i < a.hidden; i += STEP_THREADS * 8)
        s += dot8(load8(e == blockIdx.x ? row + i : a.router + (u64)e * a.hidden + i), *(const uint4 *)(in + i));
      s = warp_sum(s);
      if (threadIdx.x % WARP == 0) red[threadIdx.x / WARP * RED_PITCH] = s;
      sync_threads_of(1, STEP_THREADS);
      if (threadIdx.x == 0) post(box + e, __float_as_uint(of_warps(red, 0) * scale), turn);
      red = other(red);
    }
  }

  // choose gathers the scores, and finds each expert's place in their order: the higher
  // score first, the lower index among equals.
  __device__ __forceinline__ void choose(const u64 *box, u32 turn) const {
    int e = threadIdx.x, padded = (a.experts + 3) / 4 * 4;
    u32 mine = 0;
    if (e < a.experts) {
      u32 v = awaited(box + e, read_posted(box + e), turn);
      mine = v ^ (v >> 31 ? 0xffffffffu : 0x80000000u);
    }
    if (e < padded) keys[e] = mine;
    sync_threads_of(1, STEP_THREADS);
    bool pairs = a.experts <= STEP_THREADS / 2; // two threads an expert
    int half = pairs ? (padded / 4 + 1) / 2 * 4 : padded;
    int to = pairs ? e % 2 ? padded : half : padded, from = pairs && e % 2 ? half : 0;
    if (pairs) e /= 2, mine = e < a.experts ? keys[e] : 0;
    int rank = 0;
#pragma unroll 4
    for (int f = from; f < to; f += 4) {
      uint4 k = *(const uint4 *)(keys + f);
      rank += (k.x > mine || k.x == mine && f < e) + (k.y > mine || k.y == mine && f + 1 < e) + (k.z > mine || k.z == mine && f + 2 < e) +
              (k.w > mine || k.w == mine && f + 3 < e);
    }
    if (pairs) rank += __shfl_xor_sync(FULL, rank, 1);
    if (e < a.experts && rank < a.top) chosen[rank] = e, score[rank] = value(mine);
    __syncthreads();
  }

  // value is the score of a key.
  __device__ __forceinline__ static float value(u32 key) { return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu)); }

  // weigh makes the experts' weights of their scores. A warp does it.
  __device__ __forceinline__ void weigh() const {
    int lane = threadIdx.x % WARP;
    float peak = score[0], sum = 0.f, w = lane < a.top ? __expf(score[lane] - peak) : 0.f;
    if (!a.normalized)
      for (int e = lane; e < a.experts; e += WARP) sum += __expf(value(keys[e]) - peak);
    sum = warp_sum(a.normalized ? w : sum);
    if (lane < a.top) share[lane] = w / sum;
  }

  // finish_up posts 8 values of an expert. A warp does it.
  __device__ __forceinline__ void finish_up(const float *red, float scale, u64 *box, u32 turn) const {
    int lane = threadIdx.x % WARP, r = lane % 8;
    u32 v = narrow(activate(of_warps(red, r) * scale) * (of_warps(red, r + 8) * scale));
    v |= __shfl_xor_sync(FULL, v, 1) << 16;
    if (lane < 8 && lane % 2 == 0) post(box + lane / 2, v, turn);
  }

  // finish_down is as in moe_decode.cu.
  __device__ __forceinline__ void finish_down(const float *red, int i, u64 *box, u32 turn) const {
    int lane = threadIdx.x % WARP, r = lane % 16, o = item(i) * 16 + r;
    float y = stream[i * 16 + r] + of_warps(red, r), ss = y * y;
    if (lane < 16) a.x[o] = y;
    u32 v = narrow(y * gains[i * 32 + 16 + r]);
#pragma unroll
    for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
    if (a.begins) {
      v |= __shfl_xor_sync(FULL, v, 1) << 16;
      if (lane < 16 && lane % 2 == 0) post(box + item(i) * 8 + lane / 2, v, turn);
      if (lane == 0) post(box + a.hidden / 2 + item(i), __float_as_uint(ss), turn);
      return;
    }
    if (lane < 16) a.h[o] = v;
    if (lane == 0) a.squares[item(i)] = ss;
  }

  // end_attention is the product that ends attention's block, and brings its result to
  // every block.
  __device__ __forceinline__ void end_attention(float *&now, u32 turn) const {
    int warp = threadIdx.x / WARP;
    for (int i = 0; i < mine(a.hidden / 16); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply(i * steps(a.width), steps(a.width), in, a.width, low, high);
      leave(now, low, high);
      if (warp == i % CONSUMERS) finish_out(now, i, turn);
    }
    sync_threads_of(1, STEP_THREADS); // nobody reads the inputs any more
    gather<6>((u32 *)in, a.boxes, a.hidden / 2 + a.hidden / 16, turn); // squares are behind
    sync_threads_of(1, STEP_THREADS);
  }

  // begin_next is the product that begins the next block of attention.
  __device__ __forceinline__ void begin_next(float *&now, u32 turn, const u64 *box) const {
    int warp = threadIdx.x / WARP;
    if (box) {
      sync_threads_of(1, STEP_THREADS); // nobody reads the inputs any more
      gather<6>((u32 *)in, box, a.hidden / 2 + a.hidden / 16, turn);
      sync_threads_of(1, STEP_THREADS);
    }
    float s = scale();
    for (int i = 0; i < begun(); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply<true>(i * steps(a.hidden), steps(a.hidden), in, a.hidden, low, high);
      leave(now, low, high);
      int r = threadIdx.x % WARP;
      if (warp == i % CONSUMERS && r < 16) a.y[(back() + i * gridDim.x) * 16 + r] = of_warps(now, r) * s;
    }
  }

  // mix is the products of the experts.
  __device__ __forceinline__ void mix(float *&now, float scale, u64 *acts, u64 *after, u32 turn) const {
    int warp = threadIdx.x / WARP, each = steps(a.hidden), stages = a.top * steps(a.inner);
    for (int i = 0; i < mine(a.top * (a.inner / 8)); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply(first_up + i * each, each, in, a.hidden, low, high);
      leave(now, low, high);
      if (warp == i % CONSUMERS) finish_up(now, scale, acts + item(i) * 4, turn);
    }
    sync_threads_of(1, STEP_THREADS); // nobody reads the inputs any more
    if (mine(a.hidden / 16)) gather<12>((u32 *)in, acts, a.top * a.inner / 2, turn);
    sync_threads_of(1, STEP_THREADS);
    for (int i = 0; i < mine(a.hidden / 16); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply(first_down + i * stages, stages, in, a.inner, low, high, share);
      leave(now, low, high);
      if (warp == i % CONSUMERS) finish_down(now, i, after, turn);
    }
  }

  __device__ void consume() const {
    begin(evict_first());
    commit();
    wait_for_previous();
    u32 turn = __ldcg(a.turns + blockIdx.x) + 1;
    load();
    float *now = red;
    u64 *acts = a.boxes + a.hidden / 2 + a.hidden / 16, *after = acts + a.top * a.inner / 2, *scores = after + a.hidden / 2 + a.hidden / 16;
    if (a.gate_up) {
      end_attention(now, turn);
      float s = scale();
      route(now, s, scores, turn);
      now = other(now);
      choose(scores, turn);
      if (threadIdx.x / WARP == 0) weigh();
      mix(now, s, acts, after, turn);
    }
    if (a.begins) begin_next(now, turn, a.gate_up ? after : nullptr);
    if (threadIdx.x == 0) a.turns[blockIdx.x] = turn;
  }
};

// step divides the shared memory of a block; widest is the most inputs of a product.
__device__ __forceinline__ void step(const StepArgs &a, int widest) {
  DYNAMIC_SHARED(ring);
  __shared__ u64 full[STEP_STAGES], empty[STEP_STAGES], here[STEP_STAGES];
  __shared__ float red[2 * CONSUMERS * RED_PITCH];
  __shared__ __align__(16) u32 keys[WARP * EXPERT_LANE];
  __shared__ int chosen[WARP];
  __shared__ float share[WARP], score[WARP];
  int tiles = (a.hidden / 16 + gridDim.x - 1) / gridDim.x;
  u8 *hold = ring + a.stages * STEP_STAGE;
  bf16 *in = (bf16 *)(hold + a.held * STEP_STAGE), *row = in + widest;
  float *squares = (float *)(in + a.hidden), *stream = (float *)(row + a.hidden), *gains = stream + tiles * 16;
  Step s = {a, ring, full, empty, in, row, stream, gains, red, squares, here, hold, keys, chosen, share, score, 0, 0, 0};
  s.first_up = s.outs(), s.first_down = s.first_up + s.ups(), s.first_begun = s.first_down + s.downs();
  if (threadIdx.x == 0)
    for (int i = 0; i < a.stages; i++) barrier_init(full + i, WARP), barrier_init(empty + i, 1);
  if (threadIdx.x == 0)
    for (int i = 0; i < a.held; i++) barrier_init(here + i, WARP);
  __syncthreads();
  if (threadIdx.x >= CONSUMERS * WARP)
    s.produce();
  else
    s.consume();
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + PRODUCERS) * WARP, 1)
    mixture_step(const bf16 *out, const bf16 *att, const bf16 *mid, const bf16 *router, const bf16 *gate_up, const bf16 *down, const bf16 *norm,
                 const bf16 *begins, int width, int hidden, int inner, int experts, int top, int normalized, int rows, int stages, int held, int widest,
                 float eps, float *x, bf16 *h, float *squares, float *y, u64 *boxes, u32 *turns) {
  StepArgs a = {out, att, mid, router, gate_up, down, norm, begins, width, hidden, inner, experts, top, normalized, rows, stages, held, eps, x, h, squares, y, boxes, turns};
  step(a, widest);
}

#endif
