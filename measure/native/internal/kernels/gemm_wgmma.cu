// The wgmma GEMM of a decode step with 17 to 64 sequences on Hopper. As in gemm_skinny.cu the weights
// stream through a ring in shared memory that begins to fill while the kernel before still runs. Bulk
// tensor copies bring them, two boxes of many rows a stage, and two warpgroups multiply them in place.
// The inputs are the 64 rows of a wgmma, of which those beyond the batch are arbitrary; weights are
// its columns, half of a stage's for each warpgroup. So a block can have any even number of units of
// 16 weight rows.
//
// Every block with weights of the same columns reads the inputs of these columns. If a block would
// have few rows, a cluster of two blocks shares twice as many rows, and the blocks take alternate
// columns, 64 by 64. At the end each block sends the sums of one warpgroup to the other block, whose
// threads have the same places in the same units.
//
// With several ranks a GEMM sends its sums to the others and adds what they sent (ll_protocol.cuh), or
// leaves its sums for all_reduce.
//
// The host defines WGMMA_NORM_32 and so on, for up to 32 rows of inputs and up to 64: weight rows of a
// warpgroup, stages, rows of inputs, blocks of a cluster, and columns of a stage in units of 64.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(OLDER) && defined(WGMMA_GEMM)

#define WGMMA_GROUPS 2                    // warpgroups that multiply
#define WGMMA_THREADS (WGMMA_GROUPS * 128) // threads that multiply; the following warps copy and compute norms
#define WGMMA_UNIT 2048                   // bytes of 16 rows of 64 columns

// WgmmaShared is what the blocks of a cluster send each other.
template <int N, int XR>
struct WgmmaShared {
  float2 sums[N / 4][2 * XR]; // sums of the threads of a warpgroup that have inputs
  float2 word;
  u64 received, taken; // These barriers say that the sums have arrived, and that the other block has used those sent to it.
};

template <int N, int STAGES, int XR, int CLUSTER, int SPAN, Epilogue OUT>
struct WgmmaGemm {
  static constexpr int UNITS = WGMMA_GROUPS * N / 16;
  static constexpr int MINE = N / 16; // units of a warpgroup
  static constexpr int SLAB = UNITS * WGMMA_UNIT + XR * 128; // bytes of 64 columns
  static constexpr int STAGE = SPAN * SLAB;
  static constexpr int OUTPUTS = OUT == SWIGLU ? 8 : 16; // outputs of a unit
  static constexpr int SENT = N / 4 * 2 * XR * 8;        // bytes
  static constexpr int NORMERS = OUT == NORM_STORE && N <= 64 ? 4 : 1; // More than one warp computes norms if registers suffice.
  static constexpr int ALL = WGMMA_THREADS + (1 + NORMERS) * WARP;
  static constexpr bool NORMED = OUT == NORM_STORE || OUT == SWIGLU;
  static constexpr bool ADDED = OUT == RESIDUAL || OUT == ALL_REDUCE; // The sums are added to the stream.
  static constexpr bool AHEAD = ADDED && N <= 48; // Registers suffice to load the stream ahead.
  static_assert(N % 16 == 0 && (CLUSTER == 1 || CLUSTER == 2), "units, and pairs of blocks");
  static_assert(XR * 128 + UNITS * WGMMA_UNIT >= 64 * 128, "a product reads 64 rows of inputs, those that there are not of what lies behind");

  const GemmArgs &a;
  const TensorMap &weights, &inputs;
  u8 *ring;
  u64 *full, *empty;
  WgmmaShared<N, XR> &shared;
  Deal deal;
  int rank, stages; // rank in the cluster; stages of this block
#if RANKS > 1
  u64 **packets; // addresses of the packets of every rank of the model
#endif

  struct Cursor {
    int slot;
    u32 phase;
    __device__ __forceinline__ void next() {
      if (++slot == STAGES) slot = 0, phase ^= 1;
    }
  };

  // A Tile is the units of one pass.
  struct Tile {
    int first, units;
  };
  __device__ __forceinline__ Tile tile(int pass) const {
    int first = deal.first(pass, blockIdx.x / CLUSTER);
    return {first, deal.first(pass, blockIdx.x / CLUSTER + 1) - first};
  }

  // column is the first column of one of the block's stages.
  __device__ __forceinline__ int column(int stage) const { return (stage * CLUSTER + rank) * SPAN * 64; }

  __device__ __forceinline__ void copy_weights(const Tile &t, int stage, int slot) const {
    u32 at = shared_address(ring) + slot * STAGE + XR * 128;
    expect_boxes(full + slot, SPAN * UNITS * WGMMA_UNIT);
#pragma unroll
    for (int g = 0; g < WGMMA_GROUPS; g++)
#pragma unroll
      for (int s = 0; s < SPAN; s++) copy_box(at + s * SLAB + g * N * 128, weights, column(stage) + s * 64, (t.first + g * MINE) * OUTPUTS, 0, full + slot);
  }

  __device__ __forceinline__ void copy_inputs(int stage, int slot) const {
    expect_boxes(full + slot, SPAN * XR * 128);
#pragma unroll
    for (int s = 0; s < SPAN; s++) copy_box(shared_address(ring) + slot * STAGE + s * SLAB, inputs, column(stage) + s * 64, 0, 0, full + slot);
  }

  // produce is the loop of the one copying thread. Its first round of weights does not wait for the
  // kernel before, and then the next kernel may start (gemm_skinny.cu).
  __device__ void produce() const {
    Cursor w = {0, 1};
    int ahead = 0;
    Tile t = tile(0);
    if (t.units > 0) {
#pragma unroll 1
      for (; ahead < STAGES && ahead < stages; ahead++) copy_weights(t, ahead, ahead);
    }
    let_next_start();
    wait_for_previous();
#pragma unroll 1
    for (int i = 0; i < ahead; i++, w.next()) copy_inputs(i, w.slot);
#pragma unroll 1
    for (int pass = 0, stage = ahead; pass < deal.passes; pass++, stage = 0) {
      t = tile(pass);
      if (t.units == 0) return;
#pragma unroll 1
      for (; stage < stages; stage++, w.next()) {
        barrier_wait(empty + w.slot, w.phase);
        copy_weights(t, stage, w.slot);
        copy_inputs(stage, w.slot);
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[N / 2], Cursor &c, int group) const {
#pragma unroll 1
    for (int stage = 0; stage < stages; stage++, c.next()) {
      barrier_wait(full + c.slot, c.phase);
      u32 x = shared_address(ring) + c.slot * STAGE, w = x + XR * 128 + group * N * 128;
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < 4 * SPAN; k++) wgmma_product(d, descriptor(x + k / 4 * SLAB + k % 4 * 32, 16), descriptor(w + k / 4 * SLAB + k % 4 * 32, 16));
      wgmma_commit();
      wgmma_wait<0>();
      if (threadIdx.x % WARP == 0) barrier_arrive(empty + c.slot);
    }
    settle(d);
  }

  // place is a thread's index in its warpgroup; the first 2*XR threads have inputs.
  __device__ __forceinline__ int place() const { return threadIdx.x % 128; }

  // send_sums sends a warpgroup's sums to the other block, once that has used those of the pass
  // before.
  __device__ __forceinline__ void send_sums(const float (&d)[N / 2], int pass) const {
    if (pass > 0) {
      barrier_wait(&shared.taken, (pass - 1) & 1);
      if (place() == 0) barrier_expect(&shared.taken, sizeof shared.word);
    }
    if (place() >= 2 * XR) return;
#pragma unroll
    for (int i = 0; i < N / 4; i++) send(&shared.sums[i][place()], &shared.received, rank ^ 1, make_float2(d[2 * i], d[2 * i + 1]));
  }

  // add_sums adds the sums that the other block sent.
  __device__ __forceinline__ void add_sums(float (&d)[N / 2], int pass, int group) const {
    barrier_wait(&shared.received, pass & 1);
    if (place() < 2 * XR) {
#pragma unroll
      for (int i = 0; i < N / 4; i++) {
        float2 v = shared.sums[i][place()];
        d[2 * i] += v.x, d[2 * i + 1] += v.y;
      }
    }
    if (pass + 1 == deal.passes) return;
    sync_threads_of(3 + group, 128);
    if (place() != 0) return;
    barrier_expect(&shared.received, SENT);
    send(&shared.word, &shared.taken, rank ^ 1, make_float2(0.f, 0.f));
  }

  // A Stream is the part of the residual stream that a thread adds to, with the norm's weights. It is
  // loaded while the weights are in flight.
  struct Stream {
    float2 x[MINE][2][2]; // of inputs g and g+8, and of weights 2t and 2t+8 and the next ones
    u32 norm[MINE][2];
  };

  __device__ __forceinline__ int sequence(int h) const { return place() / WARP * 16 + threadIdx.x % WARP / 4 + 8 * h; }

  __device__ __forceinline__ void load_stream(Stream &s, const Tile &t, int group) const {
    int o = threadIdx.x % 4 * 2;
#pragma unroll
    for (int u = 0; u < MINE; u++) {
      int unit = group * MINE + u, first = (t.first + unit) * 16 + o;
#pragma unroll
      for (int c = 0; c < 2; c++) {
        s.norm[u][c] = unit < t.units ? *(const u32 *)(a.norm + first + 8 * c) : 0;
#pragma unroll
        for (int h = 0; h < 2; h++)
          s.x[u][h][c] = unit < t.units && sequence(h) < a.batch ? __ldcg((const float2 *)(a.y + (u64)sequence(h) * a.n + first + 8 * c)) : make_float2(0.f, 0.f);
      }
    }
  }

  // finish_stream adds a thread's sums to the stream, and prepares the next GEMM. Four lanes have the
  // 16 values of a unit and a sequence.
  __device__ __forceinline__ void finish_stream(const float (&d)[N / 2], const Stream &s, const Tile &t, int group) const {
    int o = threadIdx.x % 4 * 2;
#pragma unroll
    for (int u = 0; u < MINE; u++) {
      int unit = group * MINE + u;
      if (unit >= t.units) break;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        int seq = sequence(h);
        float ss = 0.f;
#pragma unroll
        for (int c = 0; c < 2; c++) {
          float2 x = s.x[u][h][c];
          x.x += d[u * 8 + c * 4 + 2 * h], x.y += d[u * 8 + c * 4 + 2 * h + 1];
          ss += x.x * x.x + x.y * x.y;
          u64 to = (u64)seq * a.n + (t.first + unit) * 16 + o + 8 * c;
          if (seq >= a.batch) continue;
          *(float2 *)(a.y + to) = x;
          *(u32 *)(a.h + to) = pack(x.x * gain(low(s.norm[u][c])), x.y * gain(high(s.norm[u][c])));
        }
        ss += __shfl_xor_sync(FULL, ss, 1);
        ss += __shfl_xor_sync(FULL, ss, 2);
        if (o == 0 && seq < a.batch) a.sums[(u64)seq * (a.n / 16) + t.first + unit] = ss;
      }
    }
  }

#if RANKS > 1
  // A thread sends its four values of a unit and a sequence as two packets, and those of a warp lie
  // together. A packet has the upper 24 bits of two float32 values, rounded to nearest, and the lower
  // 16 bits of the epoch. That is half the bytes of whole values with an epoch each, which took longer
  // on the links (docs/log/native-experiments.md). The packets need no more room than whole values of
  // the batch, because XR is less than twice the batch.
  static constexpr int VIEW = RANKS > 4 ? 1 : RANKS > 2 || MINE > 4 ? 2 : 2 * MINE; // halves of units that are polled at a time
  static constexpr int SEEN = RANKS > 2 ? RANKS : 1; // ranks of each: one other rank, or all in their order

  // short_value is a value as it is sent, with its last 8 bits 0; NaN stays NaN.
  __device__ static __forceinline__ u32 short_value(float v) {
    u32 bits = __float_as_uint(v);
    return (bits << 1 > 0xff000000u ? bits : bits + 0x80) & 0xffffff00u;
  }

  // ll_position is the place of half i of a warpgroup's units among the packets.
  __device__ __forceinline__ u64 ll_position(int i, const Tile &t, int group) const {
    return ((u64)(t.first + group * MINE + i / 2) * (XR / 8) + place() / WARP * 2 + i % 2) * 64 + threadIdx.x % WARP * 2;
  }

  // exchange sends a thread's sums to the other ranks and replaces them by the sums over all ranks.
  // When it returns, all threads of the warpgroup have read the epoch.
  __device__ __forceinline__ void exchange(float (&d)[N / 2], u32 epoch, const Tile &t, int group) const {
    const LLBuffers &m = a.ll;
    u64 words = (u64)a.n * (XR / 2); // packets of a rank
#pragma unroll
    for (int i = 0; i < 2 * MINE; i++) {
      if (group * MINE + i / 2 >= t.units || sequence(i % 2) >= a.batch) continue;
      u64 word[2];
#pragma unroll
      for (int c = 0; c < 2; c++) {
        float *v = d + i / 2 * 8 + c * 4 + i % 2 * 2;
        u32 x = short_value(v[0]), y = short_value(v[1]);
        v[0] = __uint_as_float(x), v[1] = __uint_as_float(y); // the value as the other ranks see it
        word[c] = (u64)epoch << 48 | (u64)y << 16 | x >> 8;
      }
      for (int to = 0; to < RANKS; to++)
        if (to != m.rank) ll_store_pair(packets[to] + ll_offset(epoch, m.rank, words) + ll_position(i, t, group), word[0], word[1]);
    }
#pragma unroll
    for (int from = 0; from < 2 * MINE; from += VIEW) take_view(d, from, epoch, words, t, group);
    sync_threads_of(3 + group, 128);
  }

  // take_view waits for the other ranks' values of some halves of units, each of 8 sequences, and adds
  // them. It polls all of them at once, which takes as long as for one.
  __device__ __forceinline__ void take_view(float (&d)[N / 2], int from, u32 epoch, u64 words, const Tile &t, int group) const {
    const LLBuffers &m = a.ll;
    u64 got[VIEW][SEEN][2], begin = 0;
    for (u32 looks = 1;; looks++) {
      int missing = -1;
#pragma unroll
      for (int i = 0; i < VIEW; i++) {
        bool any = group * MINE + (from + i) / 2 < t.units && sequence((from + i) % 2) < a.batch;
#pragma unroll
        for (int s = 0; s < SEEN; s++) {
          int r = RANKS > 2 ? s : m.rank ^ 1;
          if (any && r != m.rank) ll_load_pair(packets[m.rank] + ll_offset(epoch, r, words) + ll_position(from + i, t, group), got[i][s]);
          else got[i][s][0] = got[i][s][1] = (u64)epoch << 48;
        }
      }
#pragma unroll
      for (int v = 0; v < VIEW * SEEN * 2; v++)
        if ((got[v / 2 / SEEN][v / 2 % SEEN][v % 2] >> 48) != (epoch & 0xffff)) missing = RANKS > 2 ? v / 2 % SEEN : m.rank ^ 1;
      if (missing < 0) break;
      if (looks % 64) continue;
      if (begin == 0) begin = nanoseconds();
      if (waited(begin, m.limit)) give_up(m.late, missing + 1);
    }
#pragma unroll
    for (int v = 0; v < VIEW * 4; v++) {
      int i = v / 4, c = v / 2 % 2;
      float &local = d[(from + i) / 2 * 8 + c * 4 + (from + i) % 2 * 2 + v % 2], sum = RANKS > 2 ? 0.f : local;
#pragma unroll
      for (int s = 0; s < SEEN; s++) {
        u64 word = got[i][s][c];
        float other = RANKS > 2 && s == m.rank ? local : __uint_as_float(v % 2 ? (u32)(word >> 16) & 0xffffff00u : (u32)word << 8);
        sum = RANKS > 2 && s == 0 ? other : sum + other;
      }
      local = sum;
    }
  }
#endif

  // finish writes a thread's results of a GEMM with RMSNorm prologue, or of one whose sums another
  // kernel takes.
  __device__ __forceinline__ void finish(const float (&d)[N / 2], const float *scale, const Tile &t, int group) const {
    int lane = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int seq = sequence(h);
      if (seq >= a.batch) continue;
      float s = OUT == STORE ? 1.f : scale[seq];
#pragma unroll
      for (int u = 0; u < MINE; u++) {
        int unit = group * MINE + u;
        if (unit >= t.units) break;
        if (OUT == SWIGLU) { // Gates of all units come first, then up.
          int o = (t.first + unit) * 8 + 2 * lane;
          const float *gate = d + u * 4 + 2 * h, *up = gate + N / 4;
          *(u32 *)(a.h + (u64)seq * a.n + o) = pack(activate(gate[0] * s) * (up[0] * s), activate(gate[1] * s) * (up[1] * s));
        } else {
#pragma unroll
          for (int c = 0; c < 4; c++) {
            int o = (t.first + unit) * 16 + c / 2 * 8 + 2 * lane + c % 2;
            if (o < a.n) a.y[(u64)seq * a.n + o] = d[u * 8 + c / 2 * 4 + 2 * h + c % 2] * s;
          }
        }
      }
    }
  }

  // scales computes the reciprocal norms of the inputs. Each of its warps computes eight at a time.
  __device__ __forceinline__ void scales(float *scale) const {
    int lane = threadIdx.x % WARP;
    float each = 1.f / a.k;
#pragma unroll 1
    for (int first = (threadIdx.x - WGMMA_THREADS) / WARP * 8 - 8; first < XR; first += 8 * NORMERS) {
      float ss[8] = {};
#pragma unroll 1
      for (int i = lane * 4; i < a.k / 16; i += WARP * 4) {
        float4 v[8];
#pragma unroll
        for (int n = 0; n < 8; n++) v[n] = __ldcg((const float4 *)(a.squares + (u64)min(first + n, a.batch - 1) * (a.k / 16) + i));
#pragma unroll
        for (int n = 0; n < 8; n++) ss[n] += (v[n].x + v[n].y) + (v[n].z + v[n].w);
      }
#pragma unroll
      for (int n = 0; n < 8; n++) {
        float s = warp_sum(ss[n]);
        if (lane == 0) scale[first + n] = rsqrtf(s * each + a.eps);
      }
    }
  }

  // consume is the loop of a warpgroup.
  __device__ void consume(const float *scale) const {
    int group = __shfl_sync(FULL, threadIdx.x / 128, 0);
    Cursor c = {0, 0};
#pragma unroll 1
    for (int pass = 0; pass < deal.passes; pass++) {
      Tile t = tile(pass);
      bool mine = CLUSTER == 1 || group == rank;
      float d[N / 2] = {};
      Stream s;
      if (AHEAD && mine && t.units > 0) load_stream(s, t, group);
#if RANKS > 1
      u32 epoch = 0;
      bool exchanges = OUT == ALL_REDUCE && mine && group * MINE < t.units;
      if (exchanges) epoch = __ldcg(a.epochs + t.first + group * MINE) + 1; // No other warpgroup has these units.
#endif
      if (t.units > 0) multiply(d, c, group);
      if (NORMED && pass == 0) sync_threads_of(2, WGMMA_THREADS + NORMERS * WARP); // The norms are computed.
      if (t.units == 0) return;
      if (!mine) {
        send_sums(d, pass);
        continue;
      }
      if (CLUSTER > 1) add_sums(d, pass, group);
#if RANKS > 1
      if (exchanges) {
        exchange(d, epoch, t, group);
        if (place() < min(MINE, t.units - group * MINE)) a.epochs[t.first + group * MINE + place()] = epoch;
      }
#endif
      if (ADDED && !AHEAD) load_stream(s, t, group);
      if (ADDED)
        finish_stream(d, s, t, group);
      else
        finish(d, scale, t, group);
    }
  }

  __device__ static void run(const GemmArgs &a, const TensorMap &weights, const TensorMap &inputs) {
    DYNAMIC_SHARED(memory);
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ WgmmaShared<CLUSTER == 1 ? 4 : N, CLUSTER == 1 ? 1 : XR> sums;
    __shared__ float scale[XR];
    u8 *ring = memory + (0u - shared_address(memory)) % 1024;
    int rank = blockIdx.x % CLUSTER, all = (a.k + SPAN * 64 - 1) / (SPAN * 64);
#if RANKS > 1
    __shared__ u64 *packets[RANKS];
    if (OUT == ALL_REDUCE && threadIdx.x < RANKS) packets[threadIdx.x] = a.ll.packets[threadIdx.x];
    WgmmaGemm l = {a, weights, inputs, ring, full, empty, (WgmmaShared<N, XR> &)sums, Deal(a.n, OUTPUTS, UNITS, gridDim.x / CLUSTER), rank, (all + CLUSTER - 1 - rank) / CLUSTER, packets};
#else
    WgmmaGemm l = {a, weights, inputs, ring, full, empty, (WgmmaShared<N, XR> &)sums, Deal(a.n, OUTPUTS, UNITS, gridDim.x / CLUSTER), rank, (all + CLUSTER - 1 - rank) / CLUSTER};
#endif
    if (threadIdx.x == WGMMA_THREADS) {
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, 2), barrier_init(empty + i, WGMMA_THREADS / WARP);
      if (CLUSTER > 1) {
        barrier_init(&sums.received, 1), barrier_init(&sums.taken, 1);
        barrier_expect(&sums.received, SENT), barrier_expect(&sums.taken, sizeof sums.word);
      }
      show_barriers();
      fetch_map(inputs);
    }
    __syncthreads();
    if (CLUSTER > 1) cluster_begin();
    if (threadIdx.x == WGMMA_THREADS)
      l.produce();
    else
      wait_for_previous();
    __syncwarp();
    if (CLUSTER > 1) cluster_wait(); // The other block has initialized its barriers.
    if (NORMED && threadIdx.x >= WGMMA_THREADS + WARP) {
      l.scales(scale);
      arrive_at(2, WGMMA_THREADS + NORMERS * WARP);
    }
    if (threadIdx.x < WGMMA_THREADS) l.consume(scale);
  }
};

#define WGMMA_KERNEL(name, SHAPE, OUT)                                                                                           \
  extern "C" __global__ void __launch_bounds__(WgmmaGemm<SHAPE, OUT>::ALL, 2)                                                           \
      name(const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap inputs, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, const bf16 *norm) {                       \
    GemmArgs a = {nullptr, nullptr, n, k, batch, eps, squares, y, h, sums, norm};                                              \
    WgmmaGemm<SHAPE, OUT>::run(a, weights, inputs);                                                                           \
  }

#if RANKS > 1
#define WGMMA_RESIDUAL(rows)                                                                                                        \
  WGMMA_KERNEL(wgmma_plain_##rows, WGMMA_RESIDUAL_##rows, STORE)                                                                     \
  extern "C" __global__ void __launch_bounds__(WgmmaGemm<WGMMA_RESIDUAL_##rows, ALL_REDUCE>::ALL, 2)                                            \
      wgmma_all_reduce_##rows(const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap inputs, int n, int k, int batch, float eps, \
                         const float *squares, float *y, bf16 *h, float *sums, const bf16 *norm, u64 *const *packets, u32 *late, u64 limit, int rank, u32 *epochs) { \
    GemmArgs a = {nullptr, nullptr, n, k, batch, eps, squares, y, h, sums, norm, 1, nullptr, nullptr, {packets, late, limit, rank}, epochs}; \
    WgmmaGemm<WGMMA_RESIDUAL_##rows, ALL_REDUCE>::run(a, weights, inputs);                                                                   \
  }
#else
#define WGMMA_RESIDUAL(rows) WGMMA_KERNEL(wgmma_residual_##rows, WGMMA_RESIDUAL_##rows, RESIDUAL)
#endif

#define WGMMA_KERNELS(rows)                                        \
  WGMMA_KERNEL(wgmma_norm_##rows, WGMMA_NORM_##rows, NORM_STORE)     \
  WGMMA_KERNEL(wgmma_head_##rows, WGMMA_HEAD_##rows, NORM_STORE)         \
  WGMMA_KERNEL(wgmma_swiglu_##rows, WGMMA_SWIGLU_##rows, SWIGLU)       \
  WGMMA_RESIDUAL(rows)

#ifdef WGMMA_NORM_32
WGMMA_KERNELS(32)
#endif
#ifdef WGMMA_NORM_64
WGMMA_KERNELS(64)
#endif

#endif
