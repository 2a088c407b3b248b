// All layers of a decode step of one sequence as one kernel, with the embedding ahead of them and
// the LM head and the choice of the token behind them where it is given these. Its blocks, one a
// multiprocessor, are all there at the same time and wait for each other's results, never
// for all that another has written: each value that others need is posted together with
// the turn, in one store of 8 bytes, and who needs it looks at the turn (exchange.cuh;
// NCCL's protocol LL). A turn is one layer. So there is no fence, no counter and no
// kernel's edge between the operators, and the ring in shared memory goes on: the weights
// of a product come while the results of the one ahead are on their way.
//
//   - Four warps copy, every fourth stage each: of a layer in this order qkv, o, gate and up
//     (8 outputs of each), down (16 outputs of all experts); at last the head. Stages are 16 rows
//     of 256 columns, of qkv and the head 8 rows of 512, which deals their rows out more evenly.
//     The first of qkv are held apart: they come while the experts of the layer ahead are chosen,
//     when the others are called into the L2. Of o few are on their way at a time: what other
//     blocks have posted waits behind them.
//   - Eight warps multiply, every eighth stage of an item each, and each of them gathers the
//     inputs of its stages just ahead, so that none waits for what another needs; but for
//     o, whose inputs come all at once.
//   - Attention is that of attention_decode.cu: block b has part b/kv_heads of the
//     context of key head b%kv_heads. Its tiles are copied where stages were held, as soon
//     as these are used. A warp norms and rotates a query, for all. A part is posted to the parts of its head, each of which makes its
//     share of the head's output, and that is posted to all.
//   - A block has a row of the router, gathers all scores and chooses by itself: an
//     expert's place is the number of those before it. Scores, and the normed stream, are posted
//     in copies: where all blocks look at the same few lines of the L2 they wait for each other.
//   - Of the head each block posts its best score, of which the first block chooses.
//
// Sizes are the compiler's to know (STEP_SHAPE): what is done once a layer is fetched once a
// layer, so that it is short counts for more than how it is done.
//
// A box is written once in a turn. It is not written again before all have read it: every
// block has some of gate and up (the grid is no larger), and posts it after it has read all
// that comes before it in its turn; who has the normed stream that ends a turn has it from
// blocks that have read all of these. So who posts what comes before them in the next turn
// finds that read by all. And those that read what gate and up gave, all that have some of
// down, have when the turn ends; what ends it is read by all who post gate and up's next.

#ifdef STEP_SHAPE

#define STEP_DEPTH 256 // columns of a stage
#define STEP_ROW (STEP_DEPTH * 2)
#define STEP_STAGE (16 * STEP_ROW + 64)
#define STEP_STAGES 24  // at most
#define STREAM_COPIES 4 // of the normed stream that are posted
#define SCORE_COPIES 16 // of the scores
#define STEP_VALUES (DEC_KEY_STAGES < 2 ? 1 : 2)                       // tiles of values that a warp has room for
#define STEP_TILES ((DEC_KEY_STAGES + STEP_VALUES) * DEC_TILE) // bytes of its ring of keys and values
#define STEP_CONTEXT (CONSUMERS - DEC_WARPS) // the first warp that attends: those ahead of it have more of qkv
#define STEP_THREADS (CONSUMERS * WARP)
#define STEP_ALL (STEP_THREADS + PRODUCERS * WARP)
#ifdef SANITIZED // for racecheck (common.cuh), which takes its time
#define STEP_PATIENCE 600000000000ull // nanoseconds that a block waits for what another posts
#define BLOCK_ARRIVALS STEP_THREADS   // of arrive_block
#else
#define STEP_PATIENCE 10000000000ull
#define BLOCK_ARRIVALS 1
#endif

// A StepLayer is one of the table's.
struct StepLayer {
  const bf16 *qkv, *bias, *q_norm, *k_norm; // [rows][hidden]; null for what is not there
  const bf16 *out, *mid, *router;           // [hidden][width]; the router's norm; [experts][hidden]
  const bf16 *gate_up, *down, *norm;        // as in moe_decode.cu; the norm is of what follows
  const float *frequencies;
  bf16 *keys, *values; // [kv_heads][capacity][HEAD_DIM]
  u64 capacity;
};

// StepArgs are the kernel's arguments, and what it is compiled for.
struct StepArgs {
  static constexpr int shape[] = {STEP_SHAPE};
  static constexpr int width = shape[0], hidden = shape[1], inner = shape[2], experts = shape[3], top = shape[4], normalized = shape[5];
  static constexpr int rows = shape[6], kv_heads = shape[7];           // rows are qkv's
  static constexpr int stages = shape[8], held = shape[9];             // of the ring, and of those held apart
  static constexpr int blocks = shape[10];                             // of the grid
  static constexpr int share = shape[11], parts = DEC_VALUES >> share; // values of a head's output that one of its parts makes, as a power of 2; parts
  const StepLayer *table;
  int layers, vocab;
  float eps, scale; // of norms, and of attention's scores
  int *positions; // tokens in the cache
  float *x;       // the stream, [hidden]
  bf16 *h;        // [hidden], the stream times norm
  float *squares; // [hidden/16], of the stream
  u64 *boxes;     // in the order of Step's
  u32 *turns;     // [blocks]
  // What lies ahead of the layers, if embedding is not null, and behind them, if head is not.
  const bf16 *embedding, *norm; // [vocab][hidden]; of the first layer
  const bf16 *head;             // [vocab][hidden]
  float *logits; // [vocab]
  int *next;     // the token, and the host's copy of it
  int *told;
};

// arrive_block says at a barrier, behind one of all threads that multiply, that they are done with what
// lies ahead of that: one of them for all, or each where an arrival is taken for its thread's alone.
__device__ __forceinline__ void arrive_block(u64 *b) {
  if (threadIdx.x < BLOCK_ARRIVALS) barrier_arrive(b);
}

// awaited is what is posted there in this turn; got is what was seen there first.
__device__ __forceinline__ u32 awaited(const u64 *at, u64 got, u32 turn) {
  if ((u32)(got >> 32) == turn) return (u32)got;
  u64 begin = nanoseconds();
#pragma unroll 1
  for (u32 looks = 1;; looks++) {
    got = read_posted(at);
    if ((u32)(got >> 32) == turn) return (u32)got;
    if (looks % 64 == 0 && waited(begin, STEP_PATIENCE)) give_up();
  }
}

// look brings n words that are posted from `from` on, and m from `more` on, even places and
// numbers, to shared memory, for a warp.
__device__ __noinline__ void look(u32 *to, const u64 *from, int n, u32 *also, const u64 *more, int m, u32 turn) {
  const int AT_ONCE = 4; // pairs of a lane
#pragma unroll 1
  for (int i = threadIdx.x % WARP * 2; i < n + m; i += AT_ONCE * 2 * WARP) {
    u64 got[AT_ONCE][2];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) got[j][0] = got[j][1] = i + j * 2 * WARP < n + m ? 0 : (u64)turn << 32;
    u64 begin = 0;
#pragma unroll 1
    for (u32 looks = 0;; looks++) {
      u32 missing = 0;
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        int at = i + j * 2 * WARP;
        if (((u32)(got[j][0] >> 32) ^ turn) | ((u32)(got[j][1] >> 32) ^ turn)) read_pair(at < n ? from + at : more + (at - n), got[j]);
      }
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) missing |= ((u32)(got[j][0] >> 32) ^ turn) | ((u32)(got[j][1] >> 32) ^ turn);
      if (!missing) break;
      if (looks % 64 == 0) {
        if (looks == 0) begin = nanoseconds();
        if (waited(begin, STEP_PATIENCE)) give_up();
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

// place_of is where a row of so many bytes lies in a stage: odd rows behind the even ones and half a line of
// banks further, so that loads of 16 bytes of two neighbours meet no bank twice.
__device__ __forceinline__ int place_of(int row, int bytes = STEP_ROW) { return (row & 1) * (8 * STEP_ROW + 64) + (row >> 1) * bytes; }

// add adds to sum and more the products of row g of 16 and, further on, row g+8, and 32 columns.
__device__ __forceinline__ void add(float sum[4], float more[4], const u8 *w, int further, const bf16 *x) {
  uint4 u = *(const uint4 *)w, q = *(const uint4 *)(w + further), v = *(const uint4 *)x;
  mma(sum, u.x, q.x, u.y, q.y, v.x, v.y);
  mma(more, u.z, q.z, u.w, q.w, v.z, v.w);
}

// multiply_unit is the sum of row g of 8 rows and 512 columns, of which left are there:
// rows g and g+8 of the mma are its pieces of 32 columns in turn, whose inputs are columns of their own.
__device__ __forceinline__ float multiply_unit(const u8 *stage, const bf16 *x, int left, bool whole) {
  int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  stage += place_of(g, 2 * STEP_ROW) + t * 16, x += t * 8 + (g & 1) * 32;
  float sum[4] = {}, more[4] = {};
  if (whole || left >= 2 * STEP_DEPTH) {
#pragma unroll
    for (int u = 0; u < STEP_DEPTH / 32; u++) add(sum, more, stage + u * 128, 64, x + u * 64);
    return (sum[0] + more[0]) + (sum[3] + more[3]);
  }
#pragma unroll 1
  for (int u = 0; u < STEP_DEPTH / 32 && u * 64 < left; u++) {
    bool both = u * 64 + 32 < left;
    uint4 none = make_uint4(0, 0, 0, 0);
    uint4 v = both || g % 2 == 0 ? *(const uint4 *)(x + u * 64) : none;
    uint4 w = *(const uint4 *)(stage + u * 128), q = both ? *(const uint4 *)(stage + 64 + u * 128) : none;
    mma(sum, w.x, q.x, w.y, q.y, v.x, v.y);
    mma(more, w.z, q.z, w.w, q.w, v.z, v.w);
  }
  return (sum[0] + more[0]) + (sum[3] + more[3]);
}

// of_warps is the sum of what the warps left of a row.
__device__ __forceinline__ float of_warps(const float *red, int r) {
  float s = 0.f;
#pragma unroll
  for (int w = 0; w < CONSUMERS; w++) s += red[w * RED_PITCH + r];
  return s;
}

// leave_scale leaves the reciprocal norm of the stream, of which squares are the sums. A warp does it.
__device__ __forceinline__ void leave_scale(float *to, const float *squares, float eps) {
  float ss = 0.f;
#pragma unroll 4
  for (int i = threadIdx.x % WARP; i < StepArgs::hidden / 16; i += WARP) ss += squares[i];
  ss = warp_sum(ss);
  if (threadIdx.x % WARP == 0) *to = rsqrtf(ss / StepArgs::hidden + eps);
  __syncwarp();
}

// add_to_stream adds 16 outputs of a block to its part of the stream, and posts them times the norm's
// weights, and the sum of their squares, in all copies. A warp does it.
__device__ __forceinline__ void add_to_stream(const float *red, float *stream, const bf16 *gains, u64 *boxes, u64 *squares, u32 turn) {
  const int size = StepArgs::hidden / 2 + StepArgs::hidden / 16; // of a copy
  int lane = threadIdx.x % WARP, r = lane % 16;
  float y = stream[r] + of_warps(red, r), ss = y * y;
  u32 v = narrow(y * gain(wide(gains[r])));
  u32 beside = __shfl_xor_sync(FULL, v, 1);
  v = lane % 2 ? beside | v << 16 : v | beside << 16;
  post(boxes + (lane / 16 * 2 + lane % 2) * size + r / 2, v, turn);
#pragma unroll
  for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
  if (lane < STREAM_COPIES) post(squares + lane * size, __float_as_uint(ss), turn);
  __syncwarp(); // both halves have what was there
  if (lane < 16) stream[r] = y;
  __syncwarp();
}

// A Step is what a block has.
struct Step {
  const StepArgs &a;
  const StepLayer *table;
  u8 *ring;
  u64 *full, *empty; // of each slot: filled, and free again
  u64 *here;         // of the stages that are held: filled
  u64 *consumed;     // all of them are used
  u64 *attended;     // attention has no more use for their memory
  u64 *decided;      // the experts are chosen
  u8 *hold;
  bf16 *in;          // the inputs of a product; each warp has its own of qkv's, 8 of them at most
  bf16 *row;         // of the router
  bf16 *norms;       // of queries and of keys
  bf16 *gains;       // [2][tiles][2][16]: of the tiles of 16 outputs that are this block's, both norms' weights, of layers in turn
  float *stream;     // of the same outputs
  float *sums;       // of qkv's stages
  float *red;        // sums of the warps, of two items in turn
  float *squares;    // of the norm
  u32 *keys;         // of the experts' scores, which order as they do
  int *chosen;       // [2][WARP], of layers in turn
  float *share, *score;
  float *scaling; // [2], of the norms ahead of attention and of the experts
  HeadShared &sh;
  u64 *heads;          // boxes: [kv_heads][GROUP+2][HEAD_DIM], queries, key and value
  u64 *mixed;          // [kv_heads][parts that take][parts that give][share], and peaks and sums behind each
  u64 *att;            // [width/2], attention's output
  u64 *ended, *after;  // [STREAM_COPIES][hidden/2 + hidden/16], the normed stream and its squares, behind attention and behind the experts
  u64 *acts;           // [top][inner/2]
  u64 *scores;         // [SCORE_COPIES][experts]
  u64 *bests;          // [blocks][2], the highest of the block's scores of the vocabulary, and its token

  __device__ __forceinline__ static int steps(int k) { return (k + STEP_DEPTH - 1) / STEP_DEPTH; }
  __device__ __forceinline__ int mine(int items) const { return items > (int)blockIdx.x ? (items - 1 - (int)blockIdx.x) / a.blocks + 1 : 0; }
  __device__ __forceinline__ int item(int i) const { return blockIdx.x + i * a.blocks; }

  // Units of 8 rows of qkv go to the blocks in the reverse order: the last of them have less of others.
  __device__ __forceinline__ int back() const { return a.blocks - 1 - blockIdx.x; }
  __device__ __forceinline__ int units() const { return a.rows / 8 > back() ? (a.rows / 8 - 1 - back()) / a.blocks + 1 : 0; }
  __device__ __forceinline__ int each_unit() const { return (a.hidden + 2 * STEP_DEPTH - 1) / (2 * STEP_DEPTH); }

  // Stages of this block.
  __device__ __forceinline__ int ins() const { return units() * each_unit(); }
  __device__ __forceinline__ int holds() const { return min(a.held, ins()); }
  __device__ __forceinline__ int outs() const { return mine(a.hidden / 16) * steps(a.width); }
  __device__ __forceinline__ int ups() const { return mine(a.top * (a.inner / 8)) * steps(a.hidden); }
  __device__ __forceinline__ int downs() const { return mine(a.hidden / 16) * a.top * steps(a.inner); }
  __device__ __forceinline__ int heads_of() const { return a.head ? (mine(a.vocab / 8) + CONSUMERS - 1) / CONSUMERS * CONSUMERS * each_unit() : 0; }

  // unit_of is the unit of 8 rows of the head that a stage is of: a warp has all stages of
  // its own. It may be one more than there are.
  __device__ __forceinline__ int unit_of(int stage) const { return stage / (CONSUMERS * each_unit()) * CONSUMERS + stage % CONSUMERS; }

  // copy copies what is left of a unit's columns, or of those of a tile, of which second is where
  // the second eight rows begin.
  __device__ __forceinline__ void copy(u32 to, u64 *full, const bf16 *from, const bf16 *second, int k, int left, u64 policy) const {
    int lane = threadIdx.x % WARP, rows = second ? 16 : 8, row = second ? STEP_ROW : 2 * STEP_ROW, columns = min(left, row / 2);
    if (bulk_copies()) {
      const bf16 *mine = (lane < 8 ? from : second) + (u64)((u32)(lane % 8) * (u32)k);
      int bytes = lane < rows ? columns * 2 : 0;
      if (WARP_ARRIVALS > 1) barrier_expect(full, bytes);
      else if (lane == 0) barrier_expect(full, rows * columns * 2);
      __syncwarp();
      if (bytes > 0) copy_bulk(to + place_of(lane, row), mine, bytes, full, policy);
      return;
    }
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
      const bf16 *mine = (second && half ? second : from + half * (second ? 0 : STEP_DEPTH)) + lane * 8;
      if (lane * 8 + (second ? 0 : half * STEP_DEPTH) < columns) {
#pragma unroll
        for (int j = 0; j < 8; j++) copy16_once(to + half * (second ? 4 : 1) * STEP_ROW + lane * 16 + place_of(j, row), mine + (u64)((u32)j * (u32)k), policy);
      }
    }
    barrier_arrive_copied(full);
  }

  // What is copied at a time, in this order; those that are held come in the layer ahead,
  // behind o's.
  enum Kind { HEAD, HELD, IN, OUT, UP, DOWN };

  // rows is where a stage's 16 rows begin, the second eight of them where second says, and
  // its column.
  __device__ __forceinline__ const bf16 *rows(const StepLayer &w, const int *chosen, int kind, int stage, const bf16 *&second, int &col) const {
    int each = kind <= IN ? each_unit() : steps(kind == OUT ? a.width : kind == UP ? a.hidden : a.inner), part = stage / each;
    col = (stage - part * each) * STEP_DEPTH;
    const bf16 *from;
    second = nullptr;
    if (kind == HEAD) {
      col = stage / CONSUMERS % each * 2 * STEP_DEPTH;
      from = a.head + (u64)item(unit_of(stage)) * 8 * a.hidden + col;
    } else if (kind <= IN) {
      col *= 2;
      from = w.qkv + (u64)(back() + part * a.blocks) * 8 * a.hidden + col;
    } else if (kind == OUT) {
      from = w.out + (u64)item(part) * 16 * a.width + col;
      second = from + 8 * a.width;
    } else if (kind == UP) {
      int tile = item(part), e = tile / (a.inner / 8);
      from = w.gate_up + ((u64)chosen[e] * 2 * a.inner + (tile - e * (a.inner / 8)) * 8) * a.hidden + col;
      second = from + (u64)a.inner * a.hidden;
    } else {
      int i = part / a.top;
      from = w.down + ((u64)chosen[part - i * a.top] * a.hidden + item(i) * 16) * a.inner + col;
      second = from + 8 * a.inner;
    }
    return from;
  }

  // produce fills every fourth stage.
  __device__ void produce() const {
    u64 policy = evict_first();
    int warp = threadIdx.x / WARP - CONSUMERS, held = holds();
    int j = warp, to = 0; // stages of the ring
    let_next_start();
#pragma unroll 1
    for (int n = -1; n < a.layers * 5 + (a.head ? 1 : 0); n++) {
      int l = n < 0 ? -1 : n / 5, at = n - l * 5, kind = n < 0 || at == 2 ? HELD : l == a.layers ? HEAD : at < 2 ? IN + at : at + 1;
      const StepLayer &w = table[min(kind == HELD ? l + 1 : l, a.layers - 1)];
      if (kind == HELD && n >= 0 && l + 1 < a.layers) barrier_wait(attended, l & 1);
      if (kind == UP) arrive_warp(decided), barrier_wait(decided, l & 1);
      int from = to, k = kind == OUT ? a.width : kind == DOWN ? a.inner : a.hidden;
      int most = kind == OUT ? PRODUCERS : 0; // stages on their way; 0 for as many as there is room for
      to += kind == HELD ? 0 : kind == HEAD ? heads_of() : kind == IN ? ins() - held : kind == OUT ? outs() : kind == UP ? ups() : downs();
#pragma unroll 1
      for (int i = kind == HELD ? warp : j; i < (kind != HELD ? to : l + 1 < a.layers ? held : 0); i += PRODUCERS) {
        const bf16 *second, *first;
        int col, stage = kind == HELD ? i : kind == IN ? i - from + held : i - from;
        first = rows(w, chosen + (l & 1) * WARP, kind, stage, second, col);
        u64 *filled = here + i;
        u32 there = shared_address(hold) + i * STEP_STAGE;
        if (kind != HELD) {
          int slot = i % a.stages, before = i - most; // stages of the warp's own: of others' more could have passed
          if (most > 0 && before >= 0) barrier_wait(full + before % a.stages, before / a.stages & 1);
          barrier_wait(empty + slot, i / a.stages & 1 ^ 1);
          filled = full + slot, there = shared_address(ring) + slot * STEP_STAGE;
          j = i + PRODUCERS;
        }
        int left = kind == HEAD && unit_of(stage) >= mine(a.vocab / 8) ? 0 : k - col;
        copy(there, filled, first, second, k, left, policy);
      }
      if (kind == HELD && l + 1 < a.layers) call_rest(w);
    }
    wait_for_previous();
  }

  // call_rest brings into the L2 what follows the held stages of a layer's qkv, as much as the ring has
  // room for: while experts are chosen little else is on its way.
  __device__ __forceinline__ void call_rest(const StepLayer &w) const {
    int lane = threadIdx.x % WARP, to = bulk_copies() ? min(ins(), holds() + a.stages) : 0;
#pragma unroll 1
    for (int i = holds() + (int)threadIdx.x / WARP - CONSUMERS; i < to; i += PRODUCERS) {
      const bf16 *second;
      int col;
      const bf16 *from = rows(w, chosen, HELD, i, second, col) + lane % 8 * a.hidden;
      if (lane < 8) call_ahead(from, min(a.hidden - col, 2 * STEP_DEPTH) * 2);
    }
  }

  // multiply adds the products of this warp's stages of an item to low and high, the sums of
  // rows g and g+8: of stages that follow each other in the ring from `from` on, every eighth.
  // Where the inputs are those of several experts, each of k, shares has theirs. The warp
  // gathers inputs that are posted from `from` on, where it is not null, just ahead.
  __device__ __forceinline__ void multiply(int from, int stages, int k, float &low, float &high, const u64 *posted, u32 turn, const float *shares = nullptr) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, each = steps(k);
#pragma unroll 1
    for (int c = warp; c < stages; c += CONSUMERS) {
      u32 j = from + c, slot = j % a.stages, phase = j / a.stages & 1;
      int e = shares ? c / each : 0, col = (c - e * each) * STEP_DEPTH, x = e * k + col;
      if (posted && c % (2 * CONSUMERS) < CONSUMERS) {
        int d = c + CONSUMERS, f = d / each, y = f * k + (d - f * each) * STEP_DEPTH; // the warp's next
        look((u32 *)in + x / 2, posted + x / 2, min(k - col, STEP_DEPTH) / 2, (u32 *)in + y / 2, posted + y / 2,
             d < stages ? min(k - (d - f * each) * STEP_DEPTH, STEP_DEPTH) / 2 : 0, turn);
      }
      const u8 *at = ring + slot * STEP_STAGE + place_of(g) + t * 16;
      const bf16 *in = this->in + x + t * 8;
      float sum[4] = {}, more[4] = {};
      barrier_wait(full + slot, phase);
      if (k % STEP_DEPTH == 0 || k - col >= STEP_DEPTH) {
#pragma unroll
        for (int u = 0; u < STEP_DEPTH / 32; u++) add(sum, more, at + u * 64, 4 * STEP_ROW, in + u * 32);
      } else {
#pragma unroll 1
        for (int u = 0; u < (k - col) / 32; u++) add(sum, more, at + u * 64, 4 * STEP_ROW, in + u * 32);
      }
      arrive_warp(empty + slot);
      float share = shares ? shares[e] : 1.f;
      low += share * (sum[0] + more[0]), high += share * (sum[2] + more[2]);
    }
  }

  // leave leaves the sums of 16 rows where all warps see them.
  __device__ __forceinline__ void leave(float *red, float low, float high) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (lane % 4 == 0) red[warp * RED_PITCH + lane / 4] = low, red[warp * RED_PITCH + lane / 4 + 8] = high;
    sync_threads_of(1, STEP_THREADS);
  }

  __device__ __forceinline__ float *other(float *r) const { return r == red ? red + CONSUMERS * RED_PITCH : red; }

  __device__ __forceinline__ int tiles() const { return (a.hidden / 16 + a.blocks - 1) / a.blocks; }
  __device__ __forceinline__ const bf16 *gains_of(int l, int tile, int which) const { return gains + (((l & 1) * tiles() + tile) * 2 + which) * 16; }

  // fetch begins to copy what a layer needs of this block beside its products' weights.
  __device__ __forceinline__ void fetch(int l) const {
    const StepLayer &w = table[l];
    u64 policy = evict_first();
    if (blockIdx.x < a.experts)
#pragma unroll 1
      for (int i = threadIdx.x * 8; i < a.hidden; i += STEP_THREADS * 8) copy16_once(shared_address(row + i), w.router + (u64)blockIdx.x * a.hidden + i, policy);
#pragma unroll 1
    for (int i = threadIdx.x; i < mine(a.hidden / 16) * 4; i += STEP_THREADS) {
      const bf16 *from = (i & 2 ? w.norm : w.mid) + item(i / 4) * 16 + (i & 1) * 8;
      copy16(shared_address(gains_of(l, i / 4, i / 2 & 1) + (i & 1) * 8), from);
    }
#if QK_NORM
#pragma unroll 1
    for (int i = threadIdx.x; i < HEAD_DIM / 4; i += STEP_THREADS) {
      int at = i % (HEAD_DIM / 8) * 8;
      copy16(shared_address(norms + (i < HEAD_DIM / 8 ? 0 : HEAD_DIM) + at), (i < HEAD_DIM / 8 ? w.q_norm : w.k_norm) + at);
    }
#endif
    commit();
  }

  // embed makes the stream of the token's row, and what enters the first product.
  __device__ __forceinline__ void embed() const {
    const bf16 *from = a.embedding + (u64)__ldcg(a.next) * a.hidden;
#pragma unroll 1
    for (int i = threadIdx.x * 8; i - (int)threadIdx.x % WARP * 8 < a.hidden; i += STEP_THREADS * 8) {
      bool any = i < a.hidden;
      uint4 v = any ? load8(from + i) : make_uint4(0, 0, 0, 0), w = any ? load8(a.norm + i) : v;
      float ss = dot8(v, v);
      ss += __shfl_xor_sync(FULL, ss, 1);
      const u32 *x = &v.x, *y = &w.x;
      u32 o[4];
#pragma unroll
      for (int j = 0; j < 4; j++) o[j] = pack(low(x[j]) * gain(low(y[j])), high(x[j]) * gain(high(y[j])));
      if (any) *(uint4 *)(in + i) = make_uint4(o[0], o[1], o[2], o[3]);
      if (any && i % 16 == 0) squares[i / 16] = ss;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < mine(a.hidden / 16) * 16; i += STEP_THREADS) stream[i] = wide(from[item(i / 16) * 16 + i % 16]);
    sync_threads_of(1, STEP_THREADS);
  }

  // load is behind the kernel ahead: its output, and the stream.
  __device__ __forceinline__ void load() const {
#pragma unroll 1
    for (int i = threadIdx.x; i < a.hidden / 8; i += STEP_THREADS) *((uint4 *)in + i) = __ldcg((const uint4 *)a.h + i);
#pragma unroll 1
    for (int i = threadIdx.x; i < mine(a.hidden / 16) * 16; i += STEP_THREADS) stream[i] = __ldcg(a.x + item(i / 16) * 16 + i % 16);
#pragma unroll 1
    for (int i = threadIdx.x; i < a.hidden / 16; i += STEP_THREADS) squares[i] = __ldcg(a.squares + i);
    sync_threads_of(1, STEP_THREADS);
  }

  // A Context is what a block attends to.
  struct Context {
    int head, part, slot, count;
    const float *angles; // those that are made
  };
  __device__ __forceinline__ bool attends(const Context &c) const { return c.part < a.parts; }
  __device__ __forceinline__ Ring tiles_of(const StepLayer &w, const Context &c) const {
    u64 cache = (u64)c.head * w.capacity * HEAD_DIM;
    return Ring(hold + threadIdx.x / WARP % DEC_WARPS * STEP_TILES, w.keys + cache, w.values + cache);
  }

  // begin_context begins to copy what the warp attends to, when the memory is free.
  __device__ __forceinline__ void begin_context(const StepLayer &w, int l, Context &c) const {
    wait_copies<0>(); // what fetch began
    if (!attends(c)) return;
    int warp = threadIdx.x / WARP, past = __ldcg(a.positions);
    c.slot = past, c.count = past + 1;
#if SLIDING
    c.count = min(c.count, (int)w.capacity), c.slot = past % (int)w.capacity;
#endif
    if (warp - STEP_CONTEXT >= 0 && warp - STEP_CONTEXT < DEC_WARPS) {
      if (holds() > 0) barrier_wait(consumed, l & 1);
      begin_tiles<true, STEP_VALUES>(tiles_of(w, c), c.part * DEC_WARPS + warp - STEP_CONTEXT, a.parts * DEC_WARPS, c.count);
    }
    if (w.frequencies != c.angles)
#pragma unroll 1
      for (int i = threadIdx.x; i < HEAD_DIM / 2; i += STEP_THREADS) sincosf((float)past * w.frequencies[i], &sh.sin[i], &sh.cos[i]);
    c.angles = w.frequencies;
  }

  // project is the product that begins attention's block.
  __device__ __forceinline__ void project(const StepLayer &w, int l, Context &c, int first, u32 turn) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = each_unit(), n = ins(), held = holds();
    u32 have = 0; // of the inputs' columns
    const u64 *from = copy_of(after);
    bf16 *in = this->in + (l ? warp / min(CONSUMERS, each & -each) * a.hidden : 0); // each warp that gathers a column has a copy of its own
    if (l == 0 && threadIdx.x < WARP) leave_scale(scaling, squares, a.eps);
    bool begun = false;
#pragma unroll 1
    for (int i = warp; i < n || i == warp; i += CONSUMERS) {
      if (i < n) {
        bool apart = i < held;
        u32 j = first + i - held, slot = apart ? 0 : j % a.stages, phase = apart ? l : j / a.stages;
        const u8 *at = apart ? hold + i * STEP_STAGE : ring + slot * STEP_STAGE;
        int part = i % each, col = part * 2 * STEP_DEPTH;
        if (l && (part >= 32 || !(have >> part & 1))) {
          bool all = warp == min(CONSUMERS, n) - 1 && !have; // which has less of qkv than the first
          look((u32 *)(in + col), from + col / 2, min(a.hidden - col, 2 * STEP_DEPTH) / 2, (u32 *)squares, from + a.hidden / 2, all ? a.hidden / 16 : 0, turn - 1);
          have |= 1u << part % 32;
        }
        barrier_wait(apart ? here + i : full + slot, phase & 1);
        float sum = multiply_unit(at, in + col, a.hidden - col, a.hidden % (2 * STEP_DEPTH) == 0);
        if (lane % 4 == 0) sums[i * 8 + lane / 4] = sum;
        if (!apart || attends(c)) arrive_warp(apart ? consumed : empty + slot); // who does not attend waits for nobody
      }
      if (!begun && i + CONSUMERS >= held) begin_context(w, l, c), begun = true;
    }
    if (l && warp == min(CONSUMERS, n) - 1) leave_scale(scaling, squares, a.eps);
    sync_threads_of(1, STEP_THREADS);
#pragma unroll 1
    for (int i = threadIdx.x; i < units() * 8; i += STEP_THREADS) {
      float y = 0.f;
#pragma unroll 4
      for (int k = 0; k < each; k++) y += sums[(i / 8 * each + k) * 8 + i % 8];
      int at = (back() + i / 8 * a.blocks) * 8 + i % 8, head = at / HEAD_DIM, heads = a.kv_heads; // of queries, keys or values
      int of = head < GROUP * heads ? head / GROUP * (GROUP + 2) + head % GROUP
               : head < (GROUP + 1) * heads ? (head - GROUP * heads) * (GROUP + 2) + GROUP : (head - (GROUP + 1) * heads) * (GROUP + 2) + GROUP + 1;
      post(this->heads + of * HEAD_DIM + at % HEAD_DIM, __float_as_uint(y * *scaling), turn);
    }
  }

  // peaks are how many peaks of queries, and sums, a part takes: of those that its share is of.
  __device__ __forceinline__ int peaks() const { return max(1, (1 << a.share) / HEAD_DIM) * a.parts; }
  __device__ __forceinline__ u64 *mixed_of(int head, int part) const { return mixed + (head * a.parts + part) * (DEC_VALUES + 2 * peaks()); }

  // gather brings words that are posted from `from` on to all warps, an even number.
  __device__ __forceinline__ void gather(const u64 *from, int count, u32 turn) const {
    int each = (count + 2 * CONSUMERS - 1) / (2 * CONSUMERS) * 2, at = threadIdx.x / WARP * each;
    look((u32 *)in + at, from + at, max(0, min(each, count - at)), nullptr, nullptr, 0, turn);
    sync_threads_of(1, STEP_THREADS);
  }

  // prepared are queries in shared memory, [2][GROUP][QUERY] behind what is gathered: what they are rounded
  // to, and what that lost.
  static constexpr int QUERY = HEAD_DIM + 8;
  __device__ __forceinline__ bf16 *prepared() const { return in + 2 * (GROUP + 2) * HEAD_DIM; }

  // prepare does what is done to one of a head's queries, its key (GROUP) or its value (GROUP+1), which are
  // gathered, and leaves it: a query times the scale of scores. A warp does it.
  __device__ __forceinline__ void prepare(const StepLayer &w, const Context &c, int of) const {
    int lane = threadIdx.x % WARP;
    const float *raw = (const float *)in + of * HEAD_DIM + lane;
    float v[HEAD_LANE];
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) v[i] = raw[WARP * i];
#if QKV_BIAS
    int row = of < GROUP ? c.head * GROUP + of : of * a.kv_heads + c.head;
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) v[i] += wide(w.bias[row * HEAD_DIM + lane + WARP * i]);
#endif
    if (of <= GROUP) {
      Angles angles;
#pragma unroll
      for (int i = 0; i < HEAD_LANE / 2; i++) angles.sin[i] = sh.sin[lane + WARP * i], angles.cos[i] = sh.cos[lane + WARP * i];
      prepare_head(v, norms + (of == GROUP ? HEAD_DIM : 0), a.eps, angles);
    }
    if (of >= GROUP) {
      bf16 *cache = (of == GROUP ? w.keys : w.values) + ((u64)c.head * w.capacity + c.slot) * HEAD_DIM;
#pragma unroll
      for (int i = 0; i < HEAD_LANE; i++) cache[lane + WARP * i] = sh.fresh[of - GROUP][lane + WARP * i] = narrow(v[i]);
      return;
    }
    bf16 *to = prepared() + of * QUERY + lane;
#pragma unroll
    for (int i = 0; i < HEAD_LANE; i++) {
      float x = v[i] * (a.scale * LOG2E);
      bf16 top = narrow(x);
      to[WARP * i] = top, to[GROUP * QUERY + WARP * i] = narrow(x - wide(top));
    }
  }

  // attend is attention over the part of the context that the block has.
  __device__ __forceinline__ void attend(const StepLayer &w, const Context &c, u32 turn) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, step = a.parts * DEC_WARPS, first = c.part * DEC_WARPS + warp - STEP_CONTEXT;
    int n = c.slot / 16 % step / DEC_WARPS == c.part ? GROUP + 2 : GROUP;
    const u64 *from = heads + (c.head * (GROUP + 2) + warp) * HEAD_DIM;
    u32 *raw = (u32 *)in + warp * HEAD_DIM;
    look(raw, from, warp < n ? HEAD_DIM : 0, raw + CONSUMERS * HEAD_DIM, from + CONSUMERS * HEAD_DIM, warp + CONSUMERS < n ? HEAD_DIM : 0, turn);
#pragma unroll 1
    for (int of = warp; of < n; of += CONSUMERS) prepare(w, c, of);
    sync_threads_of(1, STEP_THREADS);
    if (warp - STEP_CONTEXT >= 0 && warp - STEP_CONTEXT < DEC_WARPS) {
      Ring ring = tiles_of(w, c);
      Queries queries;
      const bf16 *from = prepared() + min(lane / 4, GROUP - 1) * QUERY + lane % 4 * 2;
#pragma unroll
      for (int p = 0; p < DEC_PIECES; p++) queries.top[p] = *(const u32 *)(from + 8 * p), queries.rest[p] = *(const u32 *)(from + GROUP * QUERY + 8 * p);
      Mixed m = {-INFINITY, 0.f, {}};
      mix<true, STEP_VALUES>(m, queries, ring, sh, first, step, c.slot, c.count);
      wait_copies<0>();
      __syncwarp();
      leave_mixed(m, (float *)ring.at, sh.stats[warp % DEC_WARPS]);
      before_bulk();
    }
    sync_threads_of(1, STEP_THREADS);
    post_part(c, turn);
    take_parts(c, turn);
  }

  // post_part posts what the block's warps have, to those that make its head's output.
  __device__ __forceinline__ void post_part(const Context &c, u32 turn) const {
    int share = 1 << a.share;
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < DEC_VALUES; i += STEP_THREADS * 4) {
      int g = i / HEAD_DIM;
      float m = -INFINITY, l = 0.f;
      float4 o = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int w = 0; w < DEC_WARPS; w++) m = fmaxf(m, sh.stats[w][g].x);
#pragma unroll
      for (int w = 0; w < DEC_WARPS; w++) {
        float2 s = sh.stats[w][g];
        float4 v = *(const float4 *)(hold + w * STEP_TILES + (g * DEC_PITCH + i % HEAD_DIM) * 4);
        float f = weight_of(s.x, m);
        o.x += f * v.x, o.y += f * v.y, o.z += f * v.z, o.w += f * v.w, l += f * s.y;
      }
      u64 *to = mixed_of(c.head, i >> a.share), *at = to + (c.part << a.share) + (i & share - 1);
      post_two(at, __float_as_uint(o.x), __float_as_uint(o.y), turn), post_two(at + 2, __float_as_uint(o.z), __float_as_uint(o.w), turn);
      if (i % min(share, HEAD_DIM) == 0)
        post_two(to + DEC_VALUES + ((i & share - 1) / HEAD_DIM * a.parts + c.part) * 2, __float_as_uint(m), __float_as_uint(l), turn);
    }
  }

  // take_parts makes the block's share of its head's output of what all parts posted, and
  // posts it.
  __device__ __forceinline__ void take_parts(const Context &c, u32 turn) const {
    int share = 1 << a.share, parts = a.parts;
    const float *got = (const float *)in;
    gather(mixed_of(c.head, c.part), DEC_VALUES + 2 * peaks(), turn);
#pragma unroll 1
    for (int i = threadIdx.x / 4; i - (int)threadIdx.x % WARP / 4 < share; i += STEP_THREADS / 4) { // four threads a value
      int v = min(i, share - 1), quarter = threadIdx.x % 4;
      const float2 *stats = (const float2 *)(got + DEC_VALUES) + v / HEAD_DIM * parts;
      float m = -INFINITY, o = 0.f, sum = 0.f;
#pragma unroll 4
      for (int s = quarter; s < parts; s += 4) m = fmaxf(m, stats[s].x);
      m = fmaxf(m, __shfl_xor_sync(FULL, m, 1)), m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
#pragma unroll 4
      for (int s = quarter; s < parts; s += 4) {
        float f = weight_of(stats[s].x, m);
        o += f * got[(s << a.share) + v], sum += f * stats[s].y;
      }
      o += __shfl_xor_sync(FULL, o, 1), sum += __shfl_xor_sync(FULL, sum, 1);
      o += __shfl_xor_sync(FULL, o, 2), sum += __shfl_xor_sync(FULL, sum, 2);
      u32 y = narrow(o / sum);
      y |= __shfl_xor_sync(FULL, y, 4) << 16;
      if (i < share && i % 2 == 0 && quarter == 0) post(att + (c.head * DEC_VALUES + (c.part << a.share) + i) / 2, y, turn);
    }
    sync_threads_of(1, STEP_THREADS);
  }

  // normed is how many boxes a copy of the normed stream has, and copy_of where this
  // block's is.
  __device__ __forceinline__ int normed() const { return a.hidden / 2 + a.hidden / 16; }
  __device__ __forceinline__ const u64 *copy_of(const u64 *boxes) const { return boxes + blockIdx.x % STREAM_COPIES * normed(); }

  // end_attention is the product that ends attention's block.
  __device__ __forceinline__ void end_attention(float *&now, int l, int first, u32 turn) const {
    int warp = threadIdx.x / WARP;
    if (mine(a.hidden / 16)) gather(att, a.width / 2, turn);
#pragma unroll 1
    for (int i = 0; i < mine(a.hidden / 16); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply(first + i * steps(a.width), steps(a.width), a.width, low, high, nullptr, turn);
      leave(now, low, high);
      if (warp == i % CONSUMERS) add_to_stream(now, stream + i * 16, gains_of(l, i, 0), ended + item(i) * 8, ended + a.hidden / 2 + item(i), turn);
    }
  }

  // take_normed gathers the warp's columns of the normed stream, those of every eighth
  // stage; the first warp gathers the squares too.
  __device__ __forceinline__ void take_normed(const u64 *boxes, u32 turn) const {
    int m = threadIdx.x < WARP ? a.hidden / 16 : 0;
    const u64 *from = copy_of(boxes);
#pragma unroll 1
    for (int c = threadIdx.x / WARP; m > 0 || c < steps(a.hidden); c += CONSUMERS, m = 0) {
      int col = c * STEP_DEPTH;
      look((u32 *)(in + col), from + col / 2, max(0, min(a.hidden - col, STEP_DEPTH)) / 2, (u32 *)squares, from + a.hidden / 2, m, turn);
    }
  }

  // route posts the scores of this block's rows of the router, but for the norm's scale, which
  // changes nothing of their order.
  __device__ __forceinline__ void route(float *red, const StepLayer &w, u32 turn) const {
#pragma unroll 1
    for (int e = blockIdx.x; e < a.experts; e += a.blocks) {
      float s = 0.f;
#pragma unroll 1
      for (int i = threadIdx.x * 8; i < a.hidden; i += STEP_THREADS * 8)
        s += dot8(load8(e == blockIdx.x ? row + i : w.router + (u64)e * a.hidden + i), *(const uint4 *)(in + i));
      s = warp_sum(s);
      if (threadIdx.x % WARP == 0) red[threadIdx.x / WARP * RED_PITCH] = s;
      sync_threads_of(1, STEP_THREADS);
      if (threadIdx.x < SCORE_COPIES) post(scores + threadIdx.x * a.experts + e, __float_as_uint(of_warps(red, 0)), turn);
      red = other(red);
    }
  }

  // choose gathers the scores, and finds each expert's place in their order: the higher
  // score first, the lower index among equals. All warps arrive at `decided`, those that copy
  // too: so none of them is a layer behind, and who chooses in a layer has waited for all
  // that read what was chosen two layers ahead, which lay in the same place.
  __device__ __forceinline__ void choose(int l, u32 turn) const {
    int e = threadIdx.x, padded = (a.experts + 3) / 4 * 4;
    u32 mine = 0;
    if (e < a.experts) {
      const u64 *at = scores + blockIdx.x % SCORE_COPIES * a.experts + e;
      u32 v = awaited(at, read_posted(at), turn);
      mine = v ^ (v >> 31 ? 0xffffffffu : 0x80000000u);
      mine += mine == 0; // which is of none
    }
    if (e < padded) keys[e] = mine;
    sync_threads_of(1, STEP_THREADS);
    bool pairs = a.experts <= STEP_THREADS / 2; // two threads an expert
    int half = pairs ? (padded / 4 + 1) / 2 * 4 : padded;
    int to = pairs ? e % 2 ? padded : half : padded, from = pairs && e % 2 ? half : 0;
    if (pairs) e /= 2, mine = e < a.experts ? keys[e] : 0;
    int rank = 0;
    u32 before = mine - 1; // those ahead of it are before it with a key as high as its own
#pragma unroll 4
    for (int f = from; f < to; f += 4) {
      uint4 k = *(const uint4 *)(keys + f);
      u32 than = f <= e ? before : mine;
      rank += (k.x > than) + (k.y > than) + (k.z > than) + (k.w > than);
    }
    if (e >= from && e < to) { // but not it, and those of its four that are behind it
      uint4 k = *(const uint4 *)(keys + e / 4 * 4);
      rank -= 1 + (e % 4 < 1 && k.y == mine) + (e % 4 < 2 && k.z == mine) + (e % 4 < 3 && k.w == mine);
    }
    if (pairs) rank += __shfl_xor_sync(FULL, rank, 1);
    if (e < a.experts && rank < a.top) chosen[(l & 1) * WARP + rank] = e, score[rank] = value(mine);
    arrive_warp(decided);
  }

  // value is the score of a key.
  __device__ __forceinline__ static float value(u32 key) { return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu)); }

  // weigh_experts makes the experts' weights of their scores. A warp does it.
  __device__ __forceinline__ void weigh_experts() const {
    int lane = threadIdx.x % WARP;
    float peak = score[0], scale = scaling[1], sum = 0.f, w = lane < a.top ? __expf((score[lane] - peak) * scale) : 0.f;
    if (!a.normalized)
#pragma unroll 1
      for (int e = lane; e < a.experts; e += WARP) sum += __expf((value(keys[e]) - peak) * scale);
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

  // leave_stream leaves 16 outputs where the kernel behind finds them. A warp does it.
  __device__ __forceinline__ void leave_stream(int l, int i) const {
    int r = threadIdx.x % 16, o = item(i) * 16 + r;
    float y = stream[i * 16 + r], ss = y * y;
#pragma unroll
    for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
    a.x[o] = y, a.h[o] = narrow(y * gain(wide(gains_of(l, i, 1)[r])));
    a.squares[item(i)] = ss;
  }

  // experts is their products.
  __device__ __forceinline__ void experts(float *&now, int l, int first, u32 turn) const {
    int warp = threadIdx.x / WARP, each = steps(a.hidden), stages = a.top * steps(a.inner);
#pragma unroll 1
    for (int i = 0; i < mine(a.top * (a.inner / 8)); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply(first + i * each, each, a.hidden, low, high, nullptr, turn);
      leave(now, low, high);
      if (warp == i % CONSUMERS) finish_up(now, scaling[1], acts + item(i) * 4, turn);
    }
    first += ups();
#pragma unroll 1
    for (int i = 0; i < mine(a.hidden / 16); i++, now = other(now)) {
      float low = 0.f, high = 0.f;
      multiply(first + i * stages, stages, a.inner, low, high, i ? nullptr : acts, turn, share);
      leave(now, low, high);
      if (warp == i % CONSUMERS) {
        add_to_stream(now, stream + i * 16, gains_of(l, i, 1), after + item(i) * 8, after + a.hidden / 2 + item(i), turn);
        if (l + 1 == a.layers && !a.head) leave_stream(l, i);
      }
    }
  }

  // choose_token makes the scores of the vocabulary, and of the highest, the lowest index among
  // equals, the next token. turn is the last layer's. Ordered, best and index are as in best_score.
  __device__ __forceinline__ void choose_token(int first, u32 turn) const {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, each = each_unit(), n = heads_of();
    u64 best = 0;
    float y = 0.f;
    take_normed(after, turn);
    if (threadIdx.x < WARP) leave_scale(scaling + 1, squares, a.eps);
    sync_threads_of(1, STEP_THREADS);
    float scale = scaling[1];
#pragma unroll 1
    for (int i = warp; i < n; i += CONSUMERS) {
      u32 j = first + i, slot = j % a.stages;
      int part = i / CONSUMERS % each, col = part * 2 * STEP_DEPTH, unit = unit_of(i);
      barrier_wait(full + slot, j / a.stages & 1);
      y += multiply_unit(ring + slot * STEP_STAGE, in + col, a.hidden - col, a.hidden % (2 * STEP_DEPTH) == 0);
      arrive_warp(empty + slot);
      if (part + 1 < each) continue;
      if (unit < mine(a.vocab / 8)) {
        int row = item(unit) * 8 + lane / 4;
        u32 bits = __float_as_uint(y * scale);
        if (lane % 4 == 0) a.logits[row] = y * scale;
        u64 key = (u64)(bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u)) << 32 | (0xffffffffu - (u32)row);
        best = key > best ? key : best;
      }
      y = 0.f;
    }
    best = highest(best);
    u64 *of_warps = (u64 *)red;
    if (lane == 0) of_warps[warp] = best;
    sync_threads_of(1, STEP_THREADS);
    if (warp > 0) return;
    best = highest(lane < CONSUMERS ? of_warps[lane] : 0);
    if (lane == 0) post_two(bests + 2 * blockIdx.x, (u32)(best >> 32), (u32)best, turn + 1);
    if (blockIdx.x > 0) return;
    look((u32 *)in, bests, 2 * a.blocks, nullptr, nullptr, 0, turn + 1);
    best = 0;
#pragma unroll 1
    for (int i = lane; i < a.blocks; i += WARP) {
      uint2 got = *(const uint2 *)((const u32 *)in + 2 * i);
      u64 key = (u64)got.x << 32 | got.y;
      best = key > best ? key : best;
    }
    best = highest(best);
    if (lane == 0) *a.next = *a.told = token(best), *a.positions += 1;
  }

  __device__ __forceinline__ static u64 highest(u64 v) {
#pragma unroll
    for (int o = WARP / 2; o > 0; o /= 2) {
      u64 other = __shfl_xor_sync(FULL, v, o);
      v = other > v ? other : v;
    }
    return v;
  }

  __device__ void consume() const {
    fetch(0);
    wait_for_previous();
    u32 turn = __ldcg(a.turns + blockIdx.x);
    if (a.embedding)
      embed();
    else
      load();
    float *now = red;
    int first = 0; // stage of the ring
    Context c = {(int)blockIdx.x % a.kv_heads, (int)blockIdx.x / a.kv_heads, 0, 0, nullptr};
#pragma unroll 1
    for (int l = 0; l < a.layers; l++) {
      const StepLayer &w = table[l];
      turn++;
      project(w, l, c, first, turn);
      first += ins() - holds();
      if (attends(c)) attend(w, c, turn);
      arrive_block(attended);
      end_attention(now, l, first, turn);
      first += outs();
      take_normed(ended, turn);
      route(now, w, turn);
      if (threadIdx.x < WARP) leave_scale(scaling + 1, squares, a.eps);
      now = other(now);
      choose(l, turn);
      if (l + 1 < a.layers) fetch(l + 1);
      barrier_wait(decided, l & 1);
      if (threadIdx.x / WARP == 0) weigh_experts();
      experts(now, l, first, turn);
      first += ups() + downs();
    }
    if (a.head) choose_token(first, turn++);
    if (threadIdx.x == 0) a.turns[blockIdx.x] = turn;
  }
};

// step_of divides the shared memory of a block; widest is the most that it gathers.
__device__ __forceinline__ void step_of(const StepArgs &a, int widest) {
  DYNAMIC_SHARED(ring);
  __shared__ u64 full[STEP_STAGES], empty[STEP_STAGES], here[STEP_STAGES], consumed, attended, decided;
  __shared__ __align__(16) float red[2 * CONSUMERS * RED_PITCH];
  __shared__ __align__(16) u32 keys[WARP * EXPERT_LANE];
  __shared__ int chosen[2 * WARP];
  __shared__ float share[WARP], score[WARP], scaling[2];
  __shared__ __align__(16) HeadShared sh;
  int tiles = (a.hidden / 16 + a.blocks - 1) / a.blocks;
  u8 *hold = ring + a.stages * STEP_STAGE;
  bf16 *in = (bf16 *)(hold + max(a.held * STEP_STAGE, DEC_WARPS * STEP_TILES)), *row = in + widest, *norms = row + a.hidden, *gains = norms + 2 * HEAD_DIM;
  float *stream = (float *)(gains + tiles * 64);
  StepLayer *here_table = (StepLayer *)(stream + tiles * 16);
  float *squares = (float *)(here_table + a.layers), *sums = squares + (a.hidden / 16 + 3) / 4 * 4;
  u64 *mixed = a.boxes + a.rows, *att = mixed + a.kv_heads * a.parts * (DEC_VALUES + 2 * a.parts * max(1, (1 << a.share) / HEAD_DIM)), *ended = att + a.width / 2;
  int normed = a.hidden / 2 + a.hidden / 16;
  u64 *acts = ended + STREAM_COPIES * normed, *after = acts + a.top * a.inner / 2, *scores = after + STREAM_COPIES * normed, *bests = scores + (SCORE_COPIES * a.experts + 1) / 2 * 2;
  Step s = {a,    here_table, ring, full,    empty,  here,   &consumed, &attended, &decided, hold, in,    row, norms, gains, stream, sums,
              red, squares, keys, chosen, share, score, scaling, sh, a.boxes, mixed, att, ended, after, acts, scores, bests};
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < a.stages; i++) barrier_init(full + i, bulk_copies() ? WARP_ARRIVALS : WARP), barrier_init(empty + i, WARP_ARRIVALS);
#pragma unroll 1
    for (int i = 0; i < s.holds(); i++) barrier_init(here + i, bulk_copies() ? WARP_ARRIVALS : WARP);
    barrier_init(&consumed, max(1, s.holds()) * WARP_ARRIVALS), barrier_init(&attended, BLOCK_ARRIVALS);
    barrier_init(&decided, (CONSUMERS + PRODUCERS) * WARP_ARRIVALS);
    before_bulk();
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < a.layers * (int)(sizeof(StepLayer) / 8); i += blockDim.x) ((u64 *)here_table)[i] = ((const u64 *)a.table)[i];
  __syncthreads();
  if (threadIdx.x >= CONSUMERS * WARP)
    s.produce();
  else
    s.consume();
}

extern "C" __global__ void __launch_bounds__(STEP_ALL, 1)
    mixture_step(const StepLayer *table, int layers, int vocab, int widest, float eps, float scale, int *positions, float *x, bf16 *h, float *squares,
                 u64 *boxes, u32 *turns, const bf16 *embedding, const bf16 *norm, const bf16 *head, float *logits, int *next, int *told) {
  StepArgs a = {table, layers, vocab, eps, scale, positions, x, h, squares, boxes, turns, embedding, norm, head, logits, next, told};
  step_of(a, widest);
}

#endif
